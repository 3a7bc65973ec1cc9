// Runs a script of the tests in a Node process of its own, the same Node that runs the test.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/**
 * @param {string} script file name beside this module
 * @param {string[]} args
 * @param {{ flags?: string[], env?: object }} [options]
 * @returns {Promise<{ code: number | null, signal: string | null, stdout: string, stderr: string }>}
 */
export function runNode(script, args, { flags = [], env = {} } = {}) {
  const child = startNode(script, args, { flags, env });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr']) {
    child[name].setEncoding('utf8').on('data', (text) => {
      output[name] += text;
    });
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, ...output }));
  });
}

/** The same, without waiting: the child process with piped output. */
export function startNode(script, args, { flags = [], env = {} } = {}) {
  const path = fileURLToPath(new URL(script, import.meta.url));
  return spawn(process.execPath, [...flags, path, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, NODE_NO_WARNINGS: '1', ...env },
  });
}
