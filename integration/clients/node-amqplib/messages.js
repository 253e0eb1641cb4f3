// Publishing, getting, consuming, acknowledging.
'use strict';
const { scenario, both, sleep, defs } = require('./frame');

const b = Buffer.from;

// consumes collects deliveries.
async function consumes(t, ch, queue, options = {}, say = true) {
  const got = [];
  const { consumerTag } = await ch.consume(queue, (m) => {
    got.push(m);
    if (say) t.say(m ? 'delivered' : 'cancelled', m ? t.message(m) : '');
  }, options);
  got.tag = consumerTag;
  return got;
}

both('basic.get', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q);
  t.say('empty', await ch.get(q));
  for (const m of ['m1', 'm2', 'm3']) ch.sendToQueue(q, b(m));
  await t.ready(ch, q, 3);
  const [m1, m2] = await t.take(ch, q, 2, {});
  t.say(await ch.checkQueue(q));
  ch.nack(m2);
  ch.ack(m1);
  await t.ready(ch, q, 2);
  await t.take(ch, q, 2);
  await ch.deleteQueue(q);
  await t.fails('get', (c) => c.get(q));
});

both('basic.requeue-order', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q);
  for (let i = 1; i <= 6; i++) ch.sendToQueue(q, b(`m${i}`));
  await t.ready(ch, q, 6);
  const got = await t.take(ch, q, 5, {});
  ch.reject(got[3]);
  ch.nack(got[1], false, true);
  await t.ready(ch, q, 3);
  await t.take(ch, q, 1, {});
  ch.nackAll();
  await t.ready(ch, q, 6);
  await t.take(ch, q, 6);
  await ch.deleteQueue(q);
});

both('basic.ack-errors', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q);
  const tag = (deliveryTag) => ({ fields: { deliveryTag } });
  for (const [what, f] of [
    ['ack', (c) => c.ack(tag(1))], ['nack', (c) => c.nack(tag(7))], ['reject', (c) => c.reject(tag(9))],
    ['ack multiple', (c) => c.ack(tag(5), true)], ['ack none', (c) => c.ackAll()], ['nack none', (c) => c.nackAll()],
  ]) await t.fails(what, async (c) => { f(c); await c.prefetch(1); });
  ch.sendToQueue(q, b('m'));
  await t.ready(ch, q, 1);
  await t.fails('twice', async (c) => { const m = await c.get(q); c.ack(m); c.ack(m); await c.prefetch(1); });
  await ch.deleteQueue(q);
});

both('basic.ack-multiple', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q);
  for (let i = 1; i <= 6; i++) ch.sendToQueue(q, b(`m${i}`));
  await t.ready(ch, q, 6);
  const got = await t.take(ch, q, 6, {});
  ch.ack(got[1], true);
  ch.nack(got[3], true, false);
  ch.reject(got[5], false);
  await ch.recover();
  await t.ready(ch, q, 1);
  await t.take(ch, q, 1);
  await ch.deleteQueue(q);
});

both('basic.recover', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q);
  const got = await consumes(t, ch, q, { consumerTag: 'c' });
  for (let i = 1; i <= 3; i++) ch.sendToQueue(q, b(`m${i}`));
  await t.until('deliveries', () => got.length === 3);
  const ok = await ch.recover();
  await t.until('deliveries', () => got.length === 6);
  t.say(ok);
  await ch.cancel('c');
  await ch.deleteQueue(q);
});

both('basic.prefetch', async (t, q) => {
  const c = await t.connect();
  const ch = await t.open(c);
  await ch.assertQueue(q);
  for (let i = 1; i <= 12; i++) ch.sendToQueue(q, b(`m${i}`));
  await t.ready(ch, q, 12);
  for (const [what, setup] of [
    ['each', async (x) => { await x.prefetch(2); return [await consumes(t, x, q, {}, false), await consumes(t, x, q, {}, false)]; }],
    ['all', async (x) => { await x.prefetch(3, true); return [await consumes(t, x, q, {}, false), await consumes(t, x, q, {}, false)]; }],
    ['both', async (x) => { await x.prefetch(4, true); await x.prefetch(3); return [await consumes(t, x, q, {}, false), await consumes(t, x, q, {}, false)]; }],
    ['later', async (x) => { const a = await consumes(t, x, q, {}, false); await x.prefetch(1); return [a]; }],
  ]) {
    const x = await t.open(c);
    const all = await setup(x);
    await sleep(400);
    t.say(what, all.map((g) => g.length).sort());
    await x.close();
    await t.ready(ch, q, 12);
  }
  await ch.deleteQueue(q);
});

