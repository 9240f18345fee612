"""What `ensure` and `renew` take and give back."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from certs._check import Finding
from certs._issue import CA_LIFETIME, LEAF_LIFETIME, check_lifetime


class Part(Enum):
    """What a change made anew."""

    CA = "CA"
    LEAF = "leaf"
    BUNDLE = "bundle"


class Force(Enum):
    """What to do with a folder that is in order."""

    NO = "leave it alone"
    RENEW = "make all anew, and keep the old CA in ca.crt"
    START_OVER = "make all anew, and forget the old CA"


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long what is made lives; a leaf ends with its CA at the latest.

    Raises:
        LifetimeError: one of them is below `MIN_LIFETIME`.
    """

    ca: timedelta = CA_LIFETIME
    leaf: timedelta = LEAF_LIFETIME

    def __post_init__(self) -> None:
        for lifetime in (self.ca, self.leaf):
            check_lifetime(lifetime)


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was made, and why."""

    part: Part
    why: tuple[Finding, ...]

    def __str__(self) -> str:
        return f"{self.part.value} ({'; '.join(map(str, self.why))})"


@dataclass(frozen=True, slots=True)
class Result:
    """What was done, and what is there now.

    Attributes:
        changed: what was made and why, in the order in which it was made; empty when all was in order.
        expires: the end of the leaf, in UTC.
        renew_at: the moment, in UTC, from which the next call has something to do, or, when the pair is the user's,
            from which the user should.
        managed: whether the files are made here; False when they are the user's.
        warnings: what is wrong with a pair of the user, short of what makes it useless to every client.
    """

    changed: tuple[Change, ...]
    expires: datetime
    renew_at: datetime
    managed: bool = True
    warnings: tuple[Finding, ...] = ()


DEFAULT_LIFETIMES = Lifetimes()
