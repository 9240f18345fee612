"""Which bytes are a request that needs no waiting for."""

import pytest

from admission.web.worker import MAX_HEAD, is_whole

POST = b"POST /validate HTTP/1.1\r\nHost: x\r\n"
LENGTH_5 = POST + b"Content-Length: 5\r\n\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
MAX_BODY = 1000


@pytest.mark.parametrize(
    ("received", "whole"),
    [
        (b"", False),
        (b"POST", False),
        (POST, False),
        (b"x" * MAX_HEAD, False),
        (b"x" * (MAX_HEAD + 1), True),
        (b"GET / HTTP/1.1\r\n\r\n", True),
        (LENGTH_5, False),
        (LENGTH_5 + b"1234", False),
        (LENGTH_5 + b"12345", True),
        (LENGTH_5 + b"12345POST", True),
        (POST + b"content-length:\t5 \r\n\r\n1234", False),
        (POST + b"Content-Length: 0\r\n\r\n", True),
        (POST + b"Content-Length: 1000\r\n\r\n", False),
        (POST + b"Content-Length: 1001\r\n\r\n", True),
        (POST + b"Content-Length: five\r\n\r\n", True),
        (POST + b"Content-Length: -5\r\n\r\n", True),
        (POST + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", False),
        (CHUNKED, False),
        (CHUNKED + b"5", False),
        (CHUNKED + b"5\r\n1234", False),
        (CHUNKED + b"5\r\n12345\r\n", False),
        (CHUNKED + b"5\r\n12345\r\n0\r\n\r\n", True),
        (CHUNKED + b"0\r\n\r\n", True),
        (CHUNKED + b"5;name=value\r\n12345\r\n0\r\nTrailer: x\r\n\r\n", True),
        (CHUNKED + b"five\r\n", True),
        (CHUNKED + b"-5\r\n", True),
        (CHUNKED + b"9" * 101, True),
        (CHUNKED + b"800\r\n" + b"x" * 2001, True),
    ],
)
def test_a_request_is_whole_when_nothing_of_it_has_to_be_waited_for(received, whole):
    assert is_whole(bytearray(received), MAX_BODY) is whole
