"""Scenarios of python3-aio-pika (over aiormq)."""

import asyncio
import re

import aio_pika
from aio_pika import ExchangeType, Message

import scenarios
from scenarios import URI, URIS, main, say


class Case:
    def __init__(self, prefix):
        self.prefix, self.queues, self.exchanges = prefix, [], []

    async def open(self):
        self.connection = await aio_pika.connect(URI)
        self.channel = await self.connection.channel()

    def name(self, short):
        return self.prefix + "." + short

    async def queue(self, short="q", **options):
        self.queues.append(self.name(short))
        return await self.channel.declare_queue(self.name(short), **options)

    async def exchange(self, short, kind, **options):
        self.exchanges.append(self.name(short))
        return await self.channel.declare_exchange(self.name(short), kind, **options)

    async def publish(self, key, body, exchange=None, mandatory=False, **options):
        target = exchange or self.channel.default_exchange
        return await target.publish(Message(body.encode(), **options), routing_key=key, mandatory=mandatory)

    async def attempt(self, what, action):
        channel = await self.connection.channel()
        try:
            await action(channel)
            say(what + ": ok")
        except Exception as error:
            say(what + ":", type(error).__name__, re.sub(r" at 0x\w+", "", str(error)))
        if not channel.is_closed:
            await channel.close()

    async def take(self, queue):
        for _ in range(200):
            message = await queue.get(no_ack=True, fail=False)
            if message is not None:
                tell(message)
                return message
            await asyncio.sleep(0.03)
        say("never: a message")
        return None

    async def close(self):
        if not self.connection.is_closed:
            await self.connection.close()
        connection = await aio_pika.connect(URI)
        channel = await connection.channel()
        for name in self.queues:
            try:
                await channel.queue_delete(name)
            except aio_pika.exceptions.ChannelLockedResource:  # it is on its way with its connection
                channel = await connection.channel()
        for name in self.exchanges:
            await channel.exchange_delete(name)
        await connection.close()


def tell(message):
    headers = dict(message.headers)
    deaths = [{k: v for k, v in death.items() if k != "time"} for death in headers.pop("x-death", [])]
    say("message", message.body, message.exchange, message.routing_key, message.redelivered, headers, deaths,
        {k: getattr(message, k) for k in ("content_type", "content_encoding", "correlation_id", "priority", "type", "app_id", "user_id", "expiration")})


def scenario(name, mirrored=False):
    def register(function):
        async def run(prefix):
            c = Case(prefix)
            await c.open()
            try:
                await asyncio.wait_for(function(c), 17)
            finally:
                await asyncio.wait_for(c.close(), 2)

        scenarios.scenario(name)(lambda: asyncio.run(run("aio." + name)))
        if mirrored:
            scenarios.scenario("ha." + name)(lambda: asyncio.run(run("ha.aio." + name)))
        return function

    return register


@scenario("publish-and-get", mirrored=True)
async def _(c):
    queue = await c.queue()
    await c.publish(queue.name, "m", headers={"a": 1, "f": 1.5, "t": True, "l": [1, "x"], "d": {"k": "v"}}, content_type="t/p", correlation_id="c", message_id="m",
                    priority=2, type="ty", app_id="app", user_id="guest", expiration=60, delivery_mode=2)
    await c.take(queue)


@scenario("confirms", mirrored=True)
async def _(c):
    queue = await c.queue(durable=True)
    results = await asyncio.gather(*[c.publish(queue.name, "m%d" % i, delivery_mode=2) for i in range(50)])
    say(sorted({type(r).__name__ for r in results}))
    say("depth", (await queue.declare()).message_count)


@scenario("mandatory")
async def _(c):
    await c.attempt("nobody", lambda ch: ch.default_exchange.publish(Message(b"x"), c.name("nobody")))
    await c.attempt("unknown exchange", lambda ch: aio_pika.Exchange(ch.channel if hasattr(ch, "channel") else ch, c.name("nox")).publish(Message(b"x"), "k"))


@scenario("overflow", mirrored=True)
async def _(c):
    queue = await c.queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    await c.publish(queue.name, "taken")
    await c.attempt("refused", lambda ch: ch.default_exchange.publish(Message(b"x"), queue.name))
    await c.take(queue)


@scenario("errors")
async def _(c):
    await c.queue()
    await c.attempt("passive", lambda ch: ch.declare_queue(c.name("no"), passive=True))
    await c.attempt("durable", lambda ch: ch.declare_queue(c.name("q"), durable=True))
    await c.attempt("reserved", lambda ch: ch.declare_queue("amq.no"))
    await c.attempt("reserved exchange", lambda ch: ch.declare_exchange("amq.no"))
    await c.attempt("exchange type", lambda ch: ch.declare_exchange("amq.direct", ExchangeType.FANOUT, durable=True))
    await c.attempt("get exchange", lambda ch: ch.get_exchange(c.name("no")))


