"""Publishing: confirms, transactions, users, replies."""

import re

import pika
from pika import exceptions, spec

from case import closed_text, consumer, properties_of, scenario
from scenarios import say, until


def wait(c, condition, what):
    until(condition, what, step=lambda: c.connection.process_data_events(0.05))


@scenario("confirm.select")
def _(c):
    ch = c.connection.channel()
    confirms = []
    ch._impl.confirm_delivery(lambda frame: confirms.append(repr(frame.method)), lambda frame: say("select-ok"))
    q = c.declare("q")
    for i in range(3):
        ch._impl.basic_publish("", q, b"%d" % i)
    acked = lambda: tags(confirms) >= 3
    wait(c, acked, "three confirms")
    say("last confirmed", tags(confirms))
    c.drain(q, 3)


def tags(confirms):
    found = [int(t) for text in confirms for t in re.findall(r"delivery_tag=(\d+)", text)]
    return max(found, default=0)


@scenario("confirm.persistent", mirrored=True)
def _(c):
    q = c.declare("q", durable=True)
    for i in range(20):
        c.publish(q, "m%d" % i, delivery_mode=2)
    c.depth(q, 20)
    c.publish("", "to nobody", exchange="amq.fanout")
    say("confirmed")


@scenario("confirm.and-tx")
def _(c):
    def confirm_then_tx(ch):
        ch.confirm_delivery()
        ch.tx_select()

    def tx_then_confirm(ch):
        ch.tx_select()
        ch.confirm_delivery()

    c.attempt("confirm, then tx", confirm_then_tx)
    c.attempt("tx, then confirm", tx_then_confirm)
    c.attempt("confirm twice", lambda ch: (ch._impl.confirm_delivery(lambda f: None), ch._impl.confirm_delivery(lambda f: None), ch.basic_qos(prefetch_count=1))[2])
    c.attempt("tx twice", lambda ch: (ch.tx_select(), ch.tx_select())[1])
    c.attempt("commit without", lambda ch: ch.tx_commit())
    c.attempt("rollback without", lambda ch: ch.tx_rollback())


@scenario("tx.publish", mirrored=True)
def _(c):
    q = c.declare("q")
    ch = c.connection.channel()
    ch.tx_select()
    ch.basic_publish("", q, b"committed")
    say("before", c.count(q))
    ch.tx_commit()
    c.depth(q, 1)
    ch.basic_publish("", q, b"rolled back")
    ch.tx_rollback()
    ch.tx_commit()
    ch.basic_publish("", q, b"second")
    ch.close()
    c.drain(q, 1)


@scenario("tx.ack", mirrored=True)
def _(c):
    q = c.declare("q")
    for body in ("a", "b", "c"):
        c.publish(q, body)
    ch = c.connection.channel()
    ch.tx_select()
    for _ in range(3):
        ch.basic_get(q)
    ch.basic_ack(1)
    ch.basic_nack(2)
    say("ready before commit", c.count(q))
    ch.tx_rollback()
    ch.basic_ack(1)
    ch.basic_reject(2, requeue=False)
    ch.tx_commit()
    ch.close()
    c.depth(q, 1)
    c.drain(q, 1, details=True)


@scenario("tx.errors")
def _(c):
    def unknown_exchange(ch):
        ch.tx_select()
        ch.basic_publish(c.name("unknown"), "k", b"x")
        ch.tx_commit()

    def unknown_tag(ch):
        ch.tx_select()
        ch.basic_ack(7)
        ch.tx_commit()

    c.attempt("unknown exchange", unknown_exchange)
    c.attempt("unknown tag", unknown_tag)
    ch = c.connection.channel()
    returned = []
    ch.add_on_return_callback(lambda _, method, properties, body: returned.append((method.reply_code, body)))
    ch.tx_select()
    ch.basic_publish("", c.name("nobody"), b"returned", mandatory=True)
    c.connection.process_data_events(0.2)
    say("before commit", returned)
    ch.tx_commit()
    wait(c, lambda: returned, "return")
    say("after commit", returned)


@scenario("publish.user-id", mirrored=True)
def _(c):
    q = c.declare("q")

    def publish(user):
        def action(ch):
            ch.confirm_delivery()
            ch.basic_publish("", q, b"x", pika.BasicProperties(user_id=user))
        return action

    for user in ("guest", "other", ""):
        c.attempt("user %r" % user, publish(user))
    c.drain(q, 1, details=True)


