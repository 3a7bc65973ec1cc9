'use strict';

// How used up a connection's quota is: asked from the host's fetchers, read as each provider reports it, kept 30 s.

const { requireFunction, requireObject, requireString } = require('../args.js');
const { invalidArgument } = require('../errors.js');

/** An answer is reused this long. */
const TTL_MS = 30_000;
/** Answers kept before the old ones are looked for. */
const MIN_KEPT = 1024;
const FETCHERS = ['codex', 'bailian', 'loadConnection', 'fetchUsage', 'generic'];
const LONG_WINDOWS = new Set(['weekly', 'monthly']);

const finite = (value) => (typeof value === 'number' && Number.isFinite(value) ? value : null);
const clamp = (value) => Math.min(1, Math.max(0, value));

/** codex: a session window and a weekly one; either falls back to the answer's own figure. */
async function readCodex({ codex }, connectionId, { window }) {
  const answer = await codex?.(connectionId);
  const windows = answer?.windows;
  if (windows === null || typeof windows !== 'object') return null;
  const part = window === 'weekly' ? windows.weekly : windows.session;
  return finite(part?.percentUsed) ?? finite(answer.percentUsed);
}

const BAILIAN_WINDOWS = new Map([
  ['5h', 'window5h'],
  ['weekly', 'windowWeekly'],
  ['monthly', 'windowMonthly'],
]);

/** bailian: one figure per window; the answer's own figure stands for the windows it does not report. */
async function readBailian({ bailian }, connectionId, { window }) {
  const answer = await bailian?.(connectionId);
  const name = BAILIAN_WINDOWS.get(window);
  return finite(name === undefined ? answer?.percentUsed : answer?.[name]?.percentUsed);
}

async function readGeneric({ generic }, connectionId, _dimension, provider) {
  const answer = await generic?.(connectionId, provider);
  return finite(answer?.percentUsed) ?? finite(answer?.used_percent);
}

function createSaturation(ctx, scheduler, { updateAccountBuckets, getTokenHeaderSaturation }) {
  let fetchers = {};
  const registered = new Map();
  const answers = new Map();
  const asking = new Map();
  let kept = MIN_KEPT;

  /** An OAuth connection's usage, which also feeds the account windows. */
  async function readUsage(connectionId, { window }) {
    const connection = await fetchers.loadConnection?.(connectionId);
    if (!connection?.accessToken || connection.authType === 'apikey') return null;
    const usage = await fetchers.fetchUsage?.(connection);
    updateAccountBuckets(connectionId, usage);
    const used = finite(usage?.quotas?.[LONG_WINDOWS.has(window) ? 'weekly (7d)' : 'session (5h)']?.used);
    return used === null ? null : used / 100;
  }

  /** anthropic: the usage, or else the request headers of the last response. */
  async function readAnthropic(_fetchers, connectionId, dimension) {
    const used = await readUsage(connectionId, dimension).catch(() => null);
    return used ?? finite(scheduler.native.anthropicRequests(connectionId, ctx.now()));
  }

  const readers = new Map([
    ['codex', readCodex],
    ['bailian', readBailian],
    ['anthropic', readAnthropic],
    ['claude', readAnthropic],
  ]);

  async function ask(connectionId, provider, dimension) {
    let value = null;
    try {
      const fetcher = registered.get(provider);
      value = fetcher
        ? finite(await fetcher(connectionId, dimension))
        : await (readers.get(provider) ?? readGeneric)(fetchers, connectionId, dimension, provider);
    } catch {
      // A signal that cannot be had is no signal: the headers speak instead.
    }
    return clamp(value ?? getTokenHeaderSaturation(provider, connectionId)?.saturation ?? 0);
  }

  function keep(key, value) {
    const now = ctx.now();
    answers.set(key, { value, at: now });
    if (answers.size <= 2 * kept) return;
    for (const [old, { at }] of answers) if (now - at >= TTL_MS) answers.delete(old);
    kept = Math.max(MIN_KEPT, answers.size);
  }

  function cached(connectionId, provider, { unit, window }) {
    // Lengths keep names apart whatever characters they contain.
    const key = `${provider.length},${connectionId.length},${unit.length}:${provider}${connectionId}${unit}${window}`;
    const answer = answers.get(key);
    if (answer && ctx.now() - answer.at < TTL_MS) return answer.value;
    const already = asking.get(key);
    if (already) return already;
    const { generation } = scheduler;
    const question = ask(connectionId, provider, { unit, window }).then((value) => {
      if (asking.get(key) === question) asking.delete(key);
      if (generation === scheduler.generation) keep(key, value);
      return value;
    });
    asking.set(key, question);
    return question;
  }

  function dimensionOf(value) {
    const { unit, window } = requireObject(value, 'dimension');
    return { unit: requireString(unit, 'dimension.unit'), window: requireString(window, 'dimension.window') };
  }

  /** The host's own signal (option `saturation`) as it comes, or ours: a number at once when it is cached. */
  function saturationFor(connectionId, provider, dimension) {
    const own = ctx.options.saturation;
    return own ? own(connectionId, provider, dimension) : cached(connectionId, provider, dimension);
  }

  ctx.onReset(() => {
    answers.clear();
    asking.clear();
  });

  return {
    saturationFor,

    functions: {
      async getSaturation(connectionId, provider, dimension) {
        ctx.assertOpen();
        requireString(connectionId, 'connectionId');
        requireString(provider, 'provider');
        const asked = dimensionOf(dimension);
        if (!ctx.options.saturation) return cached(connectionId, provider, asked);
        try {
          return clamp(finite(await saturationFor(connectionId, provider, asked)) ?? 0);
        } catch {
          return 0;
        }
      },

      setSaturationFetchers(set) {
        ctx.assertOpen();
        requireObject(set, 'fetchers');
        const next = { ...fetchers };
        for (const name of FETCHERS) {
          const fetcher = set[name];
          if (fetcher === null) delete next[name];
          else if (fetcher !== undefined) next[name] = requireFunction(fetcher, `fetchers.${name}`);
        }
        fetchers = next;
      },

      registerSaturationFetcher(provider, fetcher) {
        ctx.assertOpen();
        requireString(provider, 'provider');
        if (provider === '') throw invalidArgument('provider must not be empty');
        registered.set(provider, requireFunction(fetcher, 'fetcher'));
      },
    },
  };
}

module.exports = { createSaturation };
