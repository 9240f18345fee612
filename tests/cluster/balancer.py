"""A small TCP balancer: what a Service is to the replicas in a cluster. Standard library only, a process of its own.

    python balancer.py --listen PORT BACKEND_PORT...

Each connection goes to the next backend that accepts one. Where a backend dies its connections are cut. What is read on
standard input takes a backend out of the rotation (`off PORT`) and puts it back (`on PORT`), as endpoints do; what is
open stays open. The end of standard input ends the process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys

CHUNK = 65536
CONNECT_WITHIN = 2.0


class Balancer:
    """Round robin over the backends that accept connections."""

    def __init__(self, backends: list[int]) -> None:
        self._backends = list(backends)
        self._off: set[int] = set()
        self._next = 0

    def command(self, line: str) -> None:
        """`off PORT` or `on PORT`."""
        word, _, port = line.strip().partition(" ")
        if word == "off":
            self._off.add(int(port))
        elif word == "on":
            self._off.discard(int(port))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection from its begin to its end."""
        behind = await self._connect()
        if behind is None:
            writer.transport.abort()  # what a client sees of a Service without endpoints: refused
            return
        sides = [(reader, behind[1]), (behind[0], writer)]
        await asyncio.gather(*(_copy(source, target) for source, target in sides))
        for _, target in sides:
            target.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in range(len(self._backends)):
            port = self._backends[self._next % len(self._backends)]
            self._next += 1
            if port in self._off:
                continue
            with contextlib.suppress(OSError, TimeoutError):
                return await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), CONNECT_WITHIN)
        return None


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """All bytes of one direction; an orderly end is passed on, a broken connection cuts both."""
    try:
        while data := await source.read(CHUNK):
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()
    except (OSError, ConnectionError):
        target.transport.abort()


async def run(listen: int, backends: list[int]) -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    balancer = Balancer(backends)
    server = await asyncio.start_server(balancer.serve, "127.0.0.1", listen)
    print("listening", flush=True)
    try:
        while line := await commands.readline():
            balancer.command(line.decode())
            print("ok", flush=True)
    finally:
        server.close()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--listen", type=int, required=True)
    parser.add_argument("backends", type=int, nargs="+")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(given.listen, given.backends))


if __name__ == "__main__":
    main()
