// Exchanges, queues and bindings.
'use strict';
const { scenario, both, defs } = require('./frame');

const b = Buffer.from;

both('queue.declare', async (t, q) => {
  const ch = await t.open();
  await t.tries('declare', () => ch.assertQueue(q));
  await t.tries('again', () => ch.assertQueue(q));
  await t.tries('passive', () => ch.checkQueue(q));
  ch.sendToQueue(q, b('m'));
  await t.ready(ch, q, 1);
  await t.tries('again', () => ch.assertQueue(q));
  await t.tries('delete', () => ch.deleteQueue(q));
  await t.tries('delete again', () => ch.deleteQueue(q));
  await t.fails('passive', (c) => c.checkQueue(q));
});

both('queue.inequivalent', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q, { arguments: { 'x-max-length': 5, 'x-message-ttl': 60000 } });
  for (const [what, options] of [
    ['durable', { durable: false }], ['auto-delete', { autoDelete: true }], ['exclusive', { exclusive: true }], ['no arguments', {}],
    ['max-length', { arguments: { 'x-max-length': 6, 'x-message-ttl': 60000 } }],
    ['type of max-length', { arguments: { 'x-max-length': '5', 'x-message-ttl': 60000 } }],
    ['one more', { arguments: { 'x-max-length': 5, 'x-message-ttl': 60000, 'x-expires': 60000 } }],
    ['one less', { arguments: { 'x-max-length': 5 } }],
    ['unknown argument', { arguments: { 'x-max-length': 5, 'x-message-ttl': 60000, 'other': 1 } }],
    ['other integer type', { arguments: { 'x-max-length': { '!': 'long', value: 5 }, 'x-message-ttl': 60000 } }],
    ['same', { arguments: { 'x-max-length': 5, 'x-message-ttl': 60000 } }],
  ]) await t.fails(what, (c) => c.assertQueue(q, options));
  await ch.deleteQueue(q);
});

scenario('queue.bad-arguments', async (t) => {
  const q = 'node.bad-arguments';
  for (const args of [
    { 'x-message-ttl': -1 }, { 'x-message-ttl': 'a' }, { 'x-message-ttl': 4294967296000 }, { 'x-message-ttl': 1.5 }, { 'x-expires': 0 },
    { 'x-expires': -1 }, { 'x-expires': 'a' }, { 'x-max-length': -1 }, { 'x-max-length': 'a' }, { 'x-max-length-bytes': -5 },
    { 'x-max-priority': 256 }, { 'x-max-priority': -1 }, { 'x-max-priority': 'a' }, { 'x-overflow': 'other' }, { 'x-overflow': 1 },
    { 'x-dead-letter-routing-key': 'k' }, { 'x-dead-letter-exchange': 5 },
    { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 5 }, { 'x-queue-mode': 'other' }, { 'x-queue-mode': 5 },
    { 'x-queue-type': 'other' }, { 'x-queue-type': 5 }, { 'x-single-active-consumer': 'yes' }, { 'x-queue-master-locator': 'other' },
    { 'x-message-ttl': null }, { 'x-max-length': true },
    { 'x-max-length': { '!': 'timestamp', value: 5 } },
  ]) await t.fails(JSON.stringify(args), (c) => c.assertQueue(q, { exclusive: true, arguments: args }));
});

scenario('queue.good-arguments', async (t) => {
  for (const args of [
    { 'x-message-ttl': 0 }, { 'x-expires': 1000 }, { 'x-max-length': 0 }, { 'x-max-priority': 255 }, { 'x-max-priority': 0 },
    { 'x-overflow': 'reject-publish-dlx' }, { 'x-queue-mode': 'lazy' }, { 'x-queue-type': 'classic' }, { 'x-other': 'a' },
    { 'x-single-active-consumer': true }, { 'x-queue-master-locator': 'min-masters' }, { 'x-dead-letter-exchange': 'node.none' },
  ]) await t.fails(JSON.stringify(args), (c) => c.assertQueue('node.good-arguments', { exclusive: true, arguments: args }));
});

