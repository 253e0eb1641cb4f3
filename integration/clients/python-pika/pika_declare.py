"""Declarations: what is equivalent, what is refused, and with which words."""

from case import scenario
from scenarios import say, until


def args(**values):
    return {k.replace("_", "-"): v for k, v in values.items()}


@scenario("queue.equivalence")
def _(c):
    q = c.declare("q", arguments=args(x_message_ttl=1000, x_max_length=5))
    declare = lambda what, **kw: c.attempt(what, lambda ch: ch.queue_declare(q, **kw))
    same = args(x_message_ttl=1000, x_max_length=5)
    declare("same", arguments=same)
    declare("durable", durable=True, arguments=same)
    declare("auto-delete", auto_delete=True, arguments=same)
    declare("exclusive", exclusive=True, arguments=same)
    declare("no arguments")
    declare("other ttl", arguments=args(x_message_ttl=1001, x_max_length=5))
    declare("one missing", arguments=args(x_message_ttl=1000))
    declare("one more", arguments=dict(same, **args(x_max_length_bytes=5)))
    declare("text for a number", arguments=args(x_message_ttl="1000", x_max_length=5))
    declare("unknown more", arguments=dict(same, **args(x_whatever=5)))
    declare("long integer", arguments=args(x_message_ttl=1000, x_max_length=5000000000))


