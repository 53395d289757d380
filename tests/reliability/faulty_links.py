"""Puts somebody else's chaos proxy (https://pypi.org/project/faulty/) between the tool and every port of a farm.

Started as a program of its own: `python faulty_links.py SEED PORT...` listens on a free port for each port, prints them
as JSON, and then takes lines: `clean`, or JSON such as `{"corrupt": 0.01, "drop": 0.01, "delay_ms": [5, 20]}`.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import sys
from contextvars import ContextVar

from faulty.core import FaultyProxy
from faulty.middlewares import (
    BaseMiddleware,
    CorruptBytesMiddleware,
    DropMiddleware,
    LatencyMiddleware,
    ThrottleMiddleware,
)

towards = ContextVar("towards")
"""Who gets what is on its way."""


class Proxy(FaultyProxy):
    """The proxy, whose middlewares know the connection that they write to."""

    async def _pipe(self, reader, writer, pipeline, direction):
        towards.set(writer)  # each direction is a task, with a context of its own
        await super()._pipe(reader, writer, pipeline, direction)


class ResetMiddleware(BaseMiddleware):
    """Now and then lets only the first bytes through, and resets the connection."""

    def __init__(self, rate):
        self.rate = rate

    async def process(self, chunk):
        if random.random() >= self.rate:
            yield chunk
            return
        yield chunk[: random.randrange(len(chunk))]
        writer = towards.get()
        now = struct.pack("ii", 1, 0)  # what is not acknowledged is thrown away, and RST sent
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
        writer.transport.abort()
        raise ConnectionResetError


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def rules(wanted):
    """A changed or missing byte breaks TLS and SSH off at that place; a missing end of an answer is a silence."""
    made = []
    if "delay_ms" in wanted:
        made.append(LatencyMiddleware(*wanted["delay_ms"]))
    if "bytes_per_second" in wanted:
        made.append(ThrottleMiddleware(wanted["bytes_per_second"]))
    if "reset" in wanted:
        made.append(ResetMiddleware(wanted["reset"]))
    if "drop" in wanted:
        made.append(DropMiddleware(wanted["drop"]))
    if "corrupt" in wanted:
        made.append(CorruptBytesMiddleware(wanted["corrupt"]))
    return made


async def main(seed, targets):
    random.seed(seed)
    proxies = [Proxy("127.0.0.1", free_port(), "127.0.0.1", port) for port in targets]
    serving = [asyncio.create_task(p.start()) for p in proxies]
    while not all(p._server and p._server.sockets for p in proxies):
        await asyncio.sleep(0.01)
    print(json.dumps([p.listen_port for p in proxies]), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        for proxy in proxies:
            proxy.clear_all_rules()
            if line.strip() != "clean":
                for rule in rules(json.loads(line)):
                    proxy.add_ingress_rule(rule)
                for rule in rules(json.loads(line)):
                    proxy.add_egress_rule(rule)
        stats = [(p.stats.total_connections, p.stats.bytes_downloaded) for p in proxies]
        print(json.dumps(stats), flush=True)
    for task in serving:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], [int(port) for port in sys.argv[2:]]))
