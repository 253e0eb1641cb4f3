// The frame for scenarios in JavaScript: each is an async function with a time limit.
'use strict';
const amqplib = require('amqplib');
const path = require('node:path');
const defs = require(path.join(path.dirname(require.resolve('amqplib')), 'lib/defs')); // not exported

const LIMIT = 20000; // milliseconds for one scenario
const URI = process.env.AMQP_URI || 'amqp://guest:guest@127.0.0.1:5672/';
const URIS = (process.env.AMQP_URIS || URI).split(' ');
const all = [];

// scenario registers f as NAME; it prints what the client sees by t.say().
const scenario = (name, f) => all.push({ name, f });

// both registers f for a queue that is not mirrored and for one that is; f gets the queue's name.
function both(name, f) {
  scenario(name, (t) => f(t, `node.${name}`));
  scenario(`ha.${name}`, (t) => f(t, `ha.node.${name}`));
}

// plain is a value as sorted JSON can hold it; moments of death are not compared.
function plain(v, key) {
  if (Buffer.isBuffer(v)) {
    const s = v.toString();
    return Buffer.from(s).equals(v) ? s : `0x${v.toString('hex')}`;
  }
  if (typeof v === 'bigint') return `${v}`;
  if (Array.isArray(v)) return v.map((e) => plain(e));
  if (v && typeof v === 'object') {
    if (key === 'time' && v['!'] === 'timestamp') return 'TIME';
    const o = {};
    for (const k of Object.keys(v).sort()) if (v[k] !== undefined) o[k] = plain(v[k], k);
    return o;
  }
  return v;
}

const show = (v) => JSON.stringify(plain(v));

class Scenario {
  constructor(name) {
    this.name = name;
    this.lines = [];
    this.ended = false;
    this.connections = [];
  }

  say(...parts) {
    if (this.ended) return;
    process.stdout.write(`${parts.map((p) => (typeof p === 'string' ? p : show(p))).join(' ').replaceAll('\n', '\\n')}\n`);
  }

  // connect opens a connection whose end is told.
  async connect(options = {}, { uri = URI, quiet = false, vhost } = {}) {
    const u = new URL(uri);
    if (vhost !== undefined) u.pathname = `/${encodeURIComponent(vhost)}`;
    for (const k of ['heartbeat', 'frameMax', 'channelMax']) if (options[k] !== undefined) u.searchParams.set(k, options[k]);
    if (options.user) [u.username, u.password] = [options.user, options.password];
    const c = await amqplib.connect(u.href, options);
    this.connections.push(c);
    c.on('error', (e) => this.say('connection error', e.code || '', e.message));
    c.on('close', (e) => quiet || !e || this.say('connection closed', e.message));
    return c;
  }

  // open opens a channel, on a connection of its own unless one is given.
  async open(c, confirm = false) {
    const conn = c || (await this.connect());
    const ch = confirm ? await conn.createConfirmChannel() : await conn.createChannel();
    ch.on('error', (e) => this.say('channel error', e.code, e.message));
    ch.on('return', (m) => this.say('returned', this.message(m)));
    return ch;
  }

  // message is what is compared of a message.
  message(m) {
    if (!m) return m;
    const body = m.content.length > 200 ? `${m.content.length} bytes` : m.content;
    const f = { ...m.fields };
    return { fields: f, properties: m.properties, body };
  }

  // tries tells what becomes of a request.
  async tries(what, promise) {
    try {
      const got = await promise();
      this.say(what, 'ok', got === undefined ? '' : got);
      return got;
    } catch (e) {
      this.say(what, 'failed', e.code === undefined ? '' : e.code, e.message);
      return undefined;
    }
  }

  // fails makes a request on a channel of its own, since that is closed if it fails.
  async fails(what, request, c) {
    const conn = c || (await this.connect());
    let ch;
    await this.tries(what, async () => {
      ch = await conn.createChannel();
      ch.on('error', () => {});
      return request(ch);
    });
    try {
      await ch.close();
    } catch (e) {
      // it is closed
    }
    if (!c) await conn.close().catch(() => {});
  }

  // until waits for a condition.
  async until(what, condition) {
    const end = Date.now() + 15000;
    while (!(await condition())) {
      if (Date.now() > end) return this.say('never:', what);
      await sleep(10);
    }
  }

  // take waits for n messages of a queue and tells them.
  async take(ch, queue, n = 1, options = { noAck: true }) {
    const got = [];
    await this.until(`${n} messages in ${queue}`, async () => {
      for (let m = await ch.get(queue, options); m; m = got.length < n && (await ch.get(queue, options))) {
        got.push(m);
        this.say('got', this.message(m));
      }
      return got.length >= n;
    });
    return got;
  }

  // ready waits until a queue has n messages ready.
  ready(ch, queue, n) {
    return this.until(`${n} ready in ${queue}`, async () => (await ch.checkQueue(queue)).messageCount === n);
  }

  async end() {
    this.ended = true;
    for (const c of this.connections) {
      c.removeAllListeners();
      c.on('error', () => {});
      try {
        c.connection.stream.destroy();
      } catch (e) {
        // it is closed
      }
    }
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function play(s) {
  const t = new Scenario(s.name);
  process.stdout.write(`== ${s.name}\n`);
  let timer;
  const limit = new Promise((resolve) => {
    timer = setTimeout(() => resolve('TIMEOUT'), LIMIT);
  });
  const done = s.f(t).catch((e) => t.say('raised', e.message, process.env.TRACE ? e.stack : ''));
  if ((await Promise.race([done, limit])) === 'TIMEOUT') process.stdout.write('TIMEOUT\n');
  clearTimeout(timer);
  await t.end();
  process.stdout.write('== end\n');
}

async function main(names) {
  const unknown = names.filter((n) => !all.some((s) => s.name === n));
  if (unknown.length) throw new Error(`no such scenarios: ${unknown}`);
  if (new Set(all.map((s) => s.name)).size !== all.length) throw new Error('two scenarios have one name');
  for (const s of all) if (!names.length || names.includes(s.name)) await play(s);
  process.exit(0);
}

process.on('unhandledRejection', () => {});
module.exports = { scenario, both, main, sleep, defs, amqplib, URI, URIS, show };
