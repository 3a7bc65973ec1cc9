// A package registry with nothing but our packages: enough of the protocol for `npm install`, on a free local port.
// Any other package is "not found", so that a dependency that crept in fails the install.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { basename } from 'node:path';
import { capture } from '../proc.mjs';

/** The manifest inside a packed package. */
export const manifestOf = (file) => JSON.parse(capture('tar', ['-xzOf', file, 'package/package.json']));

/**
 * @param files paths of .tgz files
 * @returns {{ url, requests: string[], close() }}
 */
export async function startRegistry(files) {
  const packages = new Map();
  for (const file of files) {
    const body = readFileSync(file);
    const manifest = manifestOf(file);
    packages.set(manifest.name, {
      body,
      manifest,
      tarball: basename(file),
      integrity: `sha512-${createHash('sha512').update(body).digest('base64')}`,
      shasum: createHash('sha1').update(body).digest('hex'),
    });
  }
  const requests = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname).slice(1);
    requests.push(path);
    const [name, dash, tarball] = path.split('/');
    const found = packages.get(name);
    if (found && dash === '-' && tarball === found.tarball) {
      response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(found.body);
    } else if (found && dash === undefined) {
      const { version } = found.manifest;
      const { integrity, shasum } = found;
      const dist = { tarball: `http://${request.headers.host}/${name}/-/${found.tarball}`, integrity, shasum };
      const document = {
        name,
        'dist-tags': { latest: version },
        versions: { [version]: { ...found.manifest, _id: `${name}@${version}`, dist } },
      };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(document));
    } else {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"Not found"}');
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    requests,
    close: () => new Promise((resolve) => server.close(resolve)),
  };
}
