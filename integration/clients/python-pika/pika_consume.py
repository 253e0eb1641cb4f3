"""Consumers: acknowledgements, prefetch, cancels, priorities, single active consumers."""

from pika import exceptions, spec

from case import closed_text, consumer, scenario
from scenarios import say, until


def fill(c, q, *bodies):
    for body in bodies:
        c.publish(q, body)


def two_consumers(c, *limits):
    """A queue of six messages and a channel that sets these limits and then consumes from it twice."""
    q = c.declare("q")
    fill(c, q, *["m%d" % i for i in range(6)])
    ch = c.connection.channel()
    for limit in limits:
        ch.basic_qos(**limit)
    consumer(ch, q, "a")
    consumer(ch, q, "b")
    return q, ch


@scenario("consume.simple", mirrored=True)
def _(c):
    q = c.declare("q")
    fill(c, q, "a", "b", "c")
    ch = c.connection.channel()
    say("tag", consumer(ch, q, "tag"))
    c.collect(ch, 3)
    say(ch.seen)
    ch.basic_ack(3, multiple=True)
    say("left", ch.queue_delete(q).method.message_count)


@scenario("consume.from-other-nodes", mirrored=True)
def _(c):
    q = c.declare("q", durable=True)
    for node in (1, 2, 3):
        other = c.other(node)
        ch = other.channel()
        ch.confirm_delivery()
        ch.basic_publish("", q, b"from %d" % node)
    for node in (3, 2, 1):
        ch = c.other(node).channel()
        method, _, body = ch.basic_get(q, auto_ack=True)
        say(node, body, method.message_count)


@scenario("consume.tag-reused")
def _(c):
    q = c.declare("q")
    ch = c.other().channel()
    consumer(ch, q, "same")
    second = c.other().channel()
    consumer(second, q, "same")
    say("another channel may")
    try:
        ch._impl._send_method(spec.Basic.Consume(queue=q, consumer_tag="same", nowait=True))
        until(lambda: False, "close", step=lambda: ch.connection.process_data_events(0.05))
    except exceptions.AMQPError as error:
        say(closed_text(error))


@scenario("consume.exclusive", mirrored=True)
def _(c):
    q = c.declare("q")
    ch = c.connection.channel()
    consumer(ch, q, "one", exclusive=True)
    c.attempt("second", lambda other: consumer(other, q, "two"))
    c.attempt("second exclusive", lambda other: consumer(other, q, "two", exclusive=True))
    c.attempt("get", lambda other: other.basic_get(q))
    ch.basic_cancel("one")
    c.attempt("after cancel", lambda other: consumer(other, q, "two"))
    third = c.connection.channel()
    consumer(third, q, "three")
    c.attempt("exclusive with others", lambda other: consumer(other, q, "four", exclusive=True))


@scenario("consume.prefetch", mirrored=True)
def _(c):
    q = c.declare("q")
    fill(c, q, *["m%d" % i for i in range(6)])
    ch = c.connection.channel()
    ch.basic_qos(prefetch_count=2)
    consumer(ch, q, "a")
    c.collect(ch, 2)
    c.depth(q, 4)
    ch.basic_ack(1)
    c.collect(ch, 3)
    say(ch.seen)
    c.depth(q, 3)
    consumer(ch, q, "b")
    c.collect(ch, 5)
    say(ch.seen)
    c.depth(q, 1)


@scenario("consume.prefetch-global", mirrored=True)
def _(c):
    q, ch = two_consumers(c, {"prefetch_count": 3, "global_qos": True}, {"prefetch_count": 2})
    c.collect(ch, 4)
    c.depth(q, 2)
    ch.basic_ack(4, multiple=True)
    c.collect(ch, 6)
    c.depth(q, 0)
    say(sorted(body for _, body, _, _ in ch.seen))


@scenario("consume.prefetch-global-one", mirrored=True)
def _(c):
    q = c.declare("q")
    fill(c, q, *["m%d" % i for i in range(9)])
    ch = c.connection.channel()
    ch.basic_qos(prefetch_count=2, global_qos=True)
    consumer(ch, q, "a")
    c.collect(ch, 2)
    c.depth(q, 7)
    ch.basic_qos(prefetch_count=4, global_qos=True)
    c.collect(ch, 4)
    c.depth(q, 5)
    ch.basic_ack(1)
    c.collect(ch, 5)
    c.depth(q, 4)
    ch.basic_qos(prefetch_count=0, global_qos=True)
    c.collect(ch, 9)
    c.depth(q, 0)