@scenario("login")
async def _(c):
    where = URI.split("@")[1].rstrip("/")
    for user, vhost in (("guest:wrong", "/"), ("nobody:x", "/"), ("guest:guest", "/closed"), ("guest:guest", "/unknown"), ("guest:guest", "/compare")):
        try:
            connection = await aio_pika.connect("amqp://%s@%s%s" % (user, where, vhost))
            say(user, vhost, "open")
            await connection.close()
        except Exception as error:
            say(user, vhost, type(error).__name__, re.sub(r" at 0x\w+", "", str(error)))


@scenario("consume", mirrored=True)
async def _(c):
    queue = await c.queue()
    await c.channel.set_qos(prefetch_count=2)
    for i in range(5):
        await c.publish(queue.name, "m%d" % i)
    seen = []
    async with queue.iterator() as messages:
        async for message in messages:
            seen.append((message.body, message.redelivered))
            if message.body == b"m1" and not message.redelivered:
                await message.nack(requeue=True)
            else:
                await message.ack()
            if len(seen) == 6:
                break
    say(sorted(seen))


@scenario("process", mirrored=True)
async def _(c):
    dead = await c.queue("dead")
    queue = await c.queue(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name})
    await c.publish(queue.name, "fails")
    message = await queue.get(timeout=5)
    try:
        async with message.process(requeue=False):
            raise ValueError("bad")
    except ValueError:
        pass
    await c.take(dead)


@scenario("exchanges", mirrored=True)
async def _(c):
    queue = await c.queue()
    topic, fanout = await c.exchange("topic", ExchangeType.TOPIC), await c.exchange("fanout", ExchangeType.FANOUT)
    await fanout.bind(topic, "a.#")
    await queue.bind(fanout)
    await c.publish("a.b", "through", topic)
    await c.take(queue)
    await fanout.unbind(topic, "a.#")
    await c.attempt("unroutable", lambda ch: topic.publish(Message(b"x"), "a.b"))
    headers = await c.exchange("headers", ExchangeType.HEADERS)
    await queue.bind(headers, arguments={"x-match": "any", "h": "v"})
    await c.publish("", "by header", headers, headers={"h": "v"})
    await c.take(queue)


@scenario("rpc", mirrored=True)
async def _(c):
    requests = await c.queue("requests")
    answers = asyncio.Queue()
    client = await c.connection.channel()
    replies = await client.declare_queue(exclusive=True)
    await replies.consume(answers.put, no_ack=True)
    await c.publish(requests.name, "ask", reply_to=replies.name, correlation_id="7")
    request = await requests.get(timeout=5)
    async with request.process():
        await c.publish(request.reply_to, "answer", correlation_id=request.correlation_id)
    answer = await answers.get()
    say(answer.body, answer.correlation_id)


@scenario("transactions", mirrored=True)
async def _(c):
    queue = await c.queue()
    channel = await c.connection.channel(publisher_confirms=False)
    tx = channel.transaction()
    await tx.select()
    await channel.default_exchange.publish(Message(b"rolled back"), queue.name)
    await tx.rollback()
    await channel.default_exchange.publish(Message(b"committed"), queue.name)
    await tx.commit()
    await c.take(queue)
    await c.attempt("confirms", lambda ch: ch.transaction().select())


@scenario("delete", mirrored=True)
async def _(c):
    queue = await c.queue()
    await c.publish(queue.name, "m")
    await c.attempt("if empty", lambda ch: ch.queue_delete(queue.name, if_empty=True))
    say((await queue.purge()).message_count)
    await c.attempt("empty", lambda ch: ch.queue_delete(queue.name, if_empty=True))
    await c.attempt("again", lambda ch: ch.queue_delete(queue.name))


@scenario("exclusive", mirrored=True)
async def _(c):
    queue = await c.queue(exclusive=True)
    other = await aio_pika.connect(URIS[-1])
    channel = await other.channel()
    try:
        await channel.declare_queue(queue.name, exclusive=True)
    except Exception as error:
        say(type(error).__name__, str(error))
    await other.close()


@scenario("ttl", mirrored=True)
async def _(c):
    dead = await c.queue("dead")
    queue = await c.queue(arguments={"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name})
    await c.publish(queue.name, "expires")
    await c.take(dead)


if __name__ == "__main__":
    main()
