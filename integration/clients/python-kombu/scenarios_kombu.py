"""Scenarios of python3-kombu (over py-amqp)."""

import socket

from kombu import Connection, Consumer, Exchange, Producer, Queue

import scenarios
from scenarios import URI, URIS, main, say, until


def scenario(name, mirrored=False):
    def register(function):
        def run(prefix):
            with Connection(URI.rstrip("/") + "//", heartbeat=0) as connection:
                made = Made(connection, prefix)
                try:
                    function(connection, made)
                finally:
                    made.end()

        scenarios.scenario(name)(lambda: run("kombu." + name))
        if mirrored:
            scenarios.scenario("ha." + name)(lambda: run("ha.kombu." + name))
        return function

    return register


class Made:
    """What a scenario declares, to be deleted at its end."""

    def __init__(self, connection, prefix):
        self.connection, self.prefix, self.entities = connection, prefix, []

    def queue(self, short="q", exchange=None, **options):
        queue = Queue(self.prefix + "." + short, exchange=exchange or Exchange(""), channel=self.connection.default_channel,
                      **dict({"durable": False, "routing_key": short}, **options))
        self.entities.append(queue)
        queue.declare()
        return queue

    def exchange(self, short, kind="direct", **options):
        exchange = Exchange(self.prefix + "." + short, kind, channel=self.connection.default_channel, **dict({"durable": False}, **options))
        self.entities.append(exchange)
        exchange.declare()
        return exchange

    def end(self):
        with Connection(URI.rstrip("/") + "//") as connection:
            for entity in self.entities:
                try:
                    entity.bind(connection.channel()).delete()
                except Exception:
                    pass


def attempt(connection, what, action):
    try:
        action(connection.channel())
        say(what + ": ok")
    except Exception as error:
        say(what + ":", type(error).__name__, str(error))


def publish(connection, body, exchange="", key="", **options):
    with connection.channel() as channel:
        channel.confirm_select()
        Producer(channel).publish(body, exchange=exchange, routing_key=key, **options)


def take(queue, what="a message"):
    found = []

    def step():
        message = queue.get(no_ack=True)
        if message is not None:
            found.append(message)

    until(lambda: found, what, step=step)
    if found:
        message = found[0]
        headers = {k: v for k, v in message.headers.items() if k != "x-death"}
        say("message", message.payload, message.content_type, message.content_encoding, headers,
            [{k: v for k, v in death.items() if k != "time"} for death in message.headers.get("x-death", [])],
            {k: v for k, v in message.delivery_info.items() if k != "consumer_tag"})


@scenario("publish-and-get", mirrored=True)
def _(connection, made):
    queue = made.queue()
    for body in ("text", b"bytes", {"json": [1, None, True, 1.5, "ü"]}):
        publish(connection, body, key=queue.name, headers={"h": 1, "f": 2.5, "l": [1, {"a": b"b"}]}, priority=3, expiration=60)
        take(queue)


@scenario("serializers")
def _(connection, made):
    queue = made.queue()
    for serializer in ("json", "yaml", "raw"):
        try:
            publish(connection, "payload", key=queue.name, serializer=serializer)
            take(queue)
        except Exception as error:
            say(serializer, type(error).__name__)
    publish(connection, {"zipped": "x" * 1000}, key=queue.name, compression="zlib")
    take(queue)


@scenario("exchanges", mirrored=True)
def _(connection, made):
    for kind, key, sent in (("direct", "k", "k"), ("fanout", "", "any"), ("topic", "a.*.#", "a.b.c")):
        exchange = made.exchange(kind, kind)
        queue = made.queue("q-" + kind, exchange, routing_key=key)
        publish(connection, kind, exchange.name, sent)
        take(queue)
    exchange = made.exchange("headers", "headers")
    queue = made.queue("q-headers", exchange, binding_arguments={"x-match": "all", "a": 1})
    publish(connection, "matches", exchange.name, headers={"a": 1, "b": 2})
    take(queue)


@scenario("consume", mirrored=True)
def _(connection, made):
    queue, seen = made.queue(), []
    for i in range(5):
        publish(connection, i, key=queue.name)

    def on_message(body, message):
        seen.append((body, message.delivery_info["redelivered"]))
        if body == 2 and not message.delivery_info["redelivered"]:
            message.requeue()
        else:
            message.ack()

    channel = connection.channel()
    consumer = Consumer(channel, [queue], callbacks=[on_message])
    consumer.qos(prefetch_count=1)
    with consumer:
        until(lambda: len(seen) >= 6, "six deliveries", step=lambda: drain(connection))
    say(sorted(seen))


def drain(connection):
    try:
        connection.drain_events(timeout=0.2)
    except socket.timeout:
        pass


