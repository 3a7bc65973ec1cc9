// A TCP proxy that can lose a connection in two ways: cut it, or swallow what is sent.
import { once } from 'node:events';
import { createConnection, createServer } from 'node:net';

export async function startProxy(t, port) {
  const pairs = new Set();
  let swallow = false;
  const server = createServer((client) => {
    const upstream = createConnection(port, '127.0.0.1');
    const pair = [client, upstream];
    pairs.add(pair);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ]) {
      from.on('data', (chunk) => {
        if (!swallow) to.write(chunk);
      });
      from.on('error', () => {});
      from.on('close', () => {
        to.destroy();
        pairs.delete(pair);
      });
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    for (const pair of pairs) for (const socket of pair) socket.destroy();
  };
  t.after(() => {
    cut();
    server.close();
  });
  return {
    url: `redis://127.0.0.1:${server.address().port}`,
    cut,
    swallow: (on) => {
      swallow = on;
    },
  };
}
