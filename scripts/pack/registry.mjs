// A package registry with nothing but our packages: enough of the protocol for `npm install` and `npm publish`, on a
// free local port.
// Any other package is "not found", so that a dependency that crept in fails the install.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { basename } from 'node:path';
import { capture } from '../proc.mjs';

/** The manifest inside a packed package. */
export const manifestOf = (file) => JSON.parse(capture('tar', ['-xzOf', file, 'package/package.json']));

function entryOf(manifest, body, tarball) {
  const integrity = `sha512-${createHash('sha512').update(body).digest('base64')}`;
  return { manifest, body, tarball, integrity, shasum: createHash('sha1').update(body).digest('hex') };
}

/** What `npm publish` sends: one version's manifest, and its tarball in base64. */
function entryFromPublish(document) {
  const [manifest] = Object.values(document.versions);
  const [[tarball, { data }]] = Object.entries(document._attachments);
  return entryOf(manifest, Buffer.from(data, 'base64'), tarball);
}

async function readJson(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString('utf8'));
}

/**
 * @param files paths of .tgz files that are there from the start; `npm publish` adds to them
 * @returns {{ url, published: string[], close() }} `published`: the names that were published, in order
 */
export async function startRegistry(files) {
  const packages = new Map();
  for (const file of files) {
    const manifest = manifestOf(file);
    packages.set(manifest.name, entryOf(manifest, readFileSync(file), basename(file)));
  }
  const published = [];
  const server = createServer(async (request, response) => {
    const answer = (status, document) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(document));
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname).slice(1);
    const [name, dash, tarball] = path.split('/');
    const found = packages.get(name);
    if (request.method === 'PUT') {
      packages.set(name, entryFromPublish(await readJson(request)));
      published.push(name);
      answer(201, {});
    } else if (found && dash === '-' && tarball === found.tarball) {
      response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(found.body);
    } else if (found && dash === undefined) {
      const { version } = found.manifest;
      const { integrity, shasum } = found;
      const dist = { tarball: `http://${request.headers.host}/${name}/-/${found.tarball}`, integrity, shasum };
      const versions = { [version]: { ...found.manifest, _id: `${name}@${version}`, dist } };
      answer(200, { name, 'dist-tags': { latest: version }, versions });
    } else {
      answer(404, { error: 'Not found' });
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    published,
    close: () => new Promise((resolve) => server.close(resolve)),
  };
}