@scenario("consume.prefetch-global-last", mirrored=True)
def _(c):
    q, ch = two_consumers(c, {"prefetch_count": 2}, {"prefetch_count": 3, "global_qos": True})
    c.collect(ch, 3)
    ch.basic_ack(2, multiple=True)
    c.collect(ch, 5)
    say(sorted(body for _, body, _, _ in ch.seen))
    say("rest", ch.queue_declare(q, passive=True).method.message_count <= 1)


@scenario("consume.prefetch-global-two")
def _(c):
    q, ch = two_consumers(c, {"prefetch_count": 3, "global_qos": True})
    c.collect(ch, 3)
    c.depth(q, 3)


@scenario("consume.qos-invalid")
def _(c):
    c.attempt("size", lambda ch: ch.basic_qos(prefetch_size=10, prefetch_count=1))
    c.attempt("zero", lambda ch: ch.basic_qos(prefetch_count=0))
    c.attempt("most", lambda ch: ch.basic_qos(prefetch_count=65535))
    c.attempt("global", lambda ch: ch.basic_qos(prefetch_count=1, global_qos=True))


@scenario("consume.no-ack", mirrored=True)
def _(c):
    q = c.declare("q")
    fill(c, q, "a", "b")
    ch = c.connection.channel()
    ch.basic_qos(prefetch_count=1)
    consumer(ch, q, "t", auto_ack=True)
    c.collect(ch, 2)
    say(ch.seen)

    def ack(other):
        consumer(other, q, "t", auto_ack=True)
        c.publish(q, "c")
        c.collect(other, 1)
        other.basic_ack(1)
        other.basic_qos(prefetch_count=1)

    c.attempt("ack", ack)


@scenario("ack.unknown-tags")
def _(c):
    q = c.declare("q")
    fill(c, q, "a", "b")

    def settle(action):
        def attempt(ch):
            ch.basic_get(q)
            action(ch)
            ch.basic_qos(prefetch_count=1)
        return attempt

    c.attempt("ack 9", settle(lambda ch: ch.basic_ack(9)))
    c.attempt("ack 9 multiple", settle(lambda ch: ch.basic_ack(9, multiple=True)))
    c.attempt("nack 9", settle(lambda ch: ch.basic_nack(9)))
    c.attempt("reject 9", settle(lambda ch: ch.basic_reject(9)))
    c.attempt("ack 0", settle(lambda ch: ch.basic_ack(0)))
    c.attempt("ack 0 multiple", settle(lambda ch: ch.basic_ack(0, multiple=True)))
    c.attempt("none, 0 multiple", lambda ch: (ch.basic_ack(0, multiple=True), ch.basic_qos(prefetch_count=1))[1])

    def twice(ch):
        ch.basic_get(q)
        ch.basic_ack(1)
        ch.basic_ack(1)
        ch.basic_qos(prefetch_count=1)

    c.attempt("twice", twice)


@scenario("ack.multiple", mirrored=True)
def _(c):
    q = c.declare("q")
    fill(c, q, *["m%d" % i for i in range(6)])
    ch = c.connection.channel()
    for _ in range(5):
        ch.basic_get(q)
    ch.basic_ack(2)
    ch.basic_ack(3, multiple=True)
    ch.basic_nack(5, multiple=True, requeue=True)
    c.depth(q, 3)
    c.drain(q, 3, details=True)


@scenario("requeue.order", mirrored=True)
def _(c):
    q = c.declare("q")
    fill(c, q, *["m%d" % i for i in range(6)])
    ch = c.connection.channel()
    for _ in range(4):
        ch.basic_get(q)
    ch.basic_nack(2)
    ch.basic_reject(4)
    ch.basic_nack(1)
    c.depth(q, 5)
    c.drain(q, 5, details=True)
    ch.close()
    c.drain(q, 1, details=True)


@scenario("requeue.channel-closed", mirrored=True)
def _(c):
    q = c.declare("q")
    fill(c, q, "a", "b", "c")
    ch = c.connection.channel()
    consumer(ch, q, "t")
    c.collect(ch, 3)
    ch.basic_ack(2)
    ch.close()
    c.depth(q, 2)
    c.drain(q, 2, details=True)


@scenario("requeue.connection-closed", mirrored=True)
def _(c):
    q = c.declare("q")
    fill(c, q, "a", "b", "c")
    other = c.other(2)
    ch = other.channel()
    consumer(ch, q, "t")
    c.collect(ch, 3)
    ch.basic_ack(1)
    ch.queue_declare(q, passive=True)
    other.close()
    c.depth(q, 2)
    c.drain(q, 2, details=True)


@scenario("recover", mirrored=True)
def _(c):
    q = c.declare("q")
    fill(c, q, "a", "b")
    ch = c.connection.channel()
    consumer(ch, q, "t")
    c.collect(ch, 2)
    ch.basic_recover(requeue=True)
    c.collect(ch, 4)
    say(ch.seen)
    try:
        ch.basic_recover(requeue=False)
        say("recover without requeue is accepted")
    except exceptions.AMQPError as error:
        say(closed_text(error))


