"""Connections: tuning, logins, virtual hosts, permissions."""

import pika
from pika import exceptions

from case import closed_text, connect, login, scenario
from scenarios import say


def opening(what, open_it):
    try:
        connection = open_it()
        say(what + ": open")
        connection.close()
    except exceptions.AMQPError as error:
        say(what + ":", type(error).__name__, [closed_text(a) if isinstance(a, Exception) else str(a) for a in error.args])


@scenario("connection.server-properties")
def _(c):
    properties = c.connection._impl.server_properties
    say("properties", properties)
    say("capabilities", sorted(properties["capabilities"]))


@scenario("connection.tune")
def _(c):
    for changes in ({}, {"heartbeat": 0}, {"heartbeat": 5}, {"heartbeat": 580}, {"frame_max": 4096}, {"frame_max": 131072},
                    {"channel_max": 10}, {"channel_max": 2047}, {"channel_max": 65535}):
        connection = connect(**changes)
        tuned = connection._impl.params
        say("asked", changes, "got", {"heartbeat": tuned.heartbeat, "frame_max": tuned.frame_max, "channel_max": tuned.channel_max})
        connection.close()


@scenario("connection.login")
def _(c):
    opening("right", lambda: login("guest", "guest"))
    opening("wrong password", lambda: login("guest", "wrong"))
    opening("empty password", lambda: login("guest", ""))
    opening("unknown user", lambda: login("nobody", "x"))
    opening("empty user", lambda: login("", ""))


@scenario("connection.vhosts")
def _(c):
    opening("unknown", lambda: connect(virtual_host="unknown"))
    opening("empty", lambda: connect(virtual_host=""))
    opening("closed", lambda: connect(virtual_host="closed"))
    opening("compare", lambda: connect(virtual_host="compare"))
    opening("limited in compare", lambda: login("limited", "limited", virtual_host="compare"))
    opening("limited in /", lambda: login("limited", "limited"))


@scenario("connection.client-properties")
def _(c):
    opening("with properties", lambda: connect(client_properties={"connection_name": "named", "x": 1, "nested": {"a": [1, "b", True, None]}}))


@scenario("connection.channel-numbers")
def _(c):
    connection = c.other(channel_max=3)
    channels = [connection.channel() for _ in range(3)]
    say([ch.channel_number for ch in channels])
    channels[1].close()
    say(connection.channel().channel_number)
    try:
        connection.channel()
    except Exception as error:
        say(type(error).__name__)


@scenario("permissions.limited")
def _(c):
    full = c.declare("full")
    x = c.exchange("x", "topic")
    connection = login("limited", "limited")
    c.others.append(connection)
    attempt = lambda what, f: c.attempt(what, f, connection)
    attempt("declare queue", lambda ch: ch.queue_declare("other.q"))
    attempt("declare own queue", lambda ch: ch.queue_declare("limited.q"))
    attempt("passive other queue", lambda ch: ch.queue_declare(full, passive=True))
    attempt("declare other queue", lambda ch: ch.queue_declare(full))
    attempt("declare server-named", lambda ch: ch.queue_declare(""))
    attempt("delete other queue", lambda ch: ch.queue_delete(full))
    attempt("purge other queue", lambda ch: ch.queue_purge(full))
    attempt("get other queue", lambda ch: ch.basic_get(full))
    attempt("consume other queue", lambda ch: ch.basic_consume(full, lambda *a: None))
    attempt("declare exchange", lambda ch: ch.exchange_declare("other.x"))
    attempt("declare own exchange", lambda ch: ch.exchange_declare("limited.x"))
    attempt("delete exchange", lambda ch: ch.exchange_delete(x))
    attempt("passive other exchange", lambda ch: ch.exchange_declare(x, passive=True))
    attempt("bind other exchange", lambda ch: ch.queue_bind("limited.q", x, "k"))
    attempt("bind other queue", lambda ch: ch.queue_bind(full, "limited.x", "k"))
    attempt("unbind other queue", lambda ch: ch.queue_unbind(full, "limited.x", "k"))
    attempt("bind amq.topic", lambda ch: ch.queue_bind("limited.q", "amq.topic", "k"))
    attempt("bind exchanges", lambda ch: ch.exchange_bind("limited.x", x, "k"))
    attempt("bind exchanges reversed", lambda ch: ch.exchange_bind(x, "limited.x", "k"))
    attempt("dead letters elsewhere", lambda ch: ch.queue_declare("limited.dlx", arguments={"x-dead-letter-exchange": x}))
    attempt("dead letters by own", lambda ch: ch.queue_declare("limited.dlx2", arguments={"x-dead-letter-exchange": "limited.x"}))
    attempt("alternate elsewhere", lambda ch: ch.exchange_declare("limited.ae", arguments={"alternate-exchange": x}))

    def confirmed(ch, exchange, key):
        ch.confirm_delivery()
        ch.basic_publish(exchange, key, b"x")

    attempt("publish other exchange", lambda ch: confirmed(ch, x, "k"))
    attempt("publish default exchange", lambda ch: confirmed(ch, "", full))
    attempt("publish own", lambda ch: confirmed(ch, "limited.x", "k"))
    for name in ("limited.q", "limited.dlx", "limited.dlx2"):
        c.channel.queue_delete(name)
    c.channel.exchange_delete("limited.x")
    c.channel.exchange_delete("limited.ae")


@scenario("channel.close-and-open")
def _(c):
    ch = c.connection.channel()
    number = ch.channel_number
    ch.close()
    again = c.connection.channel()
    say(again.channel_number == number, again.is_open)
    c.attempt("error", lambda ch: ch.queue_declare("pika.no", passive=True))
    say("other channels open", c.channel.is_open, again.is_open)
    try:
        ch.queue_declare("")
    except Exception as error:
        say(type(error).__name__)


@scenario("channel.flow")
def _(c):
    ch = c.connection.channel()
    say("active", ch.flow(True))
    try:
        say("inactive", ch.flow(False))
    except exceptions.AMQPError as error:
        say(closed_text(error))