@scenario("publish.immediate")
def _(c):
    connection = c.other()
    ch = connection.channel()
    try:
        ch._impl._send_method(spec.Basic.Publish(exchange="", routing_key="q", immediate=True), (pika.BasicProperties(), b"x"))
        until(lambda: False, "close", step=lambda: connection.process_data_events(0.05))
    except exceptions.AMQPError as error:
        say(closed_text(error))


@scenario("publish.header-times")
def _(c):
    q = c.declare("q")
    c.publish(q, "future", timestamp=4000000000)
    c.drain(q, 1, details=True)


@scenario("reply-to.direct", mirrored=True)
def _(c):
    q = c.declare("requests")
    client = c.connection.channel()
    consumer(client, "amq.rabbitmq.reply-to", "replies", auto_ack=True)
    client.basic_publish("", q, b"ask", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="1"))
    server = c.other(2).channel()
    found = []

    def step():
        got = server.basic_get(q, auto_ack=True)
        if got[0] is not None:
            found.append(got)

    until(lambda: found, "a request", step=step)
    method, properties, body = found[0]
    address = properties.reply_to
    say("request", body, address.rsplit(".", 0)[0].startswith("amq.rabbitmq.reply-to."))
    say("passive", repr(server.queue_declare(address, passive=True).method).replace(address, "ADDRESS"))
    server.basic_publish("", address, b"answer", pika.BasicProperties(correlation_id="1"), mandatory=True)
    c.collect(client, 1)
    say("answer", [(body, redelivered) for _, body, redelivered, _ in client.seen])
    client.close()
    server.confirm_delivery()
    try:
        server.basic_publish("", address, b"too late", mandatory=True)
        say("late answer is taken")
    except exceptions.UnroutableError as error:
        say("late answer is returned", error.messages[0].method.reply_text)
    c.attempt("passive when it is gone", lambda ch: ch.queue_declare(address, passive=True), c.other(3))
    c.attempt("passive after", lambda ch: ch.queue_declare(address.replace(address[-6:], "AAAAAA"), passive=True))


@scenario("reply-to.misuse")
def _(c):
    r = "amq.rabbitmq.reply-to"
    c.attempt("with acks", lambda ch: consumer(ch, r, "t"))
    c.attempt("twice", lambda ch: (consumer(ch, r, "t", auto_ack=True), consumer(ch, r, "u", auto_ack=True))[1])
    c.attempt("cancel and again", lambda ch: (consumer(ch, r, "t", auto_ack=True), ch.basic_cancel("t"), consumer(ch, r, "u", auto_ack=True))[1])

    def publish(ch):
        ch.basic_publish("", "somewhere", b"x", pika.BasicProperties(reply_to=r))
        ch.basic_qos(prefetch_count=1)

    c.attempt("publish without consuming", publish)
    c.attempt("get", lambda ch: ch.basic_get(r))
    c.attempt("declare", lambda ch: ch.queue_declare(r))
    c.attempt("passive", lambda ch: ch.queue_declare(r, passive=True))
    c.attempt("bind", lambda ch: ch.queue_bind(r, "amq.direct", "k"))
    c.attempt("delete", lambda ch: ch.queue_delete(r))
    c.attempt("purge", lambda ch: ch.queue_purge(r))


@scenario("reply-to.made-up")
def _(c):
    name = "amq.rabbitmq.reply-to.made.up"
    c.attempt("passive", lambda ch: ch.queue_declare(name, passive=True))

    def confirmed(ch):
        ch.confirm_delivery()
        ch.basic_publish("", name, b"x", mandatory=True)

    c.attempt("publish", confirmed)


@scenario("publish.properties-reach", mirrored=True)
def _(c):
    q = c.declare("q")
    ch = c.connection.channel()
    seen = []
    ch.basic_consume(q, lambda _, method, properties, body: seen.append((method, properties, body)), auto_ack=True)
    c.publish(q, "x", headers={"a": [1, 2, {"b": None}]}, correlation_id="id")
    wait(c, lambda: seen, "a delivery")
    for method, properties, body in seen:
        say(body, method.exchange, method.routing_key, properties_of(properties))