scenario('queue.names', async (t) => {
  for (const name of ['amq.mine', 'amq', 'AMQ.mine', 'node.with space', 'node.with/slash', 'node.☃', 'x'.repeat(255), 'a'.repeat(254) + 'é']) {
    await t.fails(name.slice(0, 20), (c) => c.assertQueue(name, { exclusive: true }));
  }
});

scenario('queue.server-named', async (t) => {
  const ch = await t.open();
  const { queue } = await ch.assertQueue('', { exclusive: true });
  t.say(queue);
  t.say(await ch.assertQueue(queue, { exclusive: true }));
  t.say(await ch.rpc(defs.QueueBind, { queue: '', exchange: 'amq.direct', routingKey: '', arguments: {}, ticket: 0, nowait: false }, defs.QueueBindOk));
  ch.publish('amq.direct', queue, b('by name'));
  t.say(await ch.consume('', (m) => t.say('delivered', m.content), { noAck: true, consumerTag: 'c' }));
  await t.tries('delete the last', () => ch.deleteQueue(''));
  await t.fails('last declared, none', (c) => c.checkQueue(''));
  await t.fails('consume, none', (c) => c.consume('', () => {}));
});

both('queue.delete', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q);
  ch.sendToQueue(q, b('m'));
  await t.ready(ch, q, 1);
  await t.fails('if empty', (c) => c.deleteQueue(q, { ifEmpty: true }));
  await ch.consume(q, () => {}, { consumerTag: 'c' });
  await t.fails('if unused', (c) => c.deleteQueue(q, { ifUnused: true }));
  await t.fails('if both', (c) => c.deleteQueue(q, { ifUnused: true, ifEmpty: true }));
  await ch.cancel('c');
  await t.tries('purge', () => ch.purgeQueue(q));
  await ch.recover();
  await t.ready(ch, q, 1);
  await t.tries('purge', () => ch.purgeQueue(q));
  await t.tries('delete', () => ch.deleteQueue(q, { ifUnused: true, ifEmpty: true }));
  await t.fails('purge', (c) => c.purgeQueue(q));
});

both('queue.exclusive', async (t, q) => {
  const owner = await t.connect();
  const ch = await t.open(owner);
  t.say(await ch.assertQueue(q, { exclusive: true }));
  const other = await t.connect();
  await t.fails('declare', (c) => c.assertQueue(q, { exclusive: true }), other);
  await t.fails('declare otherwise', (c) => c.assertQueue(q), other);
  await t.fails('passive', (c) => c.checkQueue(q), other);
  await t.fails('get', (c) => c.get(q), other);
  await t.fails('consume', (c) => c.consume(q, () => {}), other);
  await t.fails('bind', (c) => c.bindQueue(q, 'amq.direct', 'k'), other);
  await t.fails('purge', (c) => c.purgeQueue(q), other);
  await t.fails('delete', (c) => c.deleteQueue(q), other);
  await t.fails('publish', async (c) => { c.sendToQueue(q, b('m')); await c.prefetch(1); }, other);
  await t.take(ch, q);
  await owner.close();
  await t.fails('gone', (c) => c.checkQueue(q), other);
});

both('queue.auto-delete', async (t, q) => {
  const c = await t.connect();
  const ch = await t.open(c);
  await ch.assertQueue(q, { autoDelete: true });
  await ch.consume(q, () => {}, { consumerTag: 'a' });
  await ch.consume(q, () => {}, { consumerTag: 'b' });
  await ch.cancel('a');
  t.say(await ch.checkQueue(q));
  await ch.cancel('b');
  await t.fails('gone', (x) => x.checkQueue(q), c);
});

both('queue.expires', async (t, q) => {
  const c = await t.connect();
  const ch = await t.open(c);
  await ch.assertQueue(q, { expires: 400 });
  await t.until('expiry', async () => {
    const x = await c.createChannel();
    x.on('error', (e) => t.say(e.message));
    const there = await x.consume(q, () => {}).then(() => true, () => false);
    if (there) await x.close();
    await new Promise((r) => setTimeout(r, 700));
    return !there;
  });
});

