// Reads recorded runs (see traces/README.md).
import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';

const root = new URL('../traces/', import.meta.url);

/** Names of the recorded runs in one folder, without extensions, sorted. */
export function traceNames(folder) {
  return readdirSync(new URL(`${folder}/`, root))
    .filter((name) => name.endsWith('.json.gz'))
    .map((name) => name.slice(0, -'.json.gz'.length))
    .sort();
}

/** One recorded run, parsed. */
export function readTrace(folder, name) {
  return JSON.parse(gunzipSync(readFileSync(new URL(`${folder}/${name}.json.gz`, root))).toString('utf8'));
}