@scenario("qos-global", mirrored=True)
def _(connection, made):
    queue, seen = made.queue(), []
    for i in range(6):
        publish(connection, i, key=queue.name)
    channel = connection.channel()
    consumer = Consumer(channel, [queue], callbacks=[lambda body, message: seen.append(message)])
    consumer.qos(prefetch_count=2, apply_global=True)
    consumer.consume()
    until(lambda: len(seen) == 2, "two", step=lambda: drain(connection))
    say("left for others", connection.default_channel.queue_declare(queue.name, passive=True).message_count)
    consumer.qos(prefetch_count=3, apply_global=True)
    until(lambda: len(seen) == 3, "three", step=lambda: drain(connection))
    say("left for others", connection.default_channel.queue_declare(queue.name, passive=True).message_count)


@scenario("reject", mirrored=True)
def _(connection, made):
    dead = made.queue("dead")
    queue = made.queue("q", queue_arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name})
    publish(connection, "rejected", key=queue.name)
    found = []

    def step():
        message = queue.get()
        if message is not None:
            found.append(message)

    until(lambda: found, "a message", step=step)
    found[0].reject()
    take(dead)


@scenario("queue-options", mirrored=True)
def _(connection, made):
    queue = made.queue("q", expires=60, message_ttl=60, max_length=2, max_priority=5)
    for body, priority in (("a", 0), ("b", 5), ("c", 1)):
        publish(connection, body, key=queue.name, priority=priority)
    take(queue)
    take(queue)
    attempt(connection, "without them", lambda channel: Queue(queue.name, durable=False, channel=channel).declare())


@scenario("errors")
def _(connection, made):
    attempt(connection, "passive", lambda channel: channel.queue_declare(made.prefix + ".no", passive=True))
    attempt(connection, "reserved", lambda channel: channel.queue_declare("amq.no"))
    attempt(connection, "exchange type", lambda channel: channel.exchange_declare(made.prefix + ".no", "nope"))
    attempt(connection, "bind", lambda channel: channel.queue_bind(made.prefix + ".no", "amq.direct", "k"))
    attempt(connection, "consume", lambda channel: channel.basic_consume(made.prefix + ".no"))
    attempt(connection, "exchange", lambda channel: channel.exchange_declare("amq.direct", "fanout", durable=True, auto_delete=False))


@scenario("login")
def _(connection, made):
    for user, password, vhost in (("guest", "wrong", "/"), ("nobody", "x", "/"), ("guest", "guest", "closed"), ("guest", "guest", "unknown")):
        host, port = URI.rsplit("@", 1)[1].rstrip("/").split(":")
        try:
            with Connection(hostname=host, port=int(port), userid=user, password=password, virtual_host=vhost, transport="pyamqp") as other:
                other.connect()
                say(user, vhost, "open")
        except Exception as error:
            say(user, vhost, type(error).__name__, str(error))


@scenario("mandatory")
def _(connection, made):
    returned = []
    channel = connection.channel()
    Producer(channel, on_return=lambda exception, exchange, key, message: returned.append((str(exception), exchange, key, message.body))).publish(
        "lost", routing_key=made.prefix + ".nobody", mandatory=True)
    until(lambda: returned, "a return", step=lambda: drain(connection))
    say(returned)


@scenario("simple-queue", mirrored=True)
def _(connection, made):
    queue = made.queue()
    simple = connection.SimpleQueue(Queue(queue.name, Exchange(""), routing_key=queue.name, durable=False, no_declare=True))
    simple.put({"hello": "world"})
    message = simple.get(timeout=8)
    say(message.payload, message.delivery_info["redelivered"])
    message.ack()
    say("left", simple.qsize())
    simple.close()


@scenario("cancel-notified", mirrored=True)
def _(connection, made):
    queue = made.queue()
    cancelled = []
    channel = connection.channel()
    channel.basic_consume(queue.name, consumer_tag="tag", callback=lambda message: None, on_cancel=cancelled.append)
    connection.channel().queue_delete(queue.name)

    def step():
        try:
            drain(connection)
        except Exception as error:
            cancelled.append(type(error).__name__)

    until(lambda: cancelled, "a cancel", step=step)
    say(cancelled)


@scenario("transactions")
def _(connection, made):
    queue = made.queue()
    channel = connection.channel()
    channel.tx_select()
    Producer(channel).publish("rolled back", routing_key=queue.name)
    channel.tx_rollback()
    Producer(channel).publish("committed", routing_key=queue.name)
    channel.tx_commit()
    take(queue)


@scenario("other-nodes", mirrored=True)
def _(connection, made):
    queue = made.queue()
    for uri in URIS:
        with Connection(uri.rstrip("/") + "//") as other:
            publish(other, "m", key=queue.name)
    for uri in reversed(URIS):
        with Connection(uri.rstrip("/") + "//") as other:
            take(queue.bind(other.channel()))


if __name__ == "__main__":
    main()
