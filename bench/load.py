"""A client that posts reviews over keep-alive TLS connections, in a process of its own. Prints requests and seconds."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
import time

from bench.example import BARE, FILLED, numbered, review


def _request(path: str, body: bytes) -> bytes:
    head = f"POST {path}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _read_answer(connection: ssl.SSLSocket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _receive(connection)
    head, _, rest = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    while len(rest) < length:
        rest += _receive(connection)
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"unexpected answer: {head[:60]!r}")
    return rest


def _receive(connection: ssl.SSLSocket) -> bytes:
    part = connection.recv(65536)
    if not part:
        raise SystemExit("the server closed the connection")
    return part


def main() -> None:
    """`PORT CA CONNECTIONS SECONDS PATH`."""
    port, ca, connections, seconds, path = sys.argv[1:]
    body = review(BARE if path == "/mutate" else FILLED)
    context = ssl.create_default_context(cafile=ca)
    counts = [0] * int(connections)
    stop_at = time.monotonic() + float(seconds)

    def work(index: int) -> None:
        with socket.create_connection(("127.0.0.1", int(port))) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with context.wrap_socket(plain, server_hostname="localhost") as connection:
                while time.monotonic() < stop_at:
                    number = index * 10_000_000 + counts[index]
                    connection.sendall(_request(path, numbered(body, number)))
                    _read_answer(connection)
                    counts[index] += 1

    begin = time.monotonic()
    threads = [threading.Thread(target=work, args=(index,)) for index in range(int(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(counts), time.monotonic() - begin)


if __name__ == "__main__":
    main()
