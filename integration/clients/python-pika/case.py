"""What the scenarios of pika share: a connection, names, and ways to say what came back."""

import datetime
from contextlib import contextmanager

import pika
from pika import exceptions

import scenarios
from scenarios import URI, URIS, say, until


def params(uri=URI, **changes):
    parameters = pika.URLParameters(uri)
    for name, value in changes.items():
        setattr(parameters, name, value)
    return parameters


def connect(uri=URI, **changes):
    return pika.BlockingConnection(params(uri, **changes))


def login(user, password, **changes):
    return connect(credentials=pika.PlainCredentials(user, password), **changes)


def masked(value):
    """Headers without the times in them."""
    if isinstance(value, dict):
        return {k: masked(v) for k, v in value.items()}
    if isinstance(value, list):
        return [masked(v) for v in value]
    if isinstance(value, datetime.datetime):
        return "TIME"
    return value


def properties_of(properties):
    return masked({k: v for k, v in vars(properties).items() if v is not None})


def closed_text(error):
    if isinstance(error, (exceptions.ChannelClosedByBroker, exceptions.ConnectionClosedByBroker)):
        scope = "channel" if isinstance(error, exceptions.ChannelClosedByBroker) else "connection"
        return "%s closed %d %s" % (scope, error.reply_code, error.reply_text)
    return "%s: %s" % (type(error).__name__, error)


class Case:
    """One scenario's connection, a channel, a channel in confirm mode, and the names that it has declared."""

    def __init__(self, prefix, uri=URI):
        self.prefix = prefix
        self.connection = connect(uri)
        self.channel = self.connection.channel()
        self.publisher = self.connection.channel()
        self.publisher.confirm_delivery()
        self.queues, self.exchanges, self.others = [], [], []

    def name(self, short):
        return self.prefix + "." + short

    def declare(self, short="q", **options):
        name = self.name(short)
        self.queues.append(name)
        self.channel.queue_declare(name, **options)
        return name

    def exchange(self, short="x", kind="direct", **options):
        name = self.name(short)
        self.exchanges.append(name)
        self.channel.exchange_declare(name, kind, **options)
        return name

    def other(self, node=1, **changes):
        """Another connection, closed at the end; node counts from 1."""
        connection = connect(URIS[(node - 1) % len(URIS)], **changes)
        self.others.append(connection)
        return connection

    def attempt(self, what, action, connection=None):
        """Does action on a channel of its own and says how it ended."""
        own = connection or self.connection_channel().connection
        channel = own.channel()
        try:
            result = action(channel)
            method = getattr(result, "method", None)
            say(what + ":", "ok" if method is None else repr(method))
        except exceptions.AMQPError as error:
            say(what + ":", closed_text(error))
        if channel.is_open:
            channel.close()

    def publish(self, key, body="", exchange="", mandatory=False, **properties):
        try:
            self.publisher.basic_publish(exchange, key, body, pika.BasicProperties(**properties), mandatory)
        except exceptions.NackError:
            say("nacked", body)
        except exceptions.UnroutableError as error:
            for message in error.messages:
                say("returned", message.method.reply_code, message.method.reply_text, message.method.exchange,
                    message.method.routing_key, message.body, properties_of(message.properties))

    def count(self, name):
        return self.connection_channel().queue_declare(name, passive=True).method.message_count

    def connection_channel(self):
        if not self.connection.is_open:
            self.connection = connect()
        if not self.channel.is_open:
            self.channel = self.connection.channel()
        return self.channel

    def depth(self, name, wanted):
        """Waits until so many messages are ready."""
        until(lambda: self.count(name) == wanted, "%s has %d messages" % (name, wanted))
        say("depth", name, self.count(name))

    def exists(self, name):
        channel = self.connection.channel()
        try:
            channel.queue_declare(name, passive=True)
            channel.close()
            return True
        except exceptions.ChannelClosedByBroker:
            return False

    def drain(self, name, wanted, details=False):
        """Gets messages until so many have come, and says what they are."""
        bodies = []

        def step():
            method, properties, body = self.connection_channel().basic_get(name, auto_ack=True)
            if method is None:
                self.connection.sleep(0.02)
                return
            bodies.append(body)
            if details:
                tell(method, properties, body)

        until(lambda: len(bodies) >= wanted, "%d messages in %s" % (wanted, name), step=step)
        say("drained", name, bodies)
        method, _, body = self.connection_channel().basic_get(name, auto_ack=True)
        if method is not None:
            say("and one more", body)

    def collect(self, channel, wanted, limit=10.0):
        """Runs the connection until channel.seen has so many entries."""
        until(lambda: len(channel.seen) >= wanted, "%d deliveries" % wanted, limit,
              step=lambda: channel.connection.process_data_events(0.05))

    def close(self):
        connection = connect()
        for name in self.queues:
            forget(connection, lambda channel, n=name: channel.queue_delete(n))
        for name in self.exchanges:
            forget(connection, lambda channel, n=name: channel.exchange_delete(n))
        for each in [connection, self.connection] + self.others:
            if each.is_open:
                each.close()


def forget(connection, action):
    channel = connection.channel()
    try:
        action(channel)
        channel.close()
    except exceptions.AMQPError:
        pass


def tell(method, properties, body):
    what = {k: v for k, v in vars(method).items() if k not in ("consumer_tag", "message_count")}
    say("message", body, what, properties_of(properties))


def consumer(channel, queue, tag, auto_ack=False, **options):
    """Consumes; what comes is appended to channel.seen as (tag, body, redelivered, delivery tag)."""
    if not hasattr(channel, "seen"):
        channel.seen = []

    def on_message(_, method, properties, body):
        channel.seen.append((method.consumer_tag, body, method.redelivered, method.delivery_tag))

    return channel.basic_consume(queue, on_message, auto_ack=auto_ack, consumer_tag=tag, **options)


@contextmanager
def case(prefix):
    c = Case(prefix)
    try:
        yield c
    finally:
        c.close()


def scenario(name, mirrored=False):
    """Registers f(case) as a scenario; mirrored=True also as ha.NAME, whose queues are mirrored."""

    def register(function):
        def run(prefix):
            with case(prefix) as c:
                function(c)

        scenarios.scenario(name)(lambda: run("pika." + name))
        if mirrored:
            scenarios.scenario("ha." + name)(lambda: run("ha.pika." + name))
        return function

    return register
