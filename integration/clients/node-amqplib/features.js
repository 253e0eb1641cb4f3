// RabbitMQ's extensions.
'use strict';
const { scenario, both, sleep, URIS } = require('./frame');

const b = Buffer.from;

both('ttl.queue', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q, { messageTtl: 50 });
  ch.sendToQueue(q, b('m'));
  await t.ready(ch, q, 0);
  await ch.deleteQueue(q);
  await ch.assertQueue(q, { messageTtl: 0 });
  ch.sendToQueue(q, b('m'));
  t.say('at once', await ch.get(q));
  await ch.deleteQueue(q);
});

both('ttl.message', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q);
  ch.sendToQueue(q, b('keeps'));
  ch.sendToQueue(q, b('expires behind'), { expiration: '20' });
  await sleep(100);
  t.say(await ch.checkQueue(q));
  await t.take(ch, q);
  await t.ready(ch, q, 0);
  ch.sendToQueue(q, b('lives'), { expiration: '60000' });
  await t.take(ch, q);
  for (const expiration of ['-1', 'a', '1.5', '', ' 5', '99999999999999']) {
    await t.fails(`expiration ${JSON.stringify(expiration)}`, async (c) => { c.sendToQueue(q, b('m'), { expiration }); await c.prefetch(1); });
  }
  await ch.deleteQueue(q);
});

both('dlx.reasons', async (t, q) => {
  const ch = await t.open();
  const dead = `${q}.dead`;
  await ch.assertQueue(dead);
  await ch.assertQueue(q, { deadLetterExchange: '', deadLetterRoutingKey: dead, maxLength: 2 });
  ch.sendToQueue(q, b('rejected'), { headers: { a: 1 }, CC: ['node.none'], persistent: true });
  const [m] = await t.take(ch, q, 1, {});
  ch.reject(m, false);
  await t.take(ch, dead);
  ch.sendToQueue(q, b('expired'), { expiration: '20', priority: 3 });
  await t.take(ch, dead);
  for (const m of ['m1', 'm2', 'm3']) ch.sendToQueue(q, b(m), { timestamp: 5, messageId: m });
  await t.take(ch, dead);
  t.say(await ch.purgeQueue(q));
  await ch.deleteQueue(q);
  await ch.deleteQueue(dead);
});

both('dlx.again', async (t, q) => {
  const ch = await t.open();
  const [a, z] = [`${q}.a`, `${q}.z`];
  await ch.assertQueue(a, { deadLetterExchange: '', deadLetterRoutingKey: z });
  await ch.assertQueue(z, { deadLetterExchange: '', deadLetterRoutingKey: a });
  ch.sendToQueue(a, b('m'), { headers: { n: [1] } });
  for (let i = 0; i < 3; i++) {
    for (const name of [a, z]) {
      const [m] = await t.take(ch, name, 1, {});
      ch.nack(m, false, false);
    }
  }
  await t.take(ch, a);
  await ch.deleteQueue(a);
  await ch.deleteQueue(z);
});

both('dlx.exchange', async (t, q) => {
  const ch = await t.open();
  const x = `${q}.x`;
  await ch.assertExchange(x, 'topic');
  await ch.assertQueue(q, { deadLetterExchange: x, messageTtl: 20 });
  await ch.assertQueue(`${q}.dead`);
  await ch.bindQueue(`${q}.dead`, x, '#');
  await ch.bindQueue(q, 'amq.topic', 'k.#');
  ch.publish('amq.topic', 'k.1', b('m'), { CC: ['k.2'], BCC: ['k.3'] });
  await t.take(ch, `${q}.dead`);
  await ch.deleteExchange(x);
  ch.sendToQueue(q, b('lost'));
  await t.ready(ch, q, 0);
  await ch.deleteQueue(q);
  await ch.deleteQueue(`${q}.dead`);
});

both('dlx.circle', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q, { deadLetterExchange: '', messageTtl: 30 });
  ch.sendToQueue(q, b('m'));
  await t.ready(ch, q, 0);
  await sleep(200);
  t.say(await ch.checkQueue(q));
  await ch.deleteQueue(q);
});