@scenario("get", mirrored=True)
def _(c):
    q = c.declare("q")
    say("empty", [str(part) for part in c.channel.basic_get(q)])
    fill(c, q, "a", "b", "c")
    for auto_ack in (True, False):
        method, _, body = c.channel.basic_get(q, auto_ack=auto_ack)
        say(body, repr(method))
    c.channel.basic_reject(method.delivery_tag)
    method, _, body = c.channel.basic_get(q)
    say(body, repr(method))


@scenario("cancel", mirrored=True)
def _(c):
    q = c.declare("q")
    fill(c, q, "a")
    ch = c.connection.channel()
    consumer(ch, q, "t")
    c.collect(ch, 1)
    ch.basic_cancel("t")
    fill(c, q, "b")
    c.depth(q, 1)
    ch.basic_ack(1)
    say("ack after cancel", ch.queue_declare(q, passive=True).method.message_count)
    answers = []
    ch._impl._rpc(spec.Basic.Cancel(consumer_tag="unknown"), lambda frame: answers.append(repr(frame.method)), [spec.Basic.CancelOk])
    until(lambda: answers, "cancel-ok", step=lambda: c.connection.process_data_events(0.05))
    say(answers)


@scenario("cancel.notified", mirrored=True)
def _(c):
    q = c.declare("q")
    ch = c.connection.channel()
    cancelled = []
    ch.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    consumer(ch, q, "one")
    consumer(ch, q, "two")
    c.connection.channel().queue_delete(q)
    until(lambda: len(cancelled) == 2, "two cancels", step=lambda: c.connection.process_data_events(0.05))
    say(sorted(cancelled))


@scenario("consume.priorities", mirrored=True)
def _(c):
    q = c.declare("q")
    low, high = c.connection.channel(), c.connection.channel()
    for ch in (low, high):
        ch.basic_qos(prefetch_count=2)
    consumer(low, q, "low")
    consumer(high, q, "high", arguments={"x-priority": 10})
    fill(c, q, "a", "b", "c", "d", "e")
    c.collect(high, 2)
    c.collect(low, 2)
    say("high", [body for _, body, _, _ in high.seen], "low", [body for _, body, _, _ in low.seen])
    c.attempt("text", lambda ch: consumer(ch, q, "x", arguments={"x-priority": "1"}))
    c.attempt("negative", lambda ch: consumer(ch, q, "x", arguments={"x-priority": -1}))


@scenario("consume.single-active", mirrored=True)
def _(c):
    q = c.declare("q", arguments={"x-single-active-consumer": True})
    first, second = c.connection.channel(), c.connection.channel()
    consumer(first, q, "first")
    consumer(second, q, "second")
    fill(c, q, "a", "b")
    c.collect(first, 2)
    say("first", first.seen, "second", second.seen)
    c.attempt("exclusive", lambda ch: consumer(ch, q, "third", exclusive=True))
    first.basic_ack(1)
    first.basic_cancel("first")
    fill(c, q, "c")
    c.collect(second, 1)
    say("second", [body for _, body, _, _ in second.seen])
    first.close()
    c.collect(second, 2)
    say("second", [body for _, body, _, _ in second.seen])


@scenario("consume.round-robin", mirrored=True)
def _(c):
    q = c.declare("q")
    channels = [c.connection.channel() for _ in range(3)]
    for i, ch in enumerate(channels):
        consumer(ch, q, "c%d" % i)
    fill(c, q, *["m%d" % i for i in range(9)])
    for ch in channels:
        c.collect(ch, 3)
    say([[body for _, body, _, _ in ch.seen] for ch in channels])


@scenario("consume.arguments")
def _(c):
    q = c.declare("q")
    c.attempt("x-cancel-on-ha-failover", lambda ch: consumer(ch, q, "t", arguments={"x-cancel-on-ha-failover": True}))
    c.attempt("x-cancel-on-ha-failover text", lambda ch: consumer(ch, q, "t", arguments={"x-cancel-on-ha-failover": "yes"}))
    c.attempt("x-priority", lambda ch: consumer(ch, q, "t", arguments={"x-priority": 5}))
    c.attempt("x-priority float", lambda ch: consumer(ch, q, "t", arguments={"x-priority": 1.5}))
    c.attempt("x-stream-offset", lambda ch: consumer(ch, q, "t", arguments={"x-stream-offset": "first"}))
    c.attempt("unknown", lambda ch: consumer(ch, q, "t", arguments={"x-unknown": 1}))
