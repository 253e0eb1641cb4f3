"""Routing: exchanges of each type, bindings between exchanges, alternates, CC and BCC."""

from case import scenario
from scenarios import say


def routed(c, exchange, queues, key, body="m", **properties):
    """Publishes and says to which queues the message went, and how often."""
    c.publish(key, body, exchange=exchange, mandatory=True, **properties)
    found = {}
    for q in queues:
        n = c.count(q)
        if n:
            found[q[len(c.prefix) + 1:]] = n
            c.channel.queue_purge(q)
    say("key", repr(key), properties.get("headers", {}), "to", found)


@scenario("routing.direct")
def _(c):
    x = c.exchange("x", "direct")
    a, b = c.declare("a"), c.declare("b")
    c.channel.queue_bind(a, x, "one")
    c.channel.queue_bind(a, x, "two")
    c.channel.queue_bind(b, x, "two")
    c.channel.queue_bind(b, x, "two", {"another": "binding"})
    for key in ("one", "two", "three", "", "ONE", "one.two"):
        routed(c, x, (a, b), key)
    c.channel.queue_unbind(b, x, "two")
    routed(c, x, (a, b), "two")
    c.channel.queue_unbind(b, x, "two", {"another": "binding"})
    routed(c, x, (a, b), "two")


@scenario("routing.fanout")
def _(c):
    x = c.exchange("x", "fanout")
    a, b = c.declare("a"), c.declare("b")
    routed(c, x, (a, b), "k")
    c.channel.queue_bind(a, x, "1")
    c.channel.queue_bind(a, x, "2")
    c.channel.queue_bind(b, x, "")
    routed(c, x, (a, b), "whatever")


@scenario("routing.topic")
def _(c):
    x = c.exchange("x", "topic")
    patterns = ["#", "*", "a.*", "a.#", "#.b", "*.b", "a.*.b", "a.#.b", "#.#", "*.*", "", ".", "a", "a..b", "#.a.#", "*.#", "#.*", "a.*.#"]
    queues = []
    for i, pattern in enumerate(patterns):
        queues.append(c.declare("[" + pattern + "]"))
        c.channel.queue_bind(queues[-1], x, pattern)
    for key in ("", "a", "b", "a.b", "a.a", "a.x.b", "a.b.b", "a.b.c.b", ".", "..", "a.", ".b", "a..b", "a.#.b", "#", "*", "b.a.b", "A.b"):
        routed(c, x, queues, key)


@scenario("routing.headers")
def _(c):
    x = c.exchange("x", "headers")
    bindings = {
        "all": {"x-match": "all", "a": 1, "b": "two"},
        "any": {"x-match": "any", "a": 1, "b": "two"},
        "default": {"a": 1},
        "none": {},
        "any-none": {"x-match": "any"},
        "presence": {"x-match": "all", "a": None},
        "x-ignored": {"x-match": "all", "x-own": 1},
        "all-with-x": {"x-match": "all-with-x", "x-own": 1, "a": 1},
        "any-with-x": {"x-match": "any-with-x", "x-own": 1, "a": 1},
        "text": {"x-match": "all", "a": "1"},
        "bool": {"x-match": "all", "a": True},
        "nested": {"x-match": "all", "a": {"b": 1}},
    }
    queues = []
    for short, arguments in bindings.items():
        queues.append(c.declare(short))
        c.channel.queue_bind(queues[-1], x, "ignored", arguments)
    for headers in ({}, {"a": 1}, {"b": "two"}, {"a": 1, "b": "two"}, {"a": 1, "b": "three"}, {"a": "1"}, {"x-own": 1},
                    {"x-own": 1, "a": 1}, {"a": None}, {"a": True}, {"a": {"b": 1}}, {"a": 5000000000}, {"a": [1]}):
        routed(c, x, queues, "ignored", headers=headers)


