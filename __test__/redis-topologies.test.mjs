// Redis behind TLS, behind sentinels, and as a cluster.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';

import { command, freePort, startRedis } from './support/redis-server.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../index.js');

const DIMENSION = { poolId: 'p1', unit: 'requests', window: 'monthly' };

function storeOn(t, redis) {
  const core = createQuotaCore({ redis, logger: { warn() {} } });
  t.after(() => core.close());
  return core.getRedisQuotaStore();
}

function folder(t) {
  const path = mkdtempSync(join(tmpdir(), 'quota-redis-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function eventually(work, within = 15_000) {
  const until = performance.now() + within;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (performance.now() > until) throw error;
      await wait(100);
    }
  }
}

test('TLS with a certificate authority of one’s own, and a client certificate', async (t) => {
  const at = folder(t);
  const [caKey, ca, key, cert] = ['ca-key', 'ca', 'key', 'cert'].map((name) => join(at, `${name}.pem`));
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const openssl = (...args) => execFileSync('openssl', ['req', '-x509', ...curve, ...args], { stdio: 'ignore' });
  openssl('-subj', '/CN=Test CA', '-keyout', caKey, '-out', ca);
  const leaf = [
    '-addext',
    'basicConstraints=critical,CA:FALSE',
    '-addext',
    'subjectAltName=DNS:localhost,IP:127.0.0.1',
  ];
  openssl('-subj', '/CN=localhost', ...leaf, '-CA', ca, '-CAkey', caKey, '-keyout', key, '-out', cert);
  const tlsPort = await freePort();
  await startRedis(t, [
    ...['--tls-port', tlsPort, '--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', ca],
  ]);
  const url = `rediss://localhost:${tlsPort}`;
  const [authority, own, ownKey] = [ca, cert, key].map((path) => readFileSync(path, 'utf8'));
  const known = storeOn(t, { url, tls: { ca: authority, cert: own, key: ownKey } });
  assert.equal(await known.consume('k', DIMENSION, 1), 1);
  const withoutCertificate = storeOn(t, { url, tls: { ca: authority } });
  await assert.rejects(withoutCertificate.consume('k', DIMENSION, 1), { code: /^ERR_QUOTA_STORE_/ });
  const withoutAuthority = storeOn(t, { url });
  await assert.rejects(withoutAuthority.consume('k', DIMENSION, 1), { code: /^ERR_QUOTA_STORE_/ });
});

test('sentinels: the master they name, and the next one after it fell', async (t) => {
  const master = await startRedis(t);
  const replica = await startRedis(t, ['--replicaof', '127.0.0.1', master.port]);
  const config = join(folder(t), 'sentinel.conf');
  const settings = [
    `sentinel monitor team 127.0.0.1 ${master.port} 1`,
    'sentinel down-after-milliseconds team 500',
    'sentinel failover-timeout team 2000',
  ];
  writeFileSync(config, `${settings.join('\n')}\n`);
  const sentinel = await startRedis(t, ['--sentinel'], config);
  const sentinels = { master: 'team', nodes: [`redis://127.0.0.1:${sentinel.port}`] };
  const store = storeOn(t, { url: 'redis://team', sentinel: sentinels });
  assert.equal(await store.consume('k', DIMENSION, 3), 3);
  await eventually(async () => {
    assert.match(await replica.value('INFO', 'replication'), /master_link_status:up/);
    assert.match(await command(sentinel.port, 'SENTINEL', 'MASTER', 'team'), /num-slaves\r\n\$1\r\n1/);
    assert.equal(await replica.value('DBSIZE'), '1');
  });
  await master.stop();
  await eventually(async () => assert.ok((await store.consume('k', DIMENSION, 1)) >= 4));
  assert.match(await replica.value('INFO', 'replication'), /role:master/);

  const unknown = storeOn(t, { url: 'redis://team', sentinel: { ...sentinels, master: 'nobody' } });
  await assert.rejects(unknown.consume('k', DIMENSION, 1), { code: 'ERR_QUOTA_STORE_UNAVAILABLE' });
});

test('a cluster: keys of one prefix live in one slot, and move with it', async (t) => {
  const nodes = [];
  for (let index = 0; index < 2; index += 1) {
    nodes.push(await startRedis(t, ['--cluster-enabled', 'yes', '--cluster-config-file', `nodes-${index}.conf`]));
  }
  const [first, second] = nodes;
  await first.value('CLUSTER', 'ADDSLOTSRANGE', 0, 8191);
  await second.value('CLUSTER', 'ADDSLOTSRANGE', 8192, 16383);
  await first.value('CLUSTER', 'MEET', '127.0.0.1', second.port);
  await eventually(async () => {
    for (const node of nodes) assert.match(await node.value('CLUSTER', 'INFO'), /cluster_state:ok/);
  });
  for (const keyPrefix of ['{a}:', '{b}:', '{c}:', '{d}:']) {
    const store = storeOn(t, { url: first.url, cluster: true, keyPrefix });
    assert.equal(await store.consume('k', DIMENSION, 2), 2);
    assert.equal(await store.consume('k', DIMENSION, 2), 4);
    assert.equal(await store.peek('k', DIMENSION), 4);
  }
  const counts = await Promise.all(nodes.map((node) => node.value('DBSIZE')));
  assert.deepEqual(counts.map(Number).toSorted(), [2, 2], 'two prefixes on each node');
});
