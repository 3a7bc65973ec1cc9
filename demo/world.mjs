// What the demo's virtual world is made of: a clock with a queue of events, and random numbers from a seed.

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;

/** Random numbers in 0..1, the same for the same seed (mulberry32). */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A waiting time with the given mean, as between independent arrivals. */
export const exponential = (random, mean) => -Math.log(1 - random()) * mean;

/** Virtual time: events run in order, each at its own instant; nothing waits. */
export class World {
  #heap = [];
  #sequence = 0;

  constructor(start) {
    this.now = start;
  }

  at(time, run) {
    const heap = this.#heap;
    // Ties run in the order they were planned, so that a seed gives one history.
    heap.push({ time: Math.max(time, this.now), sequence: this.#sequence++, run });
    let child = heap.length - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      if (!before(heap[child], heap[parent])) break;
      [heap[child], heap[parent]] = [heap[parent], heap[child]];
      child = parent;
    }
  }

  after(delay, run) {
    this.at(this.now + Math.max(1, Math.round(delay)), run);
  }

  async runUntil(end) {
    for (;;) {
      const next = this.#heap[0];
      if (!next || next.time > end) break;
      this.#removeFirst();
      this.now = next.time;
      const pending = next.run();
      if (pending) await pending;
    }
    this.now = end;
  }

  #removeFirst() {
    const heap = this.#heap;
    const last = heap.pop();
    if (heap.length === 0) return;
    heap[0] = last;
    let parent = 0;
    for (;;) {
      let least = parent;
      for (const child of [2 * parent + 1, 2 * parent + 2]) {
        if (child < heap.length && before(heap[child], heap[least])) least = child;
      }
      if (least === parent) return;
      [heap[parent], heap[least]] = [heap[least], heap[parent]];
      parent = least;
    }
  }
}

const before = (a, b) => a.time < b.time || (a.time === b.time && a.sequence < b.sequence);

/** HH:MM:SS of a virtual instant, in UTC. */
export const clockTime = (ms) => new Date(ms).toISOString().slice(11, 19);

/** A table as text: the first column to the left, numbers to the right. */
export function table(head, rows) {
  const cells = [head, ...rows].map((row) => row.map((cell) => (cell === 0 ? '·' : String(cell))));
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column].length)));
  const line = (row) =>
    row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column]))).join('  ');
  return [line(cells[0]), widths.map((width) => '─'.repeat(width)).join('  '), ...cells.slice(1).map(line)]
    .map((text) => `  ${text.trimEnd()}`)
    .join('\n');
}
