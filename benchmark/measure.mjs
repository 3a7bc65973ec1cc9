// Times contenders against each other: samples alternate, so that a slow moment of the machine hits all of them.

const SAMPLES = 9;
const SAMPLE_MS = 15;
/** Turns before the first that is timed: what reads a table once must not set how often the rest is run. */
const WARM_UP = 3;

function timeSync(run, iterations) {
  const started = process.hrtime.bigint();
  for (let index = 0; index < iterations; index++) run();
  return Number(process.hrtime.bigint() - started) / iterations;
}

async function timeAsync(run, iterations) {
  const started = process.hrtime.bigint();
  for (let index = 0; index < iterations; index++) await run();
  return Number(process.hrtime.bigint() - started) / iterations;
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** How often to run so that a sample lasts about SAMPLE_MS; also warms the code up. */
async function calibrate(time, run) {
  let iterations = 1;
  for (;;) {
    const each = await time(run, iterations);
    if (each * iterations > (SAMPLE_MS * 1e6) / 3) {
      return Math.max(1, Math.round((SAMPLE_MS * 1e6) / each));
    }
    iterations *= 4;
  }
}

/**
 * @param contenders name -> function; one that returns a promise is awaited at each turn
 * @param options.samples fewer for slow cases
 * @returns name -> { ns, low, high }: the median over the samples, and their spread
 */
export async function measure(contenders, { samples = SAMPLES } = {}) {
  const runs = [];
  for (const [name, run] of Object.entries(contenders)) {
    const time = run() instanceof Promise ? timeAsync : timeSync;
    await time(run, WARM_UP);
    runs.push({ name, run, time, iterations: await calibrate(time, run), took: [] });
  }
  for (let sample = 0; sample < samples; sample++) {
    for (const entry of runs) entry.took.push(await entry.time(entry.run, entry.iterations));
  }
  return Object.fromEntries(
    runs.map(({ name, took }) => [name, { ns: median(took), low: Math.min(...took), high: Math.max(...took) }]),
  );
}

/** 1234567 ns as "1.23 ms". */
export function duration(ns) {
  if (ns < 1000) return `${ns.toFixed(0)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toPrecision(3)} µs`;
  return `${(ns / 1e6).toPrecision(3)} ms`;
}

export const ratio = (value) => `${value >= 100 ? Math.round(value) : value.toPrecision(2)}x`;
