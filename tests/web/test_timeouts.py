import pytest

from admission.web.reviews import timeout_of

DEFAULT, LONGEST, SHORTEST = 10.0, 30.0, 0.1


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("timeout=10s", 10.0),
        ("timeout=5s", 5.0),
        ("timeout=1s", 1.0),
        ("timeout=30s", 30.0),
        ("timeout=2.5s", 2.5),
        ("timeout=.5s", 0.5),
        ("timeout=2.s", 2.0),
        ("timeout=500ms", 0.5),
        ("timeout=1500000us", 1.5),
        ("timeout=1500000%C2%B5s", 1.5),
        ("timeout=2000000000ns", 2.0),
        ("timeout=1s500ms", 1.5),
        ("timeout=0m5s", 5.0),
        ("a=b&timeout=3s&c", 3.0),
        ("timeout=1m", LONGEST),
        ("timeout=1m30s", LONGEST),
        ("timeout=99999999999999999999h", LONGEST),
        ("timeout=0s", SHORTEST),
        ("timeout=1ns", SHORTEST),
        ("", DEFAULT),
        ("timeout", DEFAULT),
        ("timeout=", DEFAULT),
        ("other=3s", DEFAULT),
        ("timeout=10", DEFAULT),
        ("timeout=s", DEFAULT),
        ("timeout=-5s", DEFAULT),
        ("timeout=+5s", DEFAULT),
        ("timeout=5S", DEFAULT),
        ("timeout=5d", DEFAULT),
        ("timeout=5 s", DEFAULT),
        ("timeout=1e3s", DEFAULT),
        ("timeout=NaNs", DEFAULT),
        ("timeout=infs", DEFAULT),
        ("timeout=5s;", DEFAULT),
        ("timeout=.s", DEFAULT),
        ("timeout=%FF%FE", DEFAULT),
        ("timeout=%", DEFAULT),
        ("&&&===", DEFAULT),
        ("timeout=" + "9" * 5000 + "s", DEFAULT),
        ("a=1&" * 5000 + "timeout=3s", 3.0),
    ],
)
def test_the_time_that_a_caller_waits_is_read_from_the_query(query, seconds):
    assert timeout_of(query) == pytest.approx(seconds)