@scenario("routing.exchange-to-exchange")
def _(c):
    first, second, third = c.exchange("first", "topic"), c.exchange("second", "fanout"), c.exchange("third", "direct")
    a, b = c.declare("a"), c.declare("b")
    c.channel.exchange_bind(second, first, "go.*")
    c.channel.exchange_bind(third, second, "")
    c.channel.queue_bind(a, second, "")
    c.channel.queue_bind(a, third, "go.on")
    c.channel.queue_bind(b, third, "go.on")
    for key in ("go.on", "go.off", "stay"):
        routed(c, first, (a, b), key)
    c.channel.exchange_bind(first, third, "go.on")
    routed(c, first, (a, b), "go.on")
    c.channel.exchange_unbind(second, first, "go.*")
    routed(c, first, (a, b), "go.on")
    c.attempt("unbind again", lambda ch: ch.exchange_unbind(second, first, "go.*"))


@scenario("routing.alternate")
def _(c):
    last = c.exchange("last", "fanout")
    middle = c.exchange("middle", "direct", arguments={"alternate-exchange": last})
    first = c.exchange("first", "direct", arguments={"alternate-exchange": middle})
    a, b, z = c.declare("a"), c.declare("b"), c.declare("z")
    c.channel.queue_bind(a, first, "a")
    c.channel.queue_bind(b, middle, "b")
    routed(c, first, (a, b, z), "nowhere")
    c.channel.queue_bind(z, last, "")
    for key in ("a", "b", "z"):
        routed(c, first, (a, b, z), key)
    lost = c.exchange("lost", "direct", arguments={"alternate-exchange": c.name("missing")})
    routed(c, lost, (a, b, z), "k")
    loop = c.exchange("loop", "direct", arguments={"alternate-exchange": c.name("loop")})
    routed(c, loop, (a, b, z), "k")


@scenario("routing.cc", mirrored=True)
def _(c):
    x = c.exchange("x", "direct")
    a, b, z = c.declare("a"), c.declare("b"), c.declare("z")
    for q, key in ((a, "a"), (b, "b"), (z, "z")):
        c.channel.queue_bind(q, x, key)
    routed(c, x, (a, b, z), "a", headers={"CC": ["b", "z"]})
    routed(c, x, (a, b, z), "a", headers={"CC": ["b"], "BCC": ["z"]})
    routed(c, x, (a, b, z), "nowhere", headers={"BCC": ["z", "z", "a"]})
    routed(c, x, (a, b, z), "a", headers={"CC": []})
    c.publish("a", "headers seen", exchange=x, headers={"CC": ["b"], "BCC": ["z"], "own": 1})
    for q in (a, b, z):
        c.drain(q, 1, details=True)
    c.publish(a, "default exchange", headers={"CC": [b], "BCC": [z]})
    for q in (a, b, z):
        c.drain(q, 1, details=True)

    def bad(value, name="CC"):
        def publish(ch):
            import pika
            ch.confirm_delivery()
            ch.basic_publish(x, "a", b"x", pika.BasicProperties(headers={name: value}))
        return publish

    c.attempt("CC text", bad("b"))
    c.attempt("BCC text", bad("b", "BCC"))
    c.attempt("CC numbers", bad([1]))


@scenario("routing.mandatory", mirrored=True)
def _(c):
    x, q = c.exchange("x", "direct"), c.declare("q")
    c.publish("nowhere", "lost", exchange=x, mandatory=True, headers={"a": 1}, message_id="7", content_type="text/plain")
    c.publish(c.name("no-queue"), "lost too", mandatory=True)
    c.publish("nowhere", "nobody cares", exchange=x)
    c.publish(q, "found", mandatory=True)
    c.drain(q, 1)


@scenario("routing.binding-arguments-distinguish")
def _(c):
    x, q = c.exchange("x", "direct"), c.declare("q")
    c.channel.queue_bind(q, x, "k", {"a": 1})
    c.channel.queue_bind(q, x, "k", {"a": 1})
    c.channel.queue_bind(q, x, "k", {"a": 2})
    c.channel.queue_unbind(q, x, "k", {"a": 3})
    routed(c, x, (q,), "k")
    c.channel.queue_unbind(q, x, "k", {"a": 1})
    routed(c, x, (q,), "k")
    c.channel.queue_unbind(q, x, "k", {"a": 2})
    routed(c, x, (q,), "k")


@scenario("routing.deleted-queue-loses-bindings", mirrored=True)
def _(c):
    x, q = c.exchange("x", "direct"), c.declare("q")
    c.channel.queue_bind(q, x, "k")
    routed(c, x, (q,), "k")
    c.channel.queue_delete(q)
    c.declare("q")
    routed(c, x, (q,), "k")
