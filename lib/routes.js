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

  function makeRoom() {
    handles += 1;
    if (handles <= MAX_HANDLES) return;
    routes = new Map();
    accounts = new Map();
    handles = 1;
    native.sweepRoutes();
  }

  function route(platform, modelId, keyId) {
    const known = routes.get(platform)?.get(modelId)?.get(keyId);
    if (known !== undefined) return known;
    makeRoom();
    let models = routes.get(platform);
    if (models === undefined) routes.set(platform, (models = new Map()));
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
    let keys = accounts.get(platform);
    if (keys === undefined) accounts.set(platform, (keys = new Map()));
    const handle = native.account(platform, keyId);
    keys.set(keyId, handle);
    return handle;
  }

  return { route, account };
}

module.exports = { createRoutes };
