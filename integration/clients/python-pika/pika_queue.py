"""Queues: time to live, limits, dead letters, priorities, expiry."""

import datetime
import decimal
import hashlib

import pika

from case import consumer, scenario, tell
from scenarios import say, until


@scenario("ttl.queue", mirrored=True)
def _(c):
    q = c.declare("q", arguments={"x-message-ttl": 300})
    c.publish(q, "short")
    c.depth(q, 1)
    c.depth(q, 0)
    zero = c.declare("zero", arguments={"x-message-ttl": 0})
    c.publish(zero, "gone at once")
    c.depth(zero, 0)
    ch = c.connection.channel()
    consumer(ch, zero, "t", auto_ack=True)
    c.publish(zero, "to a consumer that waits")
    c.collect(ch, 1)
    say(ch.seen)


@scenario("ttl.message", mirrored=True)
def _(c):
    q = c.declare("q")
    c.publish(q, "stays")
    c.publish(q, "behind it", expiration="50")
    c.publish(q, "last")
    c.connection.sleep(0.3)
    say("a message behind another", c.count(q))
    c.drain(q, 2, details=True)
    c.publish(q, "at the head", expiration="50")
    c.publish(q, "remains", expiration="3600000")
    c.depth(q, 1)
    c.drain(q, 1, details=True)
    c.publish(q, "zero", expiration="0")
    c.depth(q, 0)


@scenario("ttl.invalid")
def _(c):
    q = c.declare("q")

    def publish(expiration):
        def action(ch):
            ch.confirm_delivery()
            ch.basic_publish("", q, b"x", pika.BasicProperties(expiration=expiration))
        return action

    for value in ("", "abc", "-1", "1.5", " 1", "1 ", "4294967296", "4294967295", "+5", "1e3"):
        c.attempt("expiration %r" % value, publish(value))


@scenario("ttl.too-large")
def _(c):
    q = c.declare("q")

    def publish(ch):
        ch.confirm_delivery()
        ch.basic_publish("", q, b"x", pika.BasicProperties(expiration="99999999999999999999"))

    c.attempt("publish", publish)


@scenario("ttl.both", mirrored=True)
def _(c):
    q = c.declare("q", arguments={"x-message-ttl": 60000})
    c.publish(q, "own is shorter", expiration="50")
    c.depth(q, 0)
    q = c.declare("q2", arguments={"x-message-ttl": 50})
    c.publish(q, "queue's is shorter", expiration="60000")
    c.depth(q, 0)


@scenario("queue.expires", mirrored=True)
def _(c):
    q = c.declare("q", arguments={"x-expires": 400})
    c.connection.sleep(0.2)
    say("there", c.exists(q))
    say("gone", until(lambda: not c.exists(q), "the queue expires", step=lambda: c.connection.sleep(0.9)))


@scenario("dead-letter.rejected", mirrored=True)
def _(c):
    target = c.declare("dead")
    q = c.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target})
    c.publish(q, "rejected", headers={"own": 1}, message_id="m", delivery_mode=2, priority=3)
    method, _, _ = c.channel.basic_get(q)
    c.channel.basic_reject(method.delivery_tag, requeue=False)
    c.drain(target, 1, details=True)
    c.publish(q, "nacked")
    method, _, _ = c.channel.basic_get(q)
    c.channel.basic_nack(method.delivery_tag, requeue=False)
    c.drain(target, 1, details=True)


@scenario("dead-letter.expired", mirrored=True)
def _(c):
    target = c.declare("dead")
    q = c.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target, "x-message-ttl": 50})
    c.publish(q, "queue's ttl", headers={"own": [1, {"deep": True}]})
    c.drain(target, 1, details=True)
    c.publish(q, "own ttl", expiration="20", content_type="text/plain")
    c.drain(target, 1, details=True)


@scenario("dead-letter.maxlen", mirrored=True)
def _(c):
    target = c.declare("dead")
    q = c.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target, "x-max-length": 2})
    for i in range(4):
        c.publish(q, "m%d" % i)
    c.drain(q, 2)
    c.drain(target, 2, details=True)


@scenario("dead-letter.several-hops", mirrored=True)
def _(c):
    x = c.exchange("x", "direct")
    queues = []
    for i in range(3):
        queues.append(c.declare("q%d" % i, arguments={"x-dead-letter-exchange": x, "x-dead-letter-routing-key": "to%d" % (i + 1), "x-message-ttl": 30}))
        c.channel.queue_bind(queues[-1], x, "to%d" % i)
    last = c.declare("last")
    c.channel.queue_bind(last, x, "to3")
    c.publish("to0", "three hops", exchange=x, headers={"CC": ["extra"], "own": "h"})
    c.drain(last, 1, details=True)


