"""Scenarios of python3-pika: AMQP as its blocking connection shows it."""

import pika_connection  # noqa: F401 - each module registers its scenarios
import pika_declare  # noqa: F401
import pika_routing  # noqa: F401
import pika_queue  # noqa: F401
import pika_consume  # noqa: F401
import pika_publish  # noqa: F401
from scenarios import main

if __name__ == "__main__":
    main()
