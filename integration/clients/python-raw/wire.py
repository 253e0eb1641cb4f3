"""Just enough of AMQP 0-9-1 to send what no client library would send."""

import socket
import struct
import time
from urllib.parse import urlparse

from scenarios import URI, say

METHODS = {
    (10, 10): "connection.start", (10, 11): "connection.start-ok", (10, 20): "connection.secure", (10, 30): "connection.tune",
    (10, 31): "connection.tune-ok", (10, 40): "connection.open", (10, 41): "connection.open-ok", (10, 50): "connection.close",
    (10, 51): "connection.close-ok", (10, 60): "connection.blocked", (10, 70): "connection.update-secret",
    (10, 71): "connection.update-secret-ok", (20, 10): "channel.open", (20, 11): "channel.open-ok", (20, 20): "channel.flow",
    (20, 21): "channel.flow-ok", (20, 40): "channel.close", (20, 41): "channel.close-ok", (30, 11): "access.request-ok",
    (40, 11): "exchange.declare-ok", (40, 21): "exchange.delete-ok", (40, 31): "exchange.bind-ok", (40, 51): "exchange.unbind-ok",
    (50, 11): "queue.declare-ok", (50, 21): "queue.bind-ok", (50, 31): "queue.purge-ok", (50, 41): "queue.delete-ok",
    (50, 51): "queue.unbind-ok", (60, 11): "basic.qos-ok", (60, 21): "basic.consume-ok", (60, 30): "basic.cancel",
    (60, 31): "basic.cancel-ok", (60, 50): "basic.return", (60, 60): "basic.deliver", (60, 71): "basic.get-ok",
    (60, 72): "basic.get-empty", (60, 80): "basic.ack", (60, 111): "basic.recover-ok", (60, 120): "basic.nack",
    (85, 11): "confirm.select-ok", (90, 11): "tx.select-ok", (90, 21): "tx.commit-ok", (90, 31): "tx.rollback-ok",
}


def short(text):
    data = text.encode() if isinstance(text, str) else text
    return bytes([len(data)]) + data


def long(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">I", len(data)) + data


def table(*pairs):
    """Pairs of a name and an encoded value, its type octet included."""
    return long(b"".join(short(name) + value for name, value in pairs))


def text(value):
    return b"S" + long(value)


def boolean(value):
    return b"t" + bytes([value])


def method(class_id, method_id, arguments=b""):
    return struct.pack(">HH", class_id, method_id) + arguments


def frame(kind, channel, payload, end=b"\xce"):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def header(size, properties=b"\x00\x00", class_id=60, weight=0):
    return struct.pack(">HHQ", class_id, weight, size) + properties


def publish(exchange, key, bits=0):
    return method(60, 40, struct.pack(">H", 0) + short(exchange) + short(key) + bytes([bits]))


def declare(name, bits=0, arguments=b"\x00\x00\x00\x00"):
    return method(50, 10, struct.pack(">H", 0) + short(name) + bytes([bits]) + arguments)


def capabilities(*names):
    return table(("capabilities", b"F" + table(*[(name, boolean(1)) for name in names])))


class Wire:
    """One TCP connection; tell() says each frame that comes."""

    def __init__(self):
        where = urlparse(URI)
        self.socket = socket.create_connection((where.hostname, where.port))
        self.pending = b""
        self.ended = False

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # what the server has closed shows when it is read

    def method(self, channel, payload):
        self.send(frame(1, channel, payload))

    def _more(self, limit):
        self.socket.settimeout(max(limit, 0.001))
        try:
            data = self.socket.recv(65536)
        except socket.timeout:
            return False
        except OSError:
            data = b""
        if not data:
            self.ended = True
        self.pending += data
        return not self.ended

    def read(self, limit=10.0):
        """The next frame as (type, channel, payload), or None at the end or after the limit."""
        end = time.monotonic() + limit
        while True:
            if len(self.pending) >= 8 and self.pending[:4] == b"AMQP":
                found, self.pending = self.pending[:8], self.pending[8:]
                return ("header", 0, found)
            if len(self.pending) >= 7:
                kind, channel, size = struct.unpack(">BHI", self.pending[:7])
                if len(self.pending) >= size + 8:
                    payload, self.pending = self.pending[7:7 + size], self.pending[8 + size:]
                    return (kind, channel, payload)
            if self.ended or not self._more(end - time.monotonic()):
                return None

    def tell(self, until=None, limit=10.0, heartbeats=False):
        """Says what comes until a method of that name, or the end; returns the last payload."""
        end = time.monotonic() + limit
        while True:
            got = self.read(end - time.monotonic())
            if got is None:
                say("end of the connection" if self.ended else "nothing")
                return None
            kind, channel, payload = got
            if kind == 8 and not heartbeats:
                continue
            name = describe(kind, channel, payload)
            if name == until:
                return payload
            if name == "connection.close":  # RabbitMQ may read nothing more then, and closes later
                self.method(0, method(10, 51))
                return None

    def start(self, caps=("consumer_cancel_notify", "authentication_failure_close", "basic.nack", "publisher_confirms"),
              mechanism="PLAIN", response=b"\x00guest\x00guest"):
        self.send(b"AMQP\x00\x00\x09\x01")
        self.read()
        self.method(0, method(10, 11, capabilities(*caps) + short(mechanism) + long(response) + short("en_US")))

    def tune(self, channel_max=2047, frame_max=131072, heartbeat=0):
        self.read()
        self.method(0, method(10, 31, struct.pack(">HIH", channel_max, frame_max, heartbeat)))

    def open(self, vhost="/"):
        self.method(0, method(10, 40, short(vhost) + short("") + b"\x00"))

    def ready(self, channels=(1,), **tuned):
        """A connection with open channels."""
        self.start()
        self.tune(**tuned)
        self.open()
        self.read()
        for channel in channels:
            self.method(channel, method(20, 10, short("")))
            self.read()
        return self

    def alive(self, channel=1):
        """Whether a method on the channel is answered."""
        self.method(channel, method(60, 10, struct.pack(">IHB", 0, 0, 0)))
        self.tell("basic.qos-ok")


def describe(kind, channel, payload):
    if kind == "header":
        say("protocol header", list(payload[4:]))
        return "header"
    if kind == 1:
        ids = struct.unpack(">HH", payload[:4])
        name = METHODS.get(ids, "%d.%d" % ids)
        if name in ("connection.close", "channel.close"):
            code, size = struct.unpack(">HB", payload[4:7])
            cause = struct.unpack(">HH", payload[7 + size:11 + size])
            say("channel", channel, name, code, payload[7:7 + size].decode(), "caused by", list(cause))
        elif name == "connection.start":
            say(name, list(payload[4:6]))
        elif name == "connection.tune":
            say(name, list(struct.unpack(">HIH", payload[4:12])))
        elif name in ("basic.deliver", "basic.consume-ok", "queue.declare-ok", "basic.get-ok", "basic.return", "basic.cancel", "basic.ack"):
            say("channel", channel, name, payload[4:].hex() if name == "basic.ack" else printable(payload[4:]))
        else:
            say("channel", channel, name)
        return name
    if kind == 2:
        say("channel", channel, "content header", payload.hex())
        return "content header"
    if kind == 3:
        say("channel", channel, "body", payload if len(payload) < 200 else len(payload))
        return "body"
    say("channel", channel, "frame of type", kind, payload.hex())
    return "heartbeat" if kind == 8 else "frame"


def printable(data):
    return "".join(chr(b) if 0x20 <= b < 0x7F else "\\x%02x" % b for b in data)