scenario('exchange.declare', async (t) => {
  const x = 'node.exchange';
  const ch = await t.open();
  await t.tries('declare', () => ch.assertExchange(x, 'topic'));
  await t.tries('again', () => ch.assertExchange(x, 'topic'));
  await t.tries('passive', () => ch.checkExchange(x));
  for (const [what, type, options] of [
    ['type', 'fanout', {}], ['durable', 'topic', { durable: false }], ['auto-delete', 'topic', { autoDelete: true }],
    ['internal', 'topic', { internal: true }], ['alternate', 'topic', { alternateExchange: 'amq.fanout' }],
  ]) await t.fails(what, (c) => c.assertExchange(x, type, options));
  await t.fails('unknown type', (c) => c.assertExchange('node.exchange2', 'node-type'));
  await t.fails('reserved', (c) => c.assertExchange('amq.mine', 'direct'));
  await t.fails('reserved, there', (c) => c.assertExchange('amq.direct', 'direct'));
  await t.fails('default', (c) => c.assertExchange('', 'direct'));
  await t.fails('passive unknown', (c) => c.checkExchange('node.unknown'));
  await t.fails('passive default', (c) => c.checkExchange(''));
  await t.fails('alternate of bad type', (c) => c.assertExchange('node.exchange2', 'direct', { arguments: { 'alternate-exchange': 5 } }));
  await t.tries('delete', () => ch.deleteExchange(x));
  await t.tries('delete again', () => ch.deleteExchange(x));
  await t.fails('delete default', (c) => c.deleteExchange(''));
  await t.fails('delete amq.topic', (c) => c.deleteExchange('amq.topic'));
});

scenario('exchange.delete-if-unused', async (t) => {
  const ch = await t.open();
  await ch.assertExchange('node.used', 'fanout');
  await ch.assertQueue('node.used', { exclusive: true });
  await ch.bindQueue('node.used', 'node.used', '');
  await t.fails('used', (c) => c.deleteExchange('node.used', { ifUnused: true }));
  await ch.unbindQueue('node.used', 'node.used', '');
  await t.tries('unused', () => ch.deleteExchange('node.used', { ifUnused: true }));
});

scenario('exchange.auto-delete', async (t) => {
  const ch = await t.open();
  await ch.assertExchange('node.autox', 'fanout', { autoDelete: true });
  await ch.assertQueue('node.autox', { exclusive: true });
  await ch.bindQueue('node.autox', 'node.autox', '');
  await ch.unbindQueue('node.autox', 'node.autox', '');
  await t.fails('gone', (c) => c.checkExchange('node.autox'));
});

scenario('exchange.internal', async (t) => {
  const ch = await t.open();
  await ch.assertExchange('node.internal', 'fanout', { internal: true });
  await t.fails('publish', async (c) => { c.publish('node.internal', '', b('m')); await c.prefetch(1); });
  await ch.deleteExchange('node.internal');
});

scenario('exchange.to-exchange', async (t) => {
  const ch = await t.open();
  for (const x of ['node.e1', 'node.e2', 'node.e3']) await ch.assertExchange(x, 'topic');
  const { queue } = await ch.assertQueue('node.e', { exclusive: true });
  await ch.bindExchange('node.e2', 'node.e1', 'a.#');
  await ch.bindExchange('node.e3', 'node.e2', '*.b');
  await ch.bindExchange('node.e1', 'node.e3', '#'); // a circle
  await ch.bindQueue(queue, 'node.e3', '#');
  await ch.bindQueue(queue, 'node.e1', '#');
  for (const key of ['a.b', 'a.c', 'b.b']) ch.publish('node.e1', key, b(key));
  await t.take(ch, queue, 3);
  await ch.unbindExchange('node.e2', 'node.e1', 'a.#');
  ch.publish('node.e1', 'a.b', b('last'));
  await t.take(ch, queue, 1);
  await t.fails('from unknown', (c) => c.bindExchange('node.e1', 'node.unknown', ''));
  await t.fails('to unknown', (c) => c.bindExchange('node.unknown', 'node.e1', ''));
  await t.fails('from default', (c) => c.bindExchange('node.e1', '', 'k'));
  await t.fails('to default', (c) => c.bindExchange('', 'node.e1', 'k'));
  for (const x of ['node.e1', 'node.e2', 'node.e3']) await ch.deleteExchange(x);
});