both('limit.drop-head', async (t, q) => {
  const ch = await t.open(undefined, true);
  await ch.assertQueue(q, { maxLength: 3 });
  for (let i = 1; i <= 5; i++) ch.sendToQueue(q, b(`m${i}`), {}, (err) => t.say(`m${i}`, err ? err.message : 'acked'));
  await ch.waitForConfirms();
  await t.take(ch, q, 3);
  await ch.deleteQueue(q);
  await ch.assertQueue(q, { arguments: { 'x-max-length-bytes': 10 } });
  for (const m of ['1234', '5678', 'abcd']) ch.sendToQueue(q, b(m));
  await ch.waitForConfirms();
  await t.take(ch, q, 2);
  ch.sendToQueue(q, b('longer than ten'));
  await ch.waitForConfirms();
  t.say(await ch.checkQueue(q));
  await ch.deleteQueue(q);
});

both('limit.reject-publish', async (t, q) => {
  const ch = await t.open(undefined, true);
  const dead = `${q}.dead`;
  await ch.assertQueue(dead);
  for (const overflow of ['reject-publish', 'reject-publish-dlx']) {
    await ch.assertQueue(q, { maxLength: 1, overflow, deadLetterExchange: '', deadLetterRoutingKey: dead });
    for (let i = 1; i <= 3; i++) {
      ch.sendToQueue(q, b(`m${i}`), {}, (err) => t.say(overflow, `m${i}`, err ? err.message : 'acked'));
      await ch.waitForConfirms().catch((e) => t.say(e.message));
    }
    await t.take(ch, q, 1);
    t.say(await ch.checkQueue(q));
    if (overflow === 'reject-publish-dlx') {
      await t.ready(ch, dead, 2);
      await t.take(ch, dead, 2);
    }
    t.say(await ch.checkQueue(dead));
    await ch.deleteQueue(q);
  }
  await ch.deleteQueue(dead);
});

both('priority.order', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q, { maxPriority: 5 });
  [1, 5, 3, undefined, 9, 5, 0, 2].forEach((priority, i) => ch.sendToQueue(q, b(`m${i}`), { priority }));
  await t.ready(ch, q, 8);
  await t.take(ch, q, 8);
  await ch.deleteQueue(q);
});

both('consumer.single-active', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q, { arguments: { 'x-single-active-consumer': true } });
  const seen = [];
  for (const tag of ['a', 'b']) await ch.consume(q, (m) => m && seen.push(`${tag}:${m.content}`), { noAck: true, consumerTag: tag });
  for (const m of ['m1', 'm2', 'm3']) ch.sendToQueue(q, b(m));
  await t.until('three', () => seen.length === 3);
  await ch.cancel('a');
  ch.sendToQueue(q, b('m4'));
  await t.until('four', () => seen.length === 4);
  t.say(seen);
  await t.fails('exclusive', (c) => c.consume(q, () => {}, { exclusive: true }));
  await ch.deleteQueue(q);
});

both('consumer.priority', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q);
  const seen = [];
  await ch.prefetch(2);
  for (const [tag, priority] of [['low', -1], ['high', 10], ['middle', undefined]]) {
    await ch.consume(q, (m) => m && seen.push(`${tag}:${m.content}`), { consumerTag: tag, priority });
  }
  for (let i = 1; i <= 5; i++) {
    ch.sendToQueue(q, b(`m${i}`));
    await t.until(i, () => seen.length === i);
  }
  t.say(seen);
  for (const priority of ['a', 1.5]) await t.fails(`priority ${priority}`, (c) => c.consume(q, () => {}, { priority }));
  await ch.deleteQueue(q);
});

both('consumer.cancelled', async (t, q) => {
  const c = await t.connect();
  const ch = await t.open(c);
  await ch.assertQueue(q);
  const told = [];
  await ch.consume(q, (m) => told.push(m), { consumerTag: 'c' });
  const other = await t.open();
  t.say(await other.deleteQueue(q));
  await t.until('cancel', () => told.length === 1);
  t.say(told);
  await t.tries('cancel', () => ch.cancel('c'));
  await t.tries('channel', () => ch.prefetch(1));
});

