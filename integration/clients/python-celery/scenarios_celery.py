"""Scenarios of python3-celery: a worker and its caller, results by rpc://."""

import logging

from celery import Celery
from celery.contrib.testing.worker import start_worker

import scenarios
from scenarios import URI, main, say

logging.disable(logging.CRITICAL)


def scenario(name, mirrored=False):
    def register(function):
        def run(queue):
            app = Celery("compare", broker=URI.rstrip("/") + "//", backend="rpc://")
            app.conf.update(task_default_queue=queue, task_default_exchange=queue, task_default_routing_key=queue, worker_hijack_root_logger=False,
                            worker_prefetch_multiplier=1, result_expires=60, broker_heartbeat=0, task_ignore_result=False,
                            worker_enable_remote_control=False, task_send_sent_event=False)

            @app.task(name="add")
            def add(x, y):
                return x + y

            @app.task(name="fails", bind=True, max_retries=2)
            def fails(task, until_attempt):
                if task.request.retries < until_attempt:
                    raise task.retry(exc=ValueError("attempt %d" % task.request.retries), countdown=0.1)
                return task.request.retries

            try:
                with start_worker(app, perform_ping_check=False, pool="solo", shutdown_timeout=5):
                    function(add, fails)
            finally:
                with app.connection_for_write() as connection:
                    connection.default_channel.queue_delete(queue)
                    connection.default_channel.exchange_delete(queue)

        scenarios.scenario(name)(lambda: run("celery." + name))
        if mirrored:
            scenarios.scenario("ha." + name)(lambda: run("ha.celery." + name))
        return function

    return register


@scenario("task", mirrored=True)
def _(add, fails):
    result = add.delay(2, 3)
    say(result.get(timeout=12), result.state)


@scenario("tasks", mirrored=True)
def _(add, fails):
    results = [add.delay(i, i) for i in range(20)]
    say([r.get(timeout=12) for r in results])


@scenario("retries", mirrored=True)
def _(add, fails):
    say(fails.delay(2).get(timeout=12))
    try:
        fails.delay(9).get(timeout=12)
    except Exception as error:
        say(type(error).__name__, str(error))


@scenario("countdown", mirrored=True)
def _(add, fails):
    results = [add.apply_async((i, 1), countdown=0.5) for i in range(5)] + [add.delay(100, 1)]
    say([r.get(timeout=12) for r in results])


@scenario("expires", mirrored=True)
def _(add, fails):
    gone = add.apply_async((1, 1), expires=-1)
    say(add.delay(1, 2).get(timeout=12))
    say(gone.state in ("PENDING", "REVOKED"))


if __name__ == "__main__":
    main()
