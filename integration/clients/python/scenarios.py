"""The frame for scenarios in Python: a scenario is a function, run in a process of its own with a time limit."""

import json
import os
import select
import signal
import sys
import time
import traceback

LIMIT = 20  # seconds for one scenario
URI = os.environ.get("AMQP_URI", "amqp://guest:guest@127.0.0.1:5672/")
URIS = os.environ.get("AMQP_URIS", URI).split()

_all = []


def scenario(name):
    """Registers a function as the scenario NAME; it prints what the client sees by say()."""

    def register(function):
        _all.append((name, function))
        return function

    return register


def plain(value):
    """A value as JSON can hold it: bytes as text where they are, times as seconds."""
    if isinstance(value, dict):
        return {str(plain(k)): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return "0x" + bytes(value).hex()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def show(value):
    """Sorted JSON."""
    return json.dumps(plain(value), sort_keys=True, ensure_ascii=False)


def say(*parts):
    """Prints one line of the transcript: text as it is, everything else as sorted JSON."""
    line = " ".join(p if isinstance(p, str) else show(p) for p in parts)
    print(line.replace("\n", "\\n"), flush=True)


def until(condition, what, limit=8.0, step=lambda: time.sleep(0.02)):
    """Waits for a condition, and says so if it does not come."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            say("never:", what)
            return False
        step()
    return True


def _child(function, write):
    os.dup2(write, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    status = 0
    try:
        function()
    except BaseException as error:  # whatever a client throws is part of what it saw
        say("raised", type(error).__name__ + ":", str(error))
        if os.environ.get("TRACE"):
            print(traceback.format_exc(), flush=True)
        status = 1
    sys.stdout.flush()
    os._exit(status)


def _run(name, function):
    sys.stdout.write("== %s\n" % name)
    sys.stdout.flush()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(read)
        _child(function, write)
    os.close(write)
    end, seen = time.monotonic() + LIMIT, b""
    while True:
        ready, _, _ = select.select([read], [], [], max(0.0, end - time.monotonic()))
        chunk = os.read(read, 65536) if ready else None
        if chunk is None:
            seen += b"TIMEOUT\n"
            break
        if not chunk:
            break
        seen += chunk
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.close(read)
    os.waitpid(pid, 0)
    sys.stdout.buffer.write(seen)
    sys.stdout.write("== end\n")
    sys.stdout.flush()


def main():
    """Runs the scenarios that the arguments name, or all."""
    names = sys.argv[1:]
    known = [name for name, _ in _all]
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit("no such scenarios: " + " ".join(unknown))
    if len(set(known)) != len(known):
        sys.exit("two scenarios have one name")
    for name, function in _all:
        if not names or name in names:
            _run(name, function)