scenario('rpc.direct-reply-to', async (t) => {
  const c = await t.connect();
  const client = await t.open(c);
  const server = await t.open(await t.connect({}, { uri: URIS[URIS.length - 1] }));
  const { queue } = await server.assertQueue('node.rpc', { durable: false, autoDelete: true });
  await server.consume(queue, (m) => {
    t.say(m.properties.replyTo.startsWith('amq.rabbitmq.reply-to.'), m.properties.correlationId);
    server.sendToQueue(m.properties.replyTo, b(`${m.content}!`), { correlationId: m.properties.correlationId });
  }, { noAck: true });
  const replies = [];
  await client.consume('amq.rabbitmq.reply-to', (m) => { replies.push(m); t.say('reply', m.content, m.properties.correlationId, m.fields.exchange); }, { noAck: true, consumerTag: 'r' });
  for (const id of ['1', '2']) {
    client.sendToQueue(queue, b(`ask ${id}`), { replyTo: 'amq.rabbitmq.reply-to', correlationId: id });
    await t.until('reply', () => replies.length === Number(id));
  }
  await t.fails('with acknowledgements', (x) => x.consume('amq.rabbitmq.reply-to', () => {}), c);
  await t.fails('twice', async (x) => { for (let i = 0; i < 2; i++) await x.consume('amq.rabbitmq.reply-to', () => {}, { noAck: true }); }, c);
  await t.fails('without a consumer', async (x) => { x.sendToQueue(queue, b('m'), { replyTo: 'amq.rabbitmq.reply-to' }); await x.prefetch(1); }, c);
  await t.fails('declare', (x) => x.checkQueue('amq.rabbitmq.reply-to'), c);
  await t.fails('declare actively', (x) => x.assertQueue('amq.rabbitmq.reply-to'), c);
});

scenario('rpc.mandatory-reply', async (t) => {
  const ch = await t.open();
  let replies = 0;
  await ch.consume('amq.rabbitmq.reply-to', () => { replies++; }, { noAck: true });
  const { queue } = await ch.assertQueue('node.rpc-mandatory', { exclusive: true });
  ch.sendToQueue(queue, b('ask'), { replyTo: 'amq.rabbitmq.reply-to' });
  await t.ready(ch, queue, 1);
  const m = await ch.get(queue, { noAck: true });
  ch.sendToQueue(m.properties.replyTo, b('answer'), { mandatory: true });
  await t.until('reply', () => replies === 1);
});

scenario('exchange.consistent-hash', async (t) => {
  const ch = await t.open(undefined, true);
  const x = 'node.hash';
  await ch.assertExchange(x, 'x-consistent-hash');
  const queues = ['node.hash1', 'node.hash2'];
  for (const q of queues) await ch.assertQueue(q, { exclusive: true });
  await ch.bindQueue(queues[0], x, '1');
  await ch.bindQueue(queues[1], x, '2');
  for (let i = 0; i < 60; i++) ch.publish(x, `key ${i}`, b(`m${i}`));
  for (let i = 0; i < 10; i++) ch.publish(x, 'same', b('same'));
  await ch.waitForConfirms();
  const counts = [];
  for (const q of queues) counts.push((await ch.checkQueue(q)).messageCount);
  t.say(counts[0] + counts[1], counts[0] > 5, counts[1] > 15);
  for (const key of ['a', '', '-1', '0', '1.5']) await t.fails(`weight ${JSON.stringify(key)}`, (c) => c.bindQueue(queues[0], x, key), t.connections[0]);
  await t.fails('two ways', (c) => c.assertExchange('node.hash2', 'x-consistent-hash', { arguments: { 'hash-header': 'a', 'hash-property': 'message_id' } }));
  await t.fails('bad property', (c) => c.assertExchange('node.hash2', 'x-consistent-hash', { arguments: { 'hash-property': 'other' } }));
  await ch.deleteExchange(x);
});

both('queue.passes-over-nodes', async (t, q) => {
  const first = await t.open();
  await first.assertQueue(q);
  for (const [i, uri] of URIS.entries()) {
    const ch = await t.open(await t.connect({}, { uri }), true);
    ch.sendToQueue(q, b(`from ${i}`), { persistent: true });
    await ch.waitForConfirms();
    t.say(await ch.checkQueue(q));
  }
  const last = await t.open(await t.connect({}, { uri: URIS[URIS.length - 1] }));
  await t.take(last, q, URIS.length);
  t.say(await last.deleteQueue(q));
});
