"""What no client library sends, over plain sockets: wrong frames, wrong channels, wrong states, and what is hard to see otherwise."""

import struct
import time

from scenarios import main, say, scenario
from wire import (Wire, boolean, capabilities, declare, frame, header, long, method, publish, short, table, text)


@scenario("header.wrong")
def _():
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x00\x09\x02", b"AMQP\x01\x01\x00\x0a", b"\x00" * 8):
        say("sent", data)
        wire = Wire()
        wire.send(data)
        wire.tell()


@scenario("header.older")
def _():
    for data in (b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x00\x09"):
        say("sent", data)
        wire = Wire()
        wire.send(data)
        wire.tell("connection.start", limit=3)


@scenario("handshake.silence")
def _():
    wire, begun = Wire(), time.monotonic()
    wire.send(b"AMQP")
    wire.tell(limit=15)
    say("after about ten seconds", 8 < time.monotonic() - begun < 13)


@scenario("handshake.wrong-method")
def _():
    for payload in (method(10, 31, struct.pack(">HIH", 0, 0, 0)), method(10, 40, short("/") + short("") + b"\x00"), method(20, 10, short("")), method(10, 51)):
        wire = Wire()
        wire.send(b"AMQP\x00\x00\x09\x01")
        wire.read()
        wire.method(0, payload)
        wire.tell(limit=4)


@scenario("handshake.mechanisms")
def _():
    plain = table(("LOGIN", text("guest")), ("PASSWORD", text("guest")))[4:]
    wrong = table(("LOGIN", text("guest")), ("PASSWORD", text("wrong")))[4:]
    for mechanism, response in (("PLAIN", b"\x00guest\x00guest"), ("AMQPLAIN", plain), ("AMQPLAIN", wrong), ("plain", b"\x00guest\x00guest")):
        say(mechanism, response)
        wire = Wire()
        wire.start(mechanism=mechanism, response=response)
        wire.tell("connection.tune", limit=6)


@scenario("handshake.malformed-responses")
def _():
    for mechanism, response in (("NOPE", b""), ("PLAIN", b"guest"), ("AMQPLAIN", b"garbage")):
        say(mechanism, response)
        wire = Wire()
        wire.start(mechanism=mechanism, response=response)
        wire.tell("connection.tune", limit=6)


@scenario("handshake.failure-without-capability")
def _():
    wire, begun = Wire(), time.monotonic()
    wire.start(caps=(), response=b"\x00guest\x00wrong")
    wire.tell(limit=6)
    say("after a pause", 0.5 < time.monotonic() - begun < 5)


def open_tuned(*answers):
    """Opens a connection for each answer to connection.tune."""
    for tuned in answers:
        say(tuned)
        wire = Wire()
        wire.start()
        wire.tune(**tuned)
        wire.open()
        wire.tell("connection.open-ok", limit=4)


@scenario("tune.limits")
def _():
    open_tuned({"channel_max": 1}, {"channel_max": 2047}, {"frame_max": 4096}, {"heartbeat": 65535})


@scenario("tune.beyond-limits")
def _():
    open_tuned({"channel_max": 2048}, {"channel_max": 0}, {"frame_max": 131073}, {"frame_max": 0})


@scenario("open.twice")
def _():
    wire = Wire().ready()
    wire.open()
    wire.tell()


@scenario("connection.wrong-methods-when-open")
def _():
    for payload in (method(10, 11, capabilities() + short("PLAIN") + long("x") + short("en_US")), method(10, 31, struct.pack(">HIH", 0, 0, 0)),
                    method(10, 10), method(10, 99), method(20, 10, short("")), method(60, 10, struct.pack(">IHB", 0, 0, 0)), method(99, 10)):
        wire = Wire().ready()
        wire.method(0, payload)
        wire.tell(limit=4)


@scenario("frame.bad-end")
def _():
    wire = Wire().ready()
    wire.send(frame(1, 1, method(60, 10, struct.pack(">IHB", 0, 0, 0)), end=b"\x00"))
    wire.tell()


@scenario("frame.bad-type")
def _():
    for kind in (0, 4, 5, 9, 255):
        wire = Wire().ready()
        wire.send(frame(kind, 1, b"abc"))
        wire.tell(limit=4)


@scenario("frame.oversize")
def _():
    wire = Wire().ready(frame_max=4096)
    wire.method(1, publish("", "raw.nowhere"))
    wire.send(frame(2, 1, header(10000)))
    wire.send(struct.pack(">BHI", 3, 1, 10000) + b"x" * 10001)
    wire.tell()


@scenario("frame.largest")
def _():
    wire = Wire().ready(frame_max=4096)
    wire.method(1, publish("", "raw.nowhere"))
    wire.send(frame(2, 1, header(4088)))
    wire.send(frame(3, 1, b"x" * 4088))
    wire.alive()


@scenario("frame.heartbeats")
def _():
    wire = Wire().ready()
    wire.send(frame(8, 0, b""))
    wire.alive()
    wire.send(frame(8, 1, b""))
    wire.tell("basic.qos-ok", limit=2)
    wire.send(frame(8, 0, b"abc"))
    wire.tell("basic.qos-ok", limit=2)


@scenario("heartbeat.silent-client")
def _():
    wire, begun = Wire().ready(heartbeat=1), time.monotonic()
    count = 0
    while True:
        got = wire.read(12)
        if got is None:
            break
        count += got[0] == 8
    say("ended", wire.ended, "within", 1.0 < time.monotonic() - begun < 6.0, "heartbeats came", count >= 1)


@scenario("channel.not-open")
def _():
    for payload in (method(60, 10, struct.pack(">IHB", 0, 0, 0)), publish("", "x"), method(20, 41), method(20, 40, struct.pack(">H", 0) + short("") + bytes(4))):
        wire = Wire().ready()
        wire.method(2, payload)
        wire.tell(limit=4)


@scenario("channel.open-twice")
def _():
    wire = Wire().ready()
    wire.method(1, method(20, 10, short("")))
    wire.tell()


@scenario("channel.too-many")
def _():
    wire = Wire().ready(channels=(1, 2), channel_max=2)
    wire.method(3, method(20, 10, short("")))
    wire.tell()


@scenario("channel.close-and-reuse")
def _():
    wire = Wire().ready(channels=(1, 2))
    wire.method(1, method(20, 40, struct.pack(">H", 200) + short("bye") + bytes(4)))
    wire.tell("channel.close-ok")
    wire.method(1, method(20, 10, short("")))
    wire.tell("channel.open-ok")
    wire.alive(1)
    wire.alive(2)


@scenario("channel.after-its-error")
def _():
    wire = Wire().ready(channels=(1, 2))
    wire.method(1, declare("raw.unknown", 1))
    wire.tell("channel.close")
    wire.method(1, declare("raw.unknown.other"))
    wire.method(1, publish("", "raw.nowhere"))
    wire.send(frame(2, 1, header(1)))
    wire.send(frame(3, 1, b"x"))
    wire.alive(2)
    wire.method(1, method(20, 41))
    wire.method(1, method(20, 10, short("")))
    wire.tell("channel.open-ok")
    wire.method(1, declare("raw.unknown.other", 1))
    wire.tell("channel.close")


@scenario("content.out-of-order")
def _():
    def qos(wire):
        wire.method(1, method(60, 10, struct.pack(">IHB", 0, 0, 0)))

    cases = {
        "body first": lambda w: w.send(frame(3, 1, b"x")),
        "header first": lambda w: w.send(frame(2, 1, header(1))),
        "method after publish": lambda w: (w.method(1, publish("", "n")), qos(w)),
        "body after publish": lambda w: (w.method(1, publish("", "n")), w.send(frame(3, 1, b"x"))),
        "method in the body": lambda w: (w.method(1, publish("", "n")), w.send(frame(2, 1, header(5))), w.send(frame(3, 1, b"x")), qos(w)),
        "header twice": lambda w: (w.method(1, publish("", "n")), w.send(frame(2, 1, header(5))), w.send(frame(2, 1, header(5)))),
        "body too long": lambda w: (w.method(1, publish("", "n")), w.send(frame(2, 1, header(2))), w.send(frame(3, 1, b"xyz")), qos(w)),
        "body after the end": lambda w: (w.method(1, publish("", "n")), w.send(frame(2, 1, header(1))), w.send(frame(3, 1, b"x")), w.send(frame(3, 1, b"y"))),
        "header of another class": lambda w: (w.method(1, publish("", "n")), w.send(frame(2, 1, header(1, class_id=50)))),
        "weight": lambda w: (w.method(1, publish("", "n")), w.send(frame(2, 1, header(0, weight=7))), qos(w)),
        "body on another channel": lambda w: (w.method(1, publish("", "n")), w.send(frame(2, 2, header(1)))),
        "content on channel 0": lambda w: w.send(frame(2, 0, header(1))),
        "body on channel 0": lambda w: w.send(frame(3, 0, b"x")),
    }
    for name, do in cases.items():
        say(name)
        wire = Wire().ready(channels=(1, 2))
        do(wire)
        wire.tell("basic.qos-ok", limit=3)


@scenario("content.empty-frames")
def _():
    wire = Wire().ready()
    wire.method(1, declare("raw.content.empty", 0b1000))
    wire.tell("queue.declare-ok")
    wire.method(1, publish("", "raw.content.empty"))
    wire.send(frame(2, 1, header(2)))
    for part in (b"", b"a", b"", b"b"):
        wire.send(frame(3, 1, part))
    wire.method(1, method(60, 70, struct.pack(">H", 0) + short("raw.content.empty") + b"\x01"))
    wire.tell("body")
    wire.method(1, method(50, 40, struct.pack(">H", 0) + short("raw.content.empty") + b"\x00"))
    wire.tell("queue.delete-ok")


@scenario("content.too-large")
def _():
    wire = Wire().ready()
    wire.method(1, publish("", "raw.nowhere"))
    wire.send(frame(2, 1, header(1 << 40)))
    wire.tell("channel.close", limit=4)
    wire.alive(1)


@scenario("method.malformed")
def _():
    cases = {
        "empty": b"", "class only": b"\x00\x3c", "truncated": method(60, 10, b"\x00\x00"), "truncated text": method(50, 10, struct.pack(">H", 0) + b"\x20abc"),
        "trailing octets": method(60, 10, struct.pack(">IHB", 0, 0, 0) + b"abc"), "truncated table": declare("raw.malformed", 2, b"\x00\x00\x00\x10\x01a"),
        "unknown type in a table": declare("raw.malformed", 2, table(("a", b"Z\x00"))), "unknown method": method(60, 99), "unknown class": method(99, 10),
        "a server's method": method(50, 11, short("q") + bytes(8)), "content's method of the server": method(60, 60, short("t") + bytes(8) + b"\x00" + short("") + short("")),
    }
    for name, payload in cases.items():
        say(name)
        wire = Wire().ready()
        wire.method(1, payload)
        wire.tell("basic.qos-ok", limit=3)
    Wire().ready().method(1, method(50, 40, struct.pack(">H", 0) + short("raw.malformed") + b"\x00"))


@scenario("content.malformed-properties")
def _():
    for name, properties in (("truncated", b"\x80\x00\x05ab"), ("bad table", b"\x20\x00\x00\x00\x00\x05\x01aZ12"), ("trailing octets", b"\x00\x00abc"),
                             ("continued flags", b"\x00\x01\x00\x00"), ("unknown bit", b"\x00\x02")):
        say(name)
        wire = Wire().ready()
        wire.method(1, declare("raw.properties", 0b1000))
        wire.tell("queue.declare-ok")
        wire.method(1, publish("", "raw.properties"))
        wire.send(frame(2, 1, header(1, properties)) + frame(3, 1, b"x"))
        wire.alive()
        wire.method(1, method(50, 40, struct.pack(">H", 0) + short("raw.properties") + b"\x00"))
        wire.tell("queue.delete-ok", limit=4)


@scenario("nowait")
def _():
    wire = Wire().ready()
    wire.method(1, declare("raw.nowait", 0b11000))
    wire.method(1, method(50, 20, struct.pack(">H", 0) + short("raw.nowait") + short("amq.direct") + short("raw") + b"\x01" + bytes(4)))
    wire.method(1, method(60, 20, struct.pack(">H", 0) + short("raw.nowait") + short("tag") + b"\x08" + bytes(4)))
    wire.method(1, method(85, 10, b"\x01"))
    wire.alive()
    wire.method(1, publish("amq.direct", "raw"))
    wire.send(frame(2, 1, header(0)))
    got = []
    while len(got) < 3:  # deliver and header, and the confirm somewhere
        item = wire.read()
        got.append(item and (item[0], item[2][:4].hex() if item[0] == 1 else item[2].hex()))
    say(sorted(got))
    wire.method(1, method(60, 30, short("tag") + b"\x01"))
    wire.method(1, method(50, 10, struct.pack(">H", 0) + short("raw.nowait.unknown") + b"\x11" + bytes(4)))
    wire.tell("channel.close")


@scenario("consumer.tags")
def _():
    wire = Wire().ready()
    wire.method(1, declare("raw.tags", 0b1000))
    wire.tell("queue.declare-ok")
    wire.method(1, method(60, 20, struct.pack(">H", 0) + short("") + short("") + b"\x00" + bytes(4)))
    wire.tell("basic.consume-ok")
    for _ in range(2):
        wire.method(1, method(60, 20, struct.pack(">H", 0) + short("raw.tags") + short("mine") + b"\x00" + bytes(4)))
        wire.tell("basic.consume-ok")


@scenario("cancel.without-capability")
def _():
    wire = Wire()
    wire.start(caps=())
    wire.tune()
    wire.open()
    wire.read()
    wire.method(1, method(20, 10, short("")))
    wire.read()
    wire.method(1, declare("raw.cancel"))
    wire.tell("queue.declare-ok")
    wire.method(1, method(60, 20, struct.pack(">H", 0) + short("raw.cancel") + short("t") + b"\x00" + bytes(4)))
    wire.tell("basic.consume-ok")
    wire.method(1, method(50, 40, struct.pack(">H", 0) + short("raw.cancel") + b"\x00"))
    wire.tell("queue.delete-ok")
    wire.alive()


@scenario("names.line-ends")
def _():
    wire = Wire().ready()
    for name in ("raw.new\nline", "raw.cr\rlf\n"):
        wire.method(1, declare(name))
        wire.tell("queue.declare-ok")
        wire.method(1, method(50, 40, struct.pack(">H", 0) + short(name) + b"\x00"))
        wire.tell("queue.delete-ok")


@scenario("names.not-utf8")
def _():
    wire = Wire().ready()
    wire.method(1, declare(b"raw.\xff\xfe"))
    wire.tell("queue.declare-ok")
    wire.method(1, method(50, 40, struct.pack(">H", 0) + short(b"raw.\xff\xfe") + b"\x00"))
    wire.tell("queue.delete-ok")


@scenario("fields.all-types")
def _():
    values = [
        ("bool", boolean(1)), ("int8", b"b\xff"), ("uint8", b"B\xff"), ("int16", b"s\xff\xfe"), ("uint16", b"u\xff\xfe"), ("int32", b"I\xff\xff\xff\xfe"),
        ("uint32", b"i\xff\xff\xff\xfe"), ("int64", b"l" + b"\xff" * 8), ("float", b"f" + struct.pack(">f", 1.5)), ("double", b"d" + struct.pack(">d", 1.25)),
        ("decimal", b"D\x02\x00\x00\x00\x7d"), ("text", text("ü")), ("array", b"A" + long(b"I\x00\x00\x00\x01" + text("x") + b"V")),
        ("time", b"T\x00\x00\x00\x00\x65\x53\xf1\x00"), ("table", b"F" + table(("a", b"V"))), ("void", b"V"), ("bytes", b"x" + long(b"\x00\xff")),
    ]
    wire = Wire().ready()
    wire.method(1, declare("raw.fields", 0b1000))
    wire.tell("queue.declare-ok")
    for name, value in values + [("all", b"F" + table(*values))]:
        say(name)
        wire.method(1, publish("", "raw.fields"))
        wire.send(frame(2, 1, header(0, b"\x20\x00" + table((name, value)))))
        wire.method(1, method(60, 70, struct.pack(">H", 0) + short("raw.fields") + b"\x01"))
        wire.tell("content header")
    wire.method(1, method(50, 40, struct.pack(">H", 0) + short("raw.fields") + b"\x00"))
    wire.tell("queue.delete-ok")


@scenario("connection.update-secret")
def _():
    wire = Wire().ready()
    wire.method(0, method(10, 70, long("new") + short("because")))
    wire.tell("connection.update-secret-ok", limit=4)
    wire.alive()


@scenario("connection.close")
def _():
    wire = Wire().ready()
    wire.method(0, method(10, 50, struct.pack(">H", 200) + short("bye") + bytes(4)))
    wire.tell("connection.close-ok")
    wire.tell(limit=4)


@scenario("access.request")
def _():
    wire = Wire().ready()
    wire.method(1, method(30, 10, short("/data") + b"\x1f"))
    wire.tell("access.request-ok", limit=4)


@scenario("publish.flags")
def _():
    wire = Wire().ready()
    wire.method(1, publish("", "raw.nowhere", 1))
    wire.send(frame(2, 1, header(0)))
    wire.tell("content header")
    wire.method(1, publish("", "raw.nowhere", 2))
    wire.send(frame(2, 1, header(0)))
    wire.tell()


if __name__ == "__main__":
    main()