scenario('exchange.alternate', async (t) => {
  const ch = await t.open();
  await ch.assertExchange('node.alt', 'fanout');
  await ch.assertExchange('node.main', 'direct', { alternateExchange: 'node.alt' });
  await ch.assertExchange('node.lost', 'direct', { alternateExchange: 'node.unknown' });
  const { queue } = await ch.assertQueue('node.alternate', { exclusive: true });
  await ch.bindQueue(queue, 'node.alt', '');
  ch.publish('node.main', 'k', b('m'), { mandatory: true });
  await t.take(ch, queue, 1);
  ch.publish('node.lost', 'k', b('m'), { mandatory: true });
  await ch.prefetch(1);
  await ch.deleteExchange('node.alt');
  ch.publish('node.main', 'k', b('m2'), { mandatory: true });
  await ch.prefetch(1);
  for (const x of ['node.main', 'node.lost']) await ch.deleteExchange(x);
});

scenario('binding.errors', async (t) => {
  const ch = await t.open();
  await ch.assertQueue('node.bound', { exclusive: true });
  const c = t.connections[0];
  await t.fails('unknown queue', (x) => x.bindQueue('node.unknown', 'amq.direct', 'k'), c);
  await t.fails('unknown exchange', (x) => x.bindQueue('node.bound', 'node.unknown', 'k'), c);
  await t.fails('default exchange', (x) => x.bindQueue('node.bound', '', 'k'), c);
  await t.fails('unbind what is not bound', (x) => x.unbindQueue('node.bound', 'amq.direct', 'k'), c);
  await t.fails('unbind unknown queue', (x) => x.unbindQueue('node.unknown', 'amq.direct', 'k'), c);
  await t.fails('unbind unknown exchange', (x) => x.unbindQueue('node.bound', 'node.unknown', 'k'), c);
  await t.fails('unbind default', (x) => x.unbindQueue('node.bound', '', 'node.bound'), c);
  await t.fails('bad x-match', (x) => x.bindQueue('node.bound', 'amq.headers', '', { 'x-match': 'some' }), c);
  await t.fails('x-match number', (x) => x.bindQueue('node.bound', 'amq.headers', '', { 'x-match': 1 }), c);
  await t.fails('twice', async (x) => { await x.bindQueue('node.bound', 'amq.direct', 'k'); return x.bindQueue('node.bound', 'amq.direct', 'k'); }, c);
  ch.publish('amq.direct', 'k', b('once'));
  await t.take(ch, 'node.bound');
  t.say(await ch.checkQueue('node.bound'));
});

scenario('routing.topic', async (t) => {
  const ch = await t.open();
  const x = 'node.topics';
  await ch.assertExchange(x, 'topic');
  const patterns = ['#', '*', 'a.*', 'a.#', '#.c', 'a.*.c', '*.*', '', 'a..c', '#.#', '*.#'];
  for (const p of patterns) {
    const { queue } = await ch.assertQueue(`node.topic ${p}`, { exclusive: true });
    await ch.bindQueue(queue, x, p);
  }
  for (const key of ['a', 'a.b', 'a.b.c', 'a..c', '', '.', 'c', 'b.c', 'A.b']) ch.publish(x, key, b(key || '-'));
  await ch.prefetch(1);
  for (const p of patterns) {
    const got = [];
    for (let m = await ch.get(`node.topic ${p}`, { noAck: true }); m; m = await ch.get(`node.topic ${p}`, { noAck: true })) got.push(m.content.toString());
    t.say(p, got);
  }
  await ch.deleteExchange(x);
});

