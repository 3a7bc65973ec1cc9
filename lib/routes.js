'use strict';

/** Handles that may be out at a time before unused ones are taken back. */
const MAX_HANDLES = 100_000;

/**
 * Turns (platform, model, key) into the small number that native calls take. Nested Maps are the cheapest way to do so
 * from JavaScript; the table is bounded.
 */
function createRoutes(native) {
  let routes = new Map();
  let accounts = new Map();
  let handles = 0;
  let held = 0;
  /** The last platform's models: neighbours in a list of candidates are mostly of one platform. */
  let lastPlatform = null;
  let lastModels = null;

  function makeRoom() {
    if (handles < MAX_HANDLES || held > 0) return;
    // First: it refuses in the middle of a statement.
    native.sweepRoutes();
    routes = new Map();
    accounts = new Map();
    lastPlatform = null;
    handles = 0;
  }

  function route(platform, modelId, keyId) {
    if (platform !== lastPlatform) {
      lastModels = routes.get(platform);
      lastPlatform = platform;
    }
    const known = lastModels?.get(modelId)?.get(keyId);
    if (known !== undefined) return known;
    makeRoom();
    handles += 1;
    let models = routes.get(platform);
    if (models === undefined) routes.set(platform, (models = new Map()));
    lastModels = models;
    lastPlatform = platform;
    let keys = models.get(modelId);
    if (keys === undefined) models.set(modelId, (keys = new Map()));
    const handle = native.route(platform, modelId, keyId);
    keys.set(keyId, handle);
    return handle;
  }

  function account(platform, keyId) {
    const known = accounts.get(platform)?.get(keyId);
    if (known !== undefined) return known;
    makeRoom();
    handles += 1;
    let keys = accounts.get(platform);
    if (keys === undefined) accounts.set(platform, (keys = new Map()));
    const handle = native.account(platform, keyId);
    keys.set(keyId, handle);
    return handle;
  }

  /** From here to `letGo` no handle is taken back: the caller collects several, and may run code of its own caller. */
  function hold() {
    makeRoom();
    held += 1;
  }

  function letGo() {
    held -= 1;
  }

  return { route, account, hold, letGo };
}

module.exports = { createRoutes };