both('basic.consume', async (t, q) => {
  const c = await t.connect();
  const ch = await t.open(c);
  await ch.assertQueue(q);
  const got = await consumes(t, ch, q, { consumerTag: 'mine' });
  t.say(await ch.checkQueue(q));
  ch.sendToQueue(q, b('m1'), { persistent: true });
  await t.until('m1', () => got.length === 1);
  ch.ack(got[0]);
  await t.tries('cancel', () => ch.cancel('mine'));
  await t.tries('cancel again', () => ch.cancel('mine'));
  t.say(await ch.checkQueue(q));
  const free = await consumes(t, ch, q, { noAck: true });
  t.say(free.tag.startsWith('amq.ctag-'));
  ch.sendToQueue(q, b('m2'));
  await t.until('m2', () => free.length === 1);
  await t.fails('unknown queue', (x) => x.consume('node.unknown', () => {}), c);
  await ch.deleteQueue(q);
  await t.until('cancelled', () => free.length === 2);
});

both('basic.consume-exclusive', async (t, q) => {
  const c = await t.connect();
  const ch = await t.open(c);
  await ch.assertQueue(q);
  await ch.consume(q, () => {}, { exclusive: true, consumerTag: 'x' });
  await t.fails('second', (x) => x.consume(q, () => {}), c);
  await t.fails('second, exclusive', (x) => x.consume(q, () => {}, { exclusive: true }), c);
  await t.fails('get', (x) => x.get(q), c);
  await ch.cancel('x');
  await ch.consume(q, () => {}, { consumerTag: 'y' });
  await t.fails('exclusive beside another', (x) => x.consume(q, () => {}, { exclusive: true }), c);
  await ch.deleteQueue(q);
});

scenario('basic.consumer-tag-reused', async (t) => {
  const c = await t.connect();
  const ch = await t.open(c);
  await ch.assertQueue('node.tags', { exclusive: true });
  await ch.consume('node.tags', () => {}, { consumerTag: 'same' });
  await t.tries('again', () => ch.consume('node.tags', () => {}, { consumerTag: 'same' }));
});

both('basic.close-requeues', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q);
  for (let i = 1; i <= 4; i++) ch.sendToQueue(q, b(`m${i}`));
  await t.ready(ch, q, 4);
  const c = await t.connect();
  const x = await t.open(c);
  const got = await consumes(t, x, q, { consumerTag: 'c' }, false);
  await t.until('deliveries', () => got.length === 4);
  x.ack(got[1]);
  await c.close();
  await t.ready(ch, q, 3);
  await t.take(ch, q, 3);
  await ch.deleteQueue(q);
});

both('publish.confirms', async (t, q) => {
  const c = await t.connect();
  const ch = await t.open(c, true);
  await ch.assertQueue(q);
  let acked = 0;
  for (let i = 0; i < 200; i++) ch.sendToQueue(q, b(`m${i}`), { persistent: i % 2 === 0 }, (err) => { acked += err ? 0 : 1; });
  await ch.waitForConfirms();
  t.say(acked, await ch.checkQueue(q));
  ch.publish('amq.direct', 'nowhere', b('m'), { mandatory: true }, (err) => t.say('unroutable', err ? err.message : 'acked'));
  await ch.waitForConfirms();
  await t.tries('select again', () => ch.rpc(defs.ConfirmSelect, { nowait: false }, defs.ConfirmSelectOk));
  await ch.deleteQueue(q);
  await t.tries('tx', () => ch.rpc(defs.TxSelect, {}, defs.TxSelectOk));
});

scenario('publish.unknown-exchange', async (t) => {
  const c = await t.connect();
  const ch = await t.open(c, true);
  ch.publish('node.unknown', 'k', b('m'), {}, (err) => t.say('confirm', err ? err.message : 'acked'));
  await t.tries('wait', () => ch.waitForConfirms());
  await t.tries('connection', () => c.createChannel().then((x) => x.ch));
});

both('publish.mandatory', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q);
  ch.sendToQueue(q, b('m'), { mandatory: true });
  ch.sendToQueue(`${q}.none`, b('returned'), { mandatory: true, contentType: 'text/plain', headers: { a: 1 }, messageId: 'id' });
  ch.publish('amq.fanout', 'k', b(''), { mandatory: true });
  ch.sendToQueue(`${q}.none`, b('dropped'));
  await t.take(ch, q);
  await ch.deleteQueue(q);
});

