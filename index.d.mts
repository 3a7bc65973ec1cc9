import * as core from './index.js';

export default core;
export * from './index.js';
