// The parent's side of writer-child.mjs.
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { startNode } from './run-node.mjs';

export class Writer {
  /** @param {{ file: string, mode: 'addon' | 'sql', platform: string, now: number }} options */
  constructor(t, options) {
    this.child = startNode('writer-child.mjs', [JSON.stringify(options)]);
    this.child.stderr.pipe(process.stderr);
    this.lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
    this.exited = once(this.child, 'exit');
    t.after(() => this.child.kill());
  }

  /** Sends a command; resolves when the child has done it. */
  async ask(command) {
    this.child.stdin.write(`${command}\n`);
    const { value, done } = await this.lines.next();
    if (done || value !== `done ${command}`) throw new Error(`the writer answered ${value} to ${command}`);
  }

  async end() {
    await this.ask('end');
    const [code] = await this.exited;
    if (code !== 0) throw new Error(`the writer ended with ${code}`);
  }
}
