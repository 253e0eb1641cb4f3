"""Scenarios of python3-pika: AMQP as its blocking connection shows it."""

import pika
from scenarios import URI, main, say, scenario


def connect(**changes):
    params = pika.URLParameters(URI)
    for name, value in changes.items():
        setattr(params, name, value)
    return pika.BlockingConnection(params)


@scenario("queue.declare-passive-unknown")
def _():
    connection = connect()
    channel = connection.channel()
    try:
        channel.queue_declare("pika.unknown", passive=True)
    except pika.exceptions.ChannelClosedByBroker as error:
        say("closed", error.reply_code, error.reply_text)
    say("connection open", connection.is_open)
    connection.close()


if __name__ == "__main__":
    main()
