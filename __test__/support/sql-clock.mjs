// Makes SQLite's 'now' mean the test's clock on one connection, by overriding its date functions there.
import { openDatabase } from './driver.mjs';

const functions = ['date', 'time', 'datetime', 'julianday', 'unixepoch'];

/**
 * @param db the connection
 * @param {() => number} clock epoch milliseconds
 */
export function setSqlClock(db, clock) {
  // The built-in functions still do the work, on a connection of their own.
  const plain = openDatabase(':memory:');
  const evaluate = (name, args) => {
    const marks = args.map(() => '?').join(', ');
    return plain.prepare(`SELECT ${name}(${marks}) AS value`).get(...args).value;
  };
  const now = () => new Date(clock()).toISOString().replace('T', ' ').replace('Z', '');
  const replaceNow = (value) => (typeof value === 'string' && value.toLowerCase() === 'now' ? now() : value);

  for (const name of functions) {
    db.function(name, { varargs: true }, (...args) => {
      const [time = 'now', ...modifiers] = args;
      return evaluate(name, [replaceNow(time), ...modifiers]);
    });
  }
  db.function('strftime', { varargs: true }, (format, ...args) => {
    const [time = 'now', ...modifiers] = args;
    return evaluate('strftime', [format, replaceNow(time), ...modifiers]);
  });
}