@scenario("dead-letter.rejected-again-and-again", mirrored=True)
def _(c):
    x = c.exchange("x", "fanout")
    q = c.declare("q", arguments={"x-dead-letter-exchange": x})
    c.channel.queue_bind(q, x, "")
    c.publish(q, "round and round")
    for i in range(4):
        found = []

        def step():
            method, properties, body = c.channel.basic_get(q)
            if method is not None:
                found.append((method, properties, body))

        until(lambda: found, "round %d" % i, step=step)
        if not found:
            return
        tell(*found[0])
        c.channel.basic_reject(found[0][0].delivery_tag, requeue=False)
    c.drain(q, 1)


@scenario("dead-letter.cycle-is-cut", mirrored=True)
def _(c):
    q = c.declare("q", arguments={"x-dead-letter-exchange": "", "x-message-ttl": 50})
    c.publish(q, "in a circle")
    c.depth(q, 0)
    c.connection.sleep(0.3)
    c.depth(q, 0)
    a = c.declare("a", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": c.name("b"), "x-message-ttl": 50})
    b = c.declare("b", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": c.name("a"), "x-message-ttl": 50})
    c.publish(a, "in a larger circle")
    c.connection.sleep(0.5)
    c.depth(a, 0)
    c.depth(b, 0)


@scenario("dead-letter.keys", mirrored=True)
def _(c):
    x = c.exchange("x", "topic")
    q = c.declare("q", arguments={"x-dead-letter-exchange": x})
    target = c.declare("dead")
    c.channel.queue_bind(target, x, "#")
    entry = c.exchange("entry", "fanout")
    c.channel.queue_bind(q, entry, "")
    for headers in ({}, {"CC": ["cc"]}, {"BCC": ["bcc"]}):
        c.publish("the.key", "m", exchange=entry, headers=headers)
        method, _, _ = c.channel.basic_get(q)
        c.channel.basic_reject(method.delivery_tag, requeue=False)
        c.drain(target, 1, details=True)


@scenario("dead-letter.missing-exchange", mirrored=True)
def _(c):
    q = c.declare("q", arguments={"x-dead-letter-exchange": c.name("missing")})
    c.publish(q, "lost")
    method, _, _ = c.channel.basic_get(q)
    c.channel.basic_reject(method.delivery_tag, requeue=False)
    c.depth(q, 0)
    say("channel open", c.channel.is_open)


@scenario("dead-letter.forged-headers", mirrored=True)
def _(c):
    target = c.declare("dead")
    q = c.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target})
    for headers in ({"x-death": "text"}, {"x-death": []}, {"x-death": [{"queue": "other", "reason": "expired", "count": 7}]},
                    {"x-first-death-queue": "mine"}):
        c.publish(q, "forged", headers=headers)
        method, _, _ = c.channel.basic_get(q)
        c.channel.basic_reject(method.delivery_tag, requeue=False)
        c.drain(target, 1, details=True)


@scenario("max-length.drop-head", mirrored=True)
def _(c):
    q = c.declare("q", arguments={"x-max-length": 2})
    for i in range(5):
        c.publish(q, "m%d" % i)
    c.drain(q, 2)
    held = c.connection.channel()
    for i in range(2):
        c.publish(q, "held%d" % i)
        held.basic_get(q)
    for i in range(3):
        c.publish(q, "n%d" % i)
    c.drain(q, 2)
    held.basic_recover(requeue=True)
    c.drain(q, 2)
    zero = c.declare("zero", arguments={"x-max-length": 0})
    c.publish(zero, "never")
    c.depth(zero, 0)


@scenario("max-length.bytes", mirrored=True)
def _(c):
    q = c.declare("q", arguments={"x-max-length-bytes": 10})
    for body in ("12345", "1234", "12", "123456", "12345678901", "x"):
        c.publish(q, body)
        say(body, "then", c.count(q))
    c.drain(q, c.count(q))