both('publish.properties', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q);
  const o = {
    contentType: 'text/plain', contentEncoding: 'gzip', deliveryMode: 2, priority: 7, correlationId: 'corr', replyTo: 'reply', expiration: '60000',
    messageId: 'id', timestamp: 1700000000, type: 'type', userId: 'guest', appId: 'app', headers: { a: 'b' },
  };
  ch.sendToQueue(q, b('all'), o);
  ch.sendToQueue(q, b('none'));
  ch.sendToQueue(q, b('empty'), { contentType: '', headers: {}, priority: 0, timestamp: 0 });
  ch.sendToQueue(q, b('large'), { priority: 255, type: 'x'.repeat(255) });
  await t.take(ch, q, 4);
  await ch.deleteQueue(q);
});

both('publish.header-types', async (t, q) => {
  const ch = await t.open();
  await ch.assertQueue(q);
  const v = (type, value) => ({ '!': type, value });
  ch.sendToQueue(q, b('types'), {
    headers: {
      byte: v('byte', -5), ubyte: v('unsignedbyte', 200), short: v('short', -3000), ushort: v('unsignedshort', 60000), int: v('int', -70000), uint: v('unsignedint', 4000000000),
      long: v('long', -5000000000), double: 1.25, float: v('float', 0.5), yes: true, no: false, nothing: null, text: 'é☃', empty: '', bytes: b([0, 255, 1]),
      time: v('timestamp', 1700000000), decimal: v('decimal', { places: 2, digits: 314 }), table: { a: { b: [] }, c: {} }, list: [1, 'x', true, null, [2.5], { k: 1 }],
      long_text: 'x'.repeat(5000), ['k'.repeat(128)]: 1, '': 'empty key',
    },
  });
  const [m] = await t.take(ch, q);
  t.say(Object.keys(m.properties.headers));
  await ch.deleteQueue(q);
});

both('publish.sizes', async (t, q) => {
  for (const frameMax of [4096, 131072, 0]) {
    const c = await t.connect({ frameMax });
    const ch = await t.open(c, true);
    await ch.assertQueue(q);
    for (const size of [0, 1, 4087, 4088, 4089, 131064, 131065, 5 << 20]) {
      const body = Buffer.alloc(size, 'abcdefg');
      ch.sendToQueue(q, body, { persistent: true });
      await ch.waitForConfirms();
      const m = await ch.get(q, { noAck: true });
      t.say(frameMax, size, m.content.equals(body));
    }
    await ch.deleteQueue(q);
    await c.close();
  }
});

scenario('publish.user-id', async (t) => {
  await t.fails('own', async (c) => { c.sendToQueue('node.none', b('m'), { userId: 'guest' }); await c.prefetch(1); });
  await t.fails('other', async (c) => { c.sendToQueue('node.none', b('m'), { userId: 'other' }); await c.prefetch(1); });
});

both('tx.commit', async (t, q) => {
  const c = await t.connect();
  const ch = await t.open(c);
  await ch.assertQueue(q);
  const tx = (m) => ch.rpc(defs[`Tx${m}`], {}, defs[`Tx${m}Ok`]);
  t.say(await tx('Select'));
  ch.sendToQueue(q, b('m1'));
  ch.sendToQueue(`${q}.none`, b('unroutable'), { mandatory: true });
  t.say(await ch.checkQueue(q));
  t.say('commit', await tx('Commit'));
  t.say(await ch.checkQueue(q));
  ch.sendToQueue(q, b('m2'));
  t.say('rollback', await tx('Rollback'));
  t.say(await ch.checkQueue(q));
  const [m] = await t.take(ch, q, 1, {});
  ch.ack(m);
  await tx('Rollback');
  await ch.recover();
  const [again] = await t.take(ch, q, 1, {});
  ch.ack(again);
  await tx('Commit');
  t.say(await ch.recover(), await ch.checkQueue(q));
  await ch.deleteQueue(q);
  await t.tries('confirm', () => ch.rpc(defs.ConfirmSelect, { nowait: false }, defs.ConfirmSelectOk));
});

scenario('tx.errors', async (t) => {
  await t.fails('commit', (c) => c.rpc(defs.TxCommit, {}, defs.TxCommitOk));
  await t.fails('rollback', (c) => c.rpc(defs.TxRollback, {}, defs.TxRollbackOk));
  await t.fails('unknown exchange', async (c) => {
    await c.rpc(defs.TxSelect, {}, defs.TxSelectOk);
    c.publish('node.unknown', 'k', b('m'));
    return c.rpc(defs.TxCommit, {}, defs.TxCommitOk);
  });
  await t.fails('unknown tag', async (c) => {
    await c.rpc(defs.TxSelect, {}, defs.TxSelectOk);
    c.ack({ fields: { deliveryTag: 3 } });
    return c.rpc(defs.TxCommit, {}, defs.TxCommitOk);
  });
});
