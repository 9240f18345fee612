"""Clients that post objects over keep-alive TLS connections, in a process of their own.

The process reads an Order as JSON and prints a Result as JSON. As little as possible is done for each object, because
the clients share the machine with what is measured: texts are glued together, and of an answer only the end is sought.
"""

from __future__ import annotations

import json
import os
import random
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import count
from statistics import quantiles

NAME = "NAME-OF-THE-OBJECT"
"""Stands in an order's body for the name, which is another one for each object."""
GIVE_UP_AFTER = 50
"""Failures in a row after which a client ends: something is broken, and a measurement of it says nothing."""


@dataclass(frozen=True)
class Order:
    """What to post. Of `paths` one is chosen by chance, the same at every run; `prefix` begins every name."""

    port: int
    ca: str
    paths: list[str]
    body: str
    prefix: str
    clients: int
    seconds: float
    token: str = ""
    expected: int = 201


@dataclass(frozen=True)
class Result:
    """What came of it; `median` and `slow` (the 99th percentile) are milliseconds an object, `cpu` is in seconds."""

    done: int
    seconds: float
    cpu: float
    median: float
    slow: float
    refused: dict[str, int] = field(default_factory=dict)


def run_clients(order: Order, meanwhile: Callable[[], None] = lambda: None) -> Result:
    """Have the clients work in a process of their own; `meanwhile` is called while they do."""
    command = [sys.executable, "-m", "bench.clients", json.dumps(asdict(order))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            meanwhile()
            printed, _ = process.communicate()
        finally:
            process.kill()
    return Result(**json.loads(printed))


class Client:
    """One keep-alive connection."""

    def __init__(self, order: Order, context: ssl.SSLContext) -> None:
        self._address = ("127.0.0.1", order.port)
        self._context = context
        authorization = f"Authorization: Bearer {order.token}\r\n" if order.token else ""
        self._head = f"Host: localhost\r\n{authorization}User-Agent: bench\r\nContent-Type: application/json\r\n"
        self._socket: ssl.SSLSocket | None = None

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer, chunks and all. A broken connection is made again at the next call."""
        head = f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        connection = self._socket or self._connect()
        try:
            connection.sendall(head.encode() + body)
            return _answer(connection)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(self._address, timeout=60)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = self._context.wrap_socket(plain, server_hostname="127.0.0.1")
        return self._socket


def _answer(connection: ssl.SSLSocket) -> tuple[int, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _receive(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    _, has_length, length = head.lower().partition(b"\r\ncontent-length:")
    while len(body) < int(length.split(b"\r\n", 1)[0]) if has_length else not body.endswith(b"0\r\n\r\n"):
        body += _receive(connection)
    return int(head[9:12]), body


def _receive(connection: ssl.SSLSocket) -> bytes:
    part = connection.recv(65536)
    if not part:
        raise ConnectionResetError("the server closed the connection")
    return part


class Crowd:
    """The clients of an order, a thread each."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._begin, _, self._end = order.body.partition(NAME)
        self._context = ssl.create_default_context(cafile=order.ca)
        self._times: list[list[float]] = [[] for _ in range(order.clients)]
        self._refused: Counter[str] = Counter()

    def run(self) -> Result:
        """Post for as long as ordered."""
        used, begin = os.times(), time.monotonic()
        stop_at = begin + self._order.seconds
        threads = [
            threading.Thread(target=self._work, args=(index, stop_at), daemon=True)
            for index in range(self._order.clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds, now = time.monotonic() - begin, os.times()
        times = [number * 1000 for taken in self._times for number in taken]
        shares = quantiles(times, n=100, method="inclusive") if len(times) > 1 else [0.0] * 99
        cpu = now.user + now.system - used.user - used.system
        return Result(len(times), seconds, cpu, shares[49], shares[98], dict(self._refused.most_common(5)))

    def _work(self, index: int, stop_at: float) -> None:
        order, taken = self._order, self._times[index]
        client, failures = Client(order, self._context), 0
        choices, numbers = random.Random(index), count(index, order.clients)
        while (begin := time.monotonic()) < stop_at and failures < GIVE_UP_AFTER:
            body = f"{self._begin}{order.prefix}-{next(numbers)}{self._end}"
            problem = self._post(client, choices.choice(order.paths), body.encode())
            if problem:
                failures += 1
                self._refused[problem] += 1
            else:
                failures = 0
                taken.append(time.monotonic() - begin)
        client.close()

    def _post(self, client: Client, path: str, body: bytes) -> str:
        """Post one object; the problem, if there is one."""
        try:
            status, answer = client.post(path, body)
        except OSError as error:
            return f"{type(error).__name__}: {error}"[:200]
        if status == self._order.expected and b'"allowed":false' not in answer:
            return ""
        return f"{status} {_message(answer)}"[:300]


def _message(answer: bytes) -> str:
    """What a Status says, or a review that refuses."""
    begin, end = answer.find(b"{"), answer.rfind(b"}")
    try:
        found = json.loads(answer[begin : end + 1])
        return str(found.get("response", {}).get("status", found)["message"])
    except (ValueError, KeyError):
        return answer[:200].decode(errors="replace")


if __name__ == "__main__":
    print(json.dumps(asdict(Crowd(Order(**json.loads(sys.argv[1]))).run())))