scenario('routing.headers', async (t) => {
  const ch = await t.open();
  const x = 'node.headers';
  await ch.assertExchange(x, 'headers');
  const bindings = {
    all: { 'x-match': 'all', a: 1, b: 'x' }, any: { 'x-match': 'any', a: 1, b: 'x' }, none: {}, allx: { 'x-match': 'all-with-x', 'x-a': 1, a: 1 },
    anyx: { 'x-match': 'any-with-x', 'x-a': 1 }, ignored: { 'x-match': 'all', 'x-a': 1, a: 1 }, anynone: { 'x-match': 'any' }, present: { a: null },
    nested: { t: { k: 'v' } }, list: { l: [1, 'a'] }, bool: { f: true }, double: { d: 1.5 },
  };
  for (const [name, args] of Object.entries(bindings)) {
    const { queue } = await ch.assertQueue(`node.headers.${name}`, { exclusive: true });
    await ch.bindQueue(queue, x, '', args);
  }
  const headers = [{}, { a: 1 }, { a: 1, b: 'x' }, { b: 'x' }, { a: 2, b: 'x' }, { a: '1', b: 'x' }, { 'x-a': 1, a: 1 }, { a: { '!': 'long', value: 1 } },
    { a: null }, { t: { k: 'v' } }, { l: [1, 'a'] }, { f: true }, { d: 1.5 }, { a: 1.5 }];
  headers.forEach((h, i) => ch.publish(x, '', b(`${i}`), { headers: h }));
  await ch.prefetch(1);
  for (const name of Object.keys(bindings)) {
    const got = [];
    for (let m = await ch.get(`node.headers.${name}`, { noAck: true }); m; m = await ch.get(`node.headers.${name}`, { noAck: true })) got.push(m.content.toString());
    t.say(name, got);
  }
  await ch.deleteExchange(x);
});

scenario('routing.copies', async (t) => {
  const ch = await t.open();
  for (const q of ['node.cc1', 'node.cc2', 'node.cc3']) await ch.assertQueue(q, { exclusive: true });
  ch.sendToQueue('node.cc1', b('m'), { CC: ['node.cc2', 'node.none'], BCC: 'node.cc3', headers: { h: 1 } });
  for (const q of ['node.cc1', 'node.cc2', 'node.cc3']) await t.take(ch, q);
  ch.sendToQueue('node.cc1', b('m'), { CC: ['node.cc1'] });
  await t.take(ch, 'node.cc1');
  t.say(await ch.checkQueue('node.cc1'));
  ch.sendToQueue('node.none', b('m'), { CC: ['node.none2'], mandatory: true });
  await ch.prefetch(1);
  await t.fails('bad CC', async (c) => { c.publish('', 'node.cc1', b('m'), { headers: { CC: 'node.cc2' } }); await c.prefetch(1); });
});

scenario('access.refused', async (t) => {
  const c = await t.connect({ user: 'limited', password: 'limited' });
  await t.fails('own queue', (x) => x.assertQueue('limited.q', { exclusive: true }), c);
  await t.fails('declare', (x) => x.assertQueue('other.q', { exclusive: true }), c);
  await t.fails('server-named', (x) => x.assertQueue('', { exclusive: true }), c);
  await t.fails('passive', (x) => x.checkQueue('other.q'), c);
  await t.fails('delete', (x) => x.deleteQueue('other.q'), c);
  await t.fails('exchange', (x) => x.assertExchange('other.x', 'fanout'), c);
  await t.fails('publish', async (x) => { x.publish('amq.direct', 'k', b('m')); await x.prefetch(1); }, c);
  await t.fails('publish to default', async (x) => { x.publish('', 'limited.q', b('m')); await x.prefetch(1); }, c);
  await t.fails('bind', (x) => x.bindQueue('limited.q', 'amq.direct', 'k'), c);
  await t.fails('get', (x) => x.get('other.q'), c);
  await t.fails('consume', (x) => x.consume('other.q', () => {}), c);
  await t.fails('purge', (x) => x.purgeQueue('other.q'), c);
  await t.fails('dead letters', (x) => x.assertQueue('limited.q2', { exclusive: true, deadLetterExchange: 'other.x' }), c);
  await t.fails('dead letters to the default exchange', (x) => x.assertQueue('limited.q2', { exclusive: true, deadLetterExchange: '' }), c);
  await t.fails('dead letters of what is there', (x) => x.assertQueue('limited.q', { exclusive: true, deadLetterExchange: 'other.x' }), c);
  await t.fails('alternate', (x) => x.assertExchange('limited.x', 'fanout', { alternateExchange: 'other.x' }), c);
});
