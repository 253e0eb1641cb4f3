// Connections and channels.
'use strict';
const { scenario, sleep, defs, amqplib, URI, URIS } = require('./frame');

scenario('connection.server-properties', async (t) => {
  const c = await t.connect();
  t.say(c.connection.serverProperties);
});

scenario('connection.tune', async (t) => {
  for (const options of [{}, { frameMax: 4096 }, { frameMax: 0 }, { channelMax: 7 }, { channelMax: 0 }, { heartbeat: 3 }, { heartbeat: 0 }]) {
    await t.tries(`tune ${JSON.stringify(options)}`, async () => {
      const { frameMax, channelMax, heartbeat } = (await t.connect(options)).connection;
      return { frameMax, channelMax, heartbeat };
    });
  }
});

scenario('connection.tune-refused', async (t) => {
  for (const options of [{ frameMax: 4095 }, { channelMax: 2047 }]) {
    await t.tries(`tune ${JSON.stringify(options)}`, async () => {
      await t.connect(options);
    });
  }
});

scenario('connection.heartbeat', async (t) => {
  const c = await t.connect({ heartbeat: 1 });
  await sleep(3200);
  const ch = await t.open(c);
  t.say(await ch.assertQueue('node.heartbeat', { exclusive: true }));
});

scenario('connection.authentication', async (t) => {
  const { plain, amqplain, external } = amqplib.credentials;
  for (const [name, credentials] of [
    ['right', plain('guest', 'guest')], ['wrong password', plain('guest', 'x')], ['unknown user', plain('nobody', 'x')],
    ['empty password', plain('guest', '')], ['empty user', plain('', '')], ['AMQPLAIN right', amqplain('guest', 'guest')],
    ['AMQPLAIN wrong', amqplain('guest', 'x')], ['EXTERNAL', external()],
  ]) {
    await t.tries(name, async () => {
      await t.connect({ credentials });
    });
  }
});

scenario('connection.authentication-without-close', async (t) => {
  const clientProperties = { capabilities: {} };
  await t.tries('wrong password', () => t.connect({ clientProperties, credentials: amqplib.credentials.plain('guest', 'x') }));
});

scenario('connection.vhosts', async (t) => {
  for (const vhost of ['/', 'compare', 'closed', 'unknown', 'with space', '']) {
    await t.tries(`vhost ${JSON.stringify(vhost)}`, async () => {
      const u = new URL(URI);
      await amqplib.connect({ protocol: 'amqp', hostname: u.hostname, port: u.port, username: 'guest', password: 'guest', vhost })
        .then((c) => c.close());
    });
  }
});

scenario('connection.update-secret', async (t) => {
  const c = await t.connect();
  await t.tries('update-secret', () => c.updateSecret(Buffer.from('new'), 'because'));
  const ch = await t.open(c);
  t.say(await ch.assertQueue('node.update-secret', { exclusive: true }));
});

scenario('connection.every-node', async (t) => {
  for (const uri of URIS) {
    const c = await t.connect({}, { uri });
    const ch = await t.open(c);
    const { queue } = await ch.assertQueue('', { exclusive: true });
    ch.sendToQueue(queue, Buffer.from('m'));
    await t.take(ch, queue);
  }
});

scenario('channel.many', async (t) => {
  const c = await t.connect();
  const channels = [];
  for (let i = 0; i < 300; i++) channels.push(await c.createChannel());
  for (const ch of channels.filter((_, i) => i % 2)) await ch.close();
  for (let i = 0; i < 150; i++) channels.push(await c.createChannel());
  t.say(channels.map((ch) => ch.ch).sort((a, b) => a - b).at(-1));
});

scenario('channel.max', async (t) => {
  const c = await t.connect({ channelMax: 3 });
  for (let i = 0; i < 3; i++) await c.createChannel();
  c.connection.channelMax = 10; // the client counts no more
  await t.tries('one too many', () => c.createChannel());
});

scenario('channel.not-open', async (t) => {
  const c = await t.connect();
  await t.open(c);
  c.connection.channels[1].buffer.write(defs.encodeMethod(defs.BasicQos, 9, { prefetchCount: 1, prefetchSize: 0, global: false }));
  await t.until('end', () => c.connection.expectSocketClose);
});

scenario('channel.opened-twice', async (t) => {
  const c = await t.connect();
  const ch = await t.open(c);
  await t.tries('open', () => ch.rpc(defs.ChannelOpen, { outOfBand: '' }, defs.ChannelOpenOk));
});

scenario('channel.zero', async (t) => {
  const c = await t.connect();
  c.connection.sendMethod(0, defs.BasicQos, { prefetchCount: 1, prefetchSize: 0, global: false });
  await t.until('end', () => c.connection.expectSocketClose);
});

scenario('channel.flow', async (t) => {
  const c = await t.connect();
  const ch = await t.open(c);
  await t.tries('on', () => ch.rpc(defs.ChannelFlow, { active: true }, defs.ChannelFlowOk));
  await t.tries('off', () => ch.rpc(defs.ChannelFlow, { active: false }, defs.ChannelFlowOk));
});

scenario('channel.error-leaves-others', async (t) => {
  const c = await t.connect();
  const [a, b] = [await t.open(c), await t.open(c)];
  await t.tries('a', () => a.checkQueue('node.unknown'));
  await t.tries('a again', async () => a.checkQueue('node.unknown'));
  await t.tries('b', () => b.assertQueue('node.error-leaves', { exclusive: true }));
  const again = await t.open(c);
  t.say(again.ch);
  await t.tries('reopened', () => again.checkQueue('node.error-leaves'));
});

scenario('channel.not-implemented', async (t) => {
  for (const [what, f] of [
    ['immediate', (ch) => ch.sendMessage({ exchange: '', routingKey: 'x', mandatory: false, immediate: true, ticket: 0 }, {}, Buffer.from('m'))],
    ['prefetch size', (ch) => ch.rpc(defs.BasicQos, { prefetchCount: 1, prefetchSize: 10, global: false }, defs.BasicQosOk)],
    ['recover without requeue', (ch) => ch.rpc(defs.BasicRecover, { requeue: false }, defs.BasicRecoverOk)],
    ['access request', (ch) => ch.rpc(defs.AccessRequest, { realm: '/data', exclusive: false, passive: true, active: true, write: true, read: true }, defs.AccessRequestOk)],
  ]) {
    const c = await t.connect();
    const ch = await t.open(c);
    await t.tries(what, () => f(ch));
    await sleep(300);
    await t.tries(`after ${what}`, () => c.createChannel().then((x) => x.ch));
  }
});
