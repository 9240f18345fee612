import pytest

from admission.web.server import split_address


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("127.0.0.1:10250", "127.0.0.1", 10250),
        ("0.0.0.0:1", "0.0.0.0", 1),
        ("localhost:8080", "localhost", 8080),
        ("[::1]:8080", "::1", 8080),
        ("[::]:65535", "::", 65535),
        (":8080", "0.0.0.0", 8080),
    ],
)
def test_an_address_is_a_host_and_a_port(address, host, port):
    assert split_address(address) == (host, port)


@pytest.mark.parametrize(
    "address",
    ["", ":", "nonsense", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", "127.0.0.1:-1", "[::1]"],
)
def test_anything_else_is_told_what_was_expected(address):
    with pytest.raises(ValueError, match="HOST:PORT"):
        split_address(address)