@scenario("queue.equivalence-each-argument")
def _(c):
    for name, first, second in (
        ("x-message-ttl", 100, 200), ("x-expires", 100000, 200000), ("x-max-length", 1, 2), ("x-max-length-bytes", 1, 2),
        ("x-overflow", "drop-head", "reject-publish"), ("x-dead-letter-exchange", "a", "b"), ("x-max-priority", 1, 2),
        ("x-queue-mode", "lazy", "default"), ("x-single-active-consumer", True, False), ("x-queue-type", "classic", "quorum"),
        ("x-queue-version", 1, 2), ("x-queue-master-locator", "min-masters", "client-local"), ("x-other", 1, 2),
    ):
        q = c.declare(name, arguments={name: first})
        c.attempt(name + " changed", lambda ch: ch.queue_declare(q, arguments={name: second}))
        c.attempt(name + " left out", lambda ch: ch.queue_declare(q))
    q = c.declare("dlk", arguments={"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "b"})
    c.attempt("routing key changed", lambda ch: ch.queue_declare(q, arguments={"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "c"}))


@scenario("queue.invalid-arguments")
def _(c):
    q = c.name("q")
    c.queues.append(q)
    for name, values in (
        ("x-message-ttl", [-1, "1", 4294967295000, 4294967296, True, None]), ("x-expires", [0, -1, "1", 4294967296, None]),
        ("x-max-length", [-1, "1", True]), ("x-max-length-bytes", [-1, "1"]), ("x-max-priority", [-1, 256, "1", True]),
        ("x-overflow", ["nope", 1]), ("x-dead-letter-exchange", [1, None]), ("x-queue-mode", ["nope", 1]),
        ("x-queue-type", ["nope", 1]), ("x-single-active-consumer", ["yes", 1]),
        ("x-queue-version", [3, "1"]), ("x-delivery-limit", [1]), ("x-max-age", ["1h", "x"]), ("x-ha-policy", ["all"]),
        ("x-max-in-memory-length", [1]), ("x-quorum-initial-group-size", [3]), ("x-stream-max-segment-size-bytes", [1]),
        ("x-dead-letter-strategy", ["at-most-once"]), ("x-cancel-on-ha-failover", [True]), ("x-initial-cluster-size", [3]),
    ):
        for value in values:
            c.attempt("%s %r" % (name, value), lambda ch: ch.queue_declare(q, arguments={name: value}))
            c.connection_channel().queue_delete(q)
    c.attempt("routing key without exchange", lambda ch: ch.queue_declare(q, arguments={"x-dead-letter-routing-key": "k"}))
    c.attempt("routing key not text", lambda ch: ch.queue_declare(q, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 1}))
    c.attempt("two errors", lambda ch: ch.queue_declare(q, arguments={"x-max-length": -1, "x-message-ttl": -1}))


@scenario("queue.locators")
def _(c):
    q = c.name("q")
    c.queues.append(q)
    for name, value in (("x-queue-master-locator", "client-local"), ("x-queue-master-locator", "nope"), ("x-queue-master-locator", 1),
                        ("x-queue-leader-locator", "balanced"), ("x-queue-leader-locator", "nope")):
        c.attempt("%s %r" % (name, value), lambda ch: ch.queue_declare(q, arguments={name: value}))
        c.connection_channel().queue_delete(q)


@scenario("queue.type-changed")
def _(c):
    q = c.declare("q", durable=True)
    for kind in ("quorum", "stream", "nope"):
        c.attempt(kind, lambda ch: ch.queue_declare(q, durable=True, arguments={"x-queue-type": kind}))


@scenario("queue.names")
def _(c):
    attempt = c.attempt
    attempt("reserved", lambda ch: ch.queue_declare("amq.mine"))
    attempt("reserved passive", lambda ch: ch.queue_declare("amq.mine", passive=True))
    attempt("reserved in capitals", lambda ch: ch.queue_declare("AMQ.mine", auto_delete=True))
    c.queues.append("AMQ.mine")
    attempt("server-named", lambda ch: ch.queue_declare("", exclusive=True))
    for name in ("pika.names.umlaut-ü-☃", "pika.names. spaces ", "pika.names." + "l" * 230):
        c.queues.append(name)
        attempt(repr(name), lambda ch: ch.queue_declare(name))
        attempt("passive", lambda ch: ch.queue_declare(name, passive=True))
    attempt("no name, none declared: bind", lambda ch: ch.queue_bind("", "amq.direct", "k"))
    attempt("no name, none declared: consume", lambda ch: ch.basic_consume("", lambda *a: None))
    attempt("no name, none declared: get", lambda ch: ch.basic_get(""))
    attempt("no name, none declared: purge", lambda ch: ch.queue_purge(""))
    attempt("no name, none declared: delete", lambda ch: ch.queue_delete(""))
    attempt("no name, none declared: passive", lambda ch: ch.queue_declare("", passive=True))
    ch = c.connection.channel()
    mine = ch.queue_declare("", exclusive=True).method.queue
    ch.queue_bind("", "amq.direct", "k")
    say("purge", ch.queue_purge("").method.message_count)
    say("get", ch.basic_get("")[0])
    say("it has a name", mine.startswith("amq.gen-"))


@scenario("queue.unknown")
def _(c):
    q = c.name("unknown")
    attempt = c.attempt
    attempt("passive", lambda ch: ch.queue_declare(q, passive=True))
    attempt("bind", lambda ch: ch.queue_bind(q, "amq.direct", "k"))
    attempt("unbind", lambda ch: ch.queue_unbind(q, "amq.direct", "k"))
    attempt("consume", lambda ch: ch.basic_consume(q, lambda *a: None))
    attempt("get", lambda ch: ch.basic_get(q))
    attempt("purge", lambda ch: ch.queue_purge(q))
    attempt("delete", lambda ch: ch.queue_delete(q))
    attempt("delete if unused", lambda ch: ch.queue_delete(q, if_unused=True))
    say("connection open", c.connection.is_open)


@scenario("queue.exclusive-locked", mirrored=True)
def _(c):
    q = c.declare("q", exclusive=True)
    other = c.other(2)
    attempt = lambda what, f: c.attempt(what, f, other)
    attempt("declare", lambda ch: ch.queue_declare(q))
    attempt("declare exclusive", lambda ch: ch.queue_declare(q, exclusive=True))
    attempt("passive", lambda ch: ch.queue_declare(q, passive=True))
    attempt("bind", lambda ch: ch.queue_bind(q, "amq.direct", "k"))
    attempt("unbind", lambda ch: ch.queue_unbind(q, "amq.direct", "k"))
    attempt("consume", lambda ch: ch.basic_consume(q, lambda *a: None))
    attempt("get", lambda ch: ch.basic_get(q))
    attempt("purge", lambda ch: ch.queue_purge(q))
    attempt("delete", lambda ch: ch.queue_delete(q))
    attempt("declare not exclusive by the owner", lambda ch: c.channel.queue_declare(q))
    c.channel = c.connection.channel()
    other.channel().basic_publish("", q, b"anyone may publish")
    c.drain(q, 1)
    c.connection.close()
    c.connection_channel()
    say("gone with its connection", until(lambda: not c.exists(q), "the queue is gone"))


@scenario("queue.delete", mirrored=True)
def _(c):
    q = c.declare("q")
    c.publish(q, "one")
    c.attempt("if empty", lambda ch: ch.queue_delete(q, if_empty=True))
    held = c.connection.channel()
    held.basic_consume(q, lambda *a: None)
    c.attempt("if unused", lambda ch: ch.queue_delete(q, if_unused=True))
    c.attempt("if both", lambda ch: ch.queue_delete(q, if_unused=True, if_empty=True))
    held.close()
    c.depth(q, 1)
    c.attempt("unused", lambda ch: ch.queue_delete(q, if_unused=True))
    c.attempt("again", lambda ch: ch.queue_delete(q))


@scenario("queue.purge", mirrored=True)
def _(c):
    q = c.declare("q", durable=True)
    for i in range(5):
        c.publish(q, "m%d" % i, delivery_mode=2)
    ch = c.connection.channel()
    method, _, _ = ch.basic_get(q)
    c.attempt("purge", lambda ch: ch.queue_purge(q))
    ch.basic_nack(method.delivery_tag)
    c.drain(q, 1)
    c.attempt("empty", lambda ch: ch.queue_purge(q))


@scenario("queue.declare-counts", mirrored=True)
def _(c):
    q = c.declare("q")
    for i in range(3):
        c.publish(q, "m%d" % i)
    say(repr(c.channel.queue_declare(q).method))
    held = c.connection.channel()
    held.basic_qos(prefetch_count=1)
    held.basic_consume(q, lambda *a: None)
    c.depth(q, 2)
    say(repr(c.channel.queue_declare(q, passive=True).method))
    say(repr(c.channel.queue_delete(q).method))


@scenario("queue.types")
def _(c):
    q = c.declare("classic", durable=True, arguments={"x-queue-type": "classic"})
    c.publish(q, "x")
    c.attempt("without the type", lambda ch: ch.queue_declare(q, durable=True))
    c.queues.append(c.name("t"))
    c.attempt("unknown type", lambda ch: ch.queue_declare(c.name("t"), durable=True, arguments={"x-queue-type": "nope"}))
    c.attempt("lazy", lambda ch: ch.queue_declare(c.name("t"), durable=True, arguments={"x-queue-mode": "lazy"}))
    c.drain(q, 1)


@scenario("queue.quorum-and-stream")
def _(c):
    for kind in ("quorum", "stream"):
        c.queues.append(c.name(kind))
        c.attempt(kind, lambda ch: ch.queue_declare(c.name(kind), durable=True, arguments={"x-queue-type": kind}))


@scenario("exchange.types")
def _(c):
    for kind in ("direct", "fanout", "topic", "headers"):
        x = c.exchange(kind, kind, durable=True)
        c.attempt("again " + kind, lambda ch: ch.exchange_declare(x, kind, durable=True))
    c.attempt("unknown type", lambda ch: ch.exchange_declare(c.name("nope"), "nope"))
    c.attempt("empty type", lambda ch: ch.exchange_declare(c.name("nope"), ""))
    c.attempt("x- type", lambda ch: ch.exchange_declare(c.name("nope"), "x-nope"))
    c.attempt("unknown type, passive", lambda ch: ch.exchange_declare(c.name("direct"), "nope", passive=True))


@scenario("exchange.equivalence")
def _(c):
    x = c.exchange("x", "direct", durable=True, arguments={"alternate-exchange": "amq.fanout", "own": 1})
    same = {"alternate-exchange": "amq.fanout", "own": 1}
    declare = lambda what, kind="direct", durable=True, arguments=same, **kw: c.attempt(
        what, lambda ch: ch.exchange_declare(x, kind, durable=durable, arguments=arguments, **kw))
    declare("same")
    declare("kind", "fanout")
    declare("durable", durable=False)
    declare("auto-delete", auto_delete=True)
    declare("internal", internal=True)
    declare("other alternate", arguments={"alternate-exchange": "amq.direct"})
    declare("no alternate", arguments={})
    declare("other argument changed", arguments=dict(same, own=2))
    declare("alternate not text", arguments={"alternate-exchange": 1})
    c.attempt("alternate not text, new", lambda ch: ch.exchange_declare(c.name("y"), arguments={"alternate-exchange": 1}))
    c.exchange("z")
    c.attempt("alternate added", lambda ch: ch.exchange_declare(c.name("z"), arguments={"alternate-exchange": "a"}))


@scenario("exchange.names")
def _(c):
    attempt = c.attempt
    attempt("reserved", lambda ch: ch.exchange_declare("amq.mine"))
    attempt("reserved, passive", lambda ch: ch.exchange_declare("amq.mine", passive=True))
    attempt("predeclared", lambda ch: ch.exchange_declare("amq.direct", "direct", durable=True))
    attempt("predeclared, other type", lambda ch: ch.exchange_declare("amq.direct", "topic", durable=True))
    attempt("predeclared, transient", lambda ch: ch.exchange_declare("amq.direct", "direct"))
    for name in ("amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match", "amq.rabbitmq.log"):
        attempt("passive " + name, lambda ch: ch.exchange_declare(name, passive=True))
    attempt("default", lambda ch: ch.exchange_declare("", "direct"))
    attempt("default, passive", lambda ch: ch.exchange_declare("", passive=True))
    attempt("delete predeclared", lambda ch: ch.exchange_delete("amq.direct"))
    attempt("delete default", lambda ch: ch.exchange_delete(""))
    attempt("delete unknown", lambda ch: ch.exchange_delete(c.name("unknown")))
    attempt("delete unknown if unused", lambda ch: ch.exchange_delete(c.name("unknown"), if_unused=True))
    attempt("passive unknown", lambda ch: ch.exchange_declare(c.name("unknown"), passive=True))


@scenario("exchange.delete")
def _(c):
    x = c.exchange("x", "fanout")
    q = c.declare("q")
    c.channel.queue_bind(q, x, "")
    c.attempt("if unused", lambda ch: ch.exchange_delete(x, if_unused=True))
    c.channel.queue_unbind(q, x, "")
    c.attempt("unused", lambda ch: ch.exchange_delete(x, if_unused=True))
    c.attempt("passive", lambda ch: ch.exchange_declare(x, passive=True))
    source, target = c.exchange("source", "fanout"), c.exchange("target", "fanout")
    c.channel.exchange_bind(target, source)
    c.attempt("target if unused", lambda ch: ch.exchange_delete(target, if_unused=True))
    c.exchange("target", "fanout")
    c.channel.exchange_bind(target, source)
    c.attempt("source if unused", lambda ch: ch.exchange_delete(source, if_unused=True))


@scenario("exchange.auto-delete")
def _(c):
    x = c.exchange("x", "fanout", auto_delete=True)
    q = c.declare("q")
    c.attempt("not bound yet", lambda ch: ch.exchange_declare(x, passive=True))
    c.channel.queue_bind(q, x, "1")
    c.channel.queue_bind(q, x, "2")
    c.channel.queue_unbind(q, x, "1")
    c.attempt("one binding left", lambda ch: ch.exchange_declare(x, passive=True))
    c.channel.queue_unbind(q, x, "2")
    c.attempt("none left", lambda ch: ch.exchange_declare(x, passive=True))
    x = c.exchange("y", "fanout", auto_delete=True)
    c.channel.queue_bind(q, x, "1")
    c.channel.queue_delete(q)
    c.attempt("queue deleted", lambda ch: ch.exchange_declare(x, passive=True))


@scenario("exchange.unknown")
def _(c):
    x, q = c.name("unknown"), c.declare("q")
    attempt = c.attempt
    attempt("bind", lambda ch: ch.queue_bind(q, x, "k"))
    attempt("unbind", lambda ch: ch.queue_unbind(q, x, "k"))
    attempt("bind source", lambda ch: ch.exchange_bind("amq.fanout", x))
    attempt("bind target", lambda ch: ch.exchange_bind(x, "amq.fanout"))
    attempt("unbind source", lambda ch: ch.exchange_unbind("amq.fanout", x))
    attempt("bind both", lambda ch: ch.exchange_bind(c.name("one"), c.name("two")))
    attempt("bind both, queue", lambda ch: ch.queue_bind(c.name("noq"), c.name("nox"), "k"))

    def publish(ch):
        ch.confirm_delivery()
        ch.basic_publish(x, "k", b"x")

    attempt("publish", publish)
    say("connection open", c.connection.is_open)


@scenario("exchange.default")
def _(c):
    q = c.declare("q")
    attempt = c.attempt
    attempt("bind", lambda ch: ch.queue_bind(q, "", q))
    attempt("unbind", lambda ch: ch.queue_unbind(q, "", q))
    attempt("bind to it", lambda ch: ch.exchange_bind("", "amq.fanout"))
    attempt("bind from it", lambda ch: ch.exchange_bind("amq.fanout", ""))
    attempt("unbind from it", lambda ch: ch.exchange_unbind("amq.fanout", ""))
    c.publish(q, "by default")
    c.drain(q, 1)


@scenario("exchange.internal")
def _(c):
    x = c.exchange("x", "fanout", internal=True)
    q = c.declare("q")
    c.channel.queue_bind(q, x, "")
    entry = c.exchange("entry", "fanout")
    c.channel.exchange_bind(x, entry)

    def publish(ch):
        ch.confirm_delivery()
        ch.basic_publish(x, "k", b"x")

    c.attempt("publish", publish)
    c.publish("", "through", exchange=entry)
    c.drain(q, 1)


@scenario("binding.arguments")
def _(c):
    x, q = c.exchange("x", "headers"), c.declare("q")
    for match in ("all", "any", "all-with-x", "any-with-x", "none", "", 1, True, None, "ALL"):
        c.attempt("x-match %r" % (match,), lambda ch: ch.queue_bind(q, x, "k", {"x-match": match, "a": 1}))
    c.attempt("no x-match", lambda ch: ch.queue_bind(q, x, "k", {"a": 1}))
    c.attempt("no arguments", lambda ch: ch.queue_bind(q, x, "k"))
    c.attempt("unbind with others", lambda ch: ch.queue_unbind(q, x, "k", {"a": 2}))
    c.attempt("unbind invalid", lambda ch: ch.queue_unbind(q, x, "k", {"x-match": "none"}))


@scenario("consistent-hash.declare")
def _(c):
    x = c.exchange("x", "x-consistent-hash")
    q = c.declare("q")
    c.attempt("weight", lambda ch: ch.queue_bind(q, x, "2"))
    c.attempt("not a number", lambda ch: ch.queue_bind(q, x, "two"))
    c.attempt("zero", lambda ch: ch.queue_bind(q, x, "0"))
    c.attempt("negative", lambda ch: ch.queue_bind(q, x, "-1"))
    c.attempt("empty", lambda ch: ch.queue_bind(q, x, ""))
    for name, arguments in (("header", {"hash-header": "h"}), ("property", {"hash-property": "message_id"}),
                            ("unknown", {"hash-property": "nope"}), ("both", {"hash-header": "h", "hash-property": "message_id"})):
        c.exchanges.append(c.name(name))
        c.attempt(name, lambda ch: ch.exchange_declare(c.name(name), "x-consistent-hash", arguments=arguments))


@scenario("consistent-hash.routes-once")
def _(c):
    x = c.exchange("x", "x-consistent-hash")
    queues = [c.declare("q%d" % i) for i in range(3)]
    for q in queues:
        c.channel.queue_bind(q, x, "1")
    for i in range(60):
        c.publish("key%d" % i, "m", exchange=x)
    say("all", sum(c.count(q) for q in queues), "each has some", all(c.count(q) > 0 for q in queues))
    for q in queues:
        c.channel.queue_purge(q)
    for i in range(10):
        c.publish("same", "m", exchange=x)
    say("one key, one queue", sorted(c.count(q) for q in queues))
