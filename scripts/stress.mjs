// `npm run stress`: answers from memory against SQL, 3 000 000 of them. Some minutes; `npm test` asks fewer.

import { run } from './proc.mjs';

const reads = process.env.QUOTA_STRESS_READS ?? '3000000';
const env = { ...process.env, QUOTA_STRESS_READS: reads };
process.exit(
  await run(process.execPath, ['--test', '--test-reporter=spec', '__test__/index-stress.test.mjs'], { env }),
);