@scenario("max-length.reject-publish", mirrored=True)
def _(c):
    q = c.declare("q", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    for i in range(4):
        c.publish(q, "m%d" % i)
    c.drain(q, 2)
    c.publish(q, "again")
    c.drain(q, 1)
    b = c.declare("bytes", arguments={"x-max-length-bytes": 5, "x-overflow": "reject-publish"})
    for body in ("123", "4567", "8", "9"):
        c.publish(b, body)
    c.drain(b, c.count(b))


@scenario("max-length.reject-publish-one-of-two", mirrored=True)
def _(c):
    x = c.exchange("x", "fanout")
    full = c.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    free = c.declare("free")
    for q in (full, free):
        c.channel.queue_bind(q, x, "")
    c.publish("", "first", exchange=x)
    c.publish("", "second", exchange=x)
    c.drain(full, 1)
    c.drain(free, 2)


@scenario("max-length.reject-publish-dlx", mirrored=True)
def _(c):
    target = c.declare("dead")
    q = c.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": target})
    for i in range(3):
        c.publish(q, "m%d" % i)
    c.drain(q, 1)
    c.drain(target, 2, details=True)


@scenario("priority.order", mirrored=True)
def _(c):
    q = c.declare("q", arguments={"x-max-priority": 5})
    for body, priority in (("none", None), ("zero", 0), ("one", 1), ("five", 5), ("nine", 9), ("five again", 5), ("255", 255)):
        c.publish(q, body, priority=priority)
    c.drain(q, 7, details=True)
    c.attempt("without", lambda ch: ch.queue_declare(q))


@scenario("priority.requeue", mirrored=True)
def _(c):
    q = c.declare("q", arguments={"x-max-priority": 3})
    for body, priority in (("low1", 1), ("low2", 1), ("high1", 3), ("high2", 3)):
        c.publish(q, body, priority=priority)
    ch = c.connection.channel()
    first, second = ch.basic_get(q)[0], ch.basic_get(q)[0]
    ch.basic_nack(second.delivery_tag)
    ch.basic_nack(first.delivery_tag)
    c.depth(q, 4)
    c.drain(q, 4)


@scenario("priority.max-length", mirrored=True)
def _(c):
    q = c.declare("q", arguments={"x-max-priority": 3, "x-max-length": 2})
    for body, priority in (("low1", 1), ("low2", 1), ("high1", 3), ("high2", 3), ("low3", 0)):
        c.publish(q, body, priority=priority)
    c.drain(q, 2)


@scenario("queue.auto-delete", mirrored=True)
def _(c):
    q = c.declare("q", auto_delete=True)
    say("never consumed", c.exists(q))
    ch = c.connection.channel()
    consumer(ch, q, "one")
    consumer(ch, q, "two")
    ch.basic_cancel("one")
    say("one consumer left", c.exists(q))
    ch.basic_cancel("two")
    say("none left", c.exists(q))
    q = c.declare("q2", auto_delete=True)
    ch = c.connection.channel()
    consumer(ch, q, "one")
    ch.close()
    say("channel closed", until(lambda: not c.exists(q), "the queue is gone"))
    q = c.declare("q3", auto_delete=True)
    c.publish(q, "m")
    c.drain(q, 1)
    say("get does not count", c.exists(q))


@scenario("queue.bodies", mirrored=True)
def _(c):
    q = c.declare("q")
    for size in (0, 1, 4096, 131064, 131065, 300000):
        c.publish(q, b"\x00\xffx" * (size // 3) + b"y" * (size % 3), delivery_mode=2)
    for _ in range(6):
        body = c.channel.basic_get(q, auto_ack=True)[2]
        say("body of", len(body), hash_of(body))


def hash_of(body):
    return hashlib.sha256(body).hexdigest()[:16]


@scenario("queue.properties", mirrored=True)
def _(c):
    q = c.declare("q")
    c.publish(q, "all", content_type="t/p", content_encoding="utf-8", delivery_mode=2, priority=7, correlation_id="c", reply_to="r",
              expiration="60000", message_id="m", timestamp=1700000000, type="ty", user_id="guest", app_id="app", cluster_id="cl",
              headers={"int": 1, "big": 1 << 40, "negative": -5, "text": "ü", "true": True, "none": None, "list": [1, "a", [2]],
                       "table": {"a": {"b": 1}}, "decimal": decimal.Decimal("1.25"),
                       "time": datetime.datetime(2020, 1, 2, 3, 4, 5), "bytes": bytearray(b"\x00\x01")})
    c.publish(q, "none")
    c.publish(q, "odd mode", delivery_mode=1, priority=0, headers={})
    c.drain(q, 3, details=True)
