"""The account of a quota as text: what the annotation `quota-admission.dev/ledger` holds.

Compact JSON, because it is written with every admission: names of resources and kinds once, amounts as canonical
quantities in the order of the names. It says which quota it belongs to, so that a copy of the quota in another
namespace does not take the count of the original with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
import orjson

from admission.ledger.account import Account, Reservation
from admission.quantity import Quantity, QuantityError
from admission.resource_lists import ResourceList

ANNOTATION: Final = "quota-admission.dev/ledger"
VERSION: Final = 1
MAX_RESERVATIONS: Final = 1000
"""More than this at once, and who comes next waits for the recount."""
MAX_BYTES: Final = 128 * 1024
"""Longest text written; an object's annotations may have twice that in all."""

Amounts = Sequence["str | None"]
"""One quantity a name, None where there is none."""


class DamagedAnnotation(ValueError):
    """A text that is not an account of this quota: one line that says why."""


_Index = Annotated[int, msgspec.Meta(ge=0)]


class _Stored(msgspec.Struct):
    """`r` holds, by UID: index in `kinds`, name, version, token, amounts, and what is covered where something is."""

    v: int
    quota: str
    names: list[str]
    counted: list[str | None]
    kinds: list[str] = []
    r: dict[str, tuple[_Index, str, str, str, list[str | None], list[str | None]]] = {}
    revisions: dict[str, int] = {}


_decode = msgspec.json.Decoder(_Stored).decode


def encode(account: Account, quota_uid: str) -> str:
    """The text of an account."""
    names = list(account.counted)
    kinds = list(dict.fromkeys(reservation.kind for reservation in account.reservations.values()))
    stored = {
        "v": VERSION,
        "quota": quota_uid,
        "names": names,
        "counted": _texts(account.counted, names),
        "kinds": kinds,
        "r": {
            uid: [
                kinds.index(found.kind),
                found.name,
                found.version,
                found.token,
                _texts(found.amounts, names),
                _texts(found.covered, names) if found.covered else [],
            ]
            for uid, found in account.reservations.items()
        },
        "revisions": account.revisions,
    }
    return orjson.dumps(stored).decode()


def decode(text: str, quota_uid: str) -> Account:
    """The account in a text; raises DamagedAnnotation where it is none, or that of another quota."""
    try:
        stored = _decode(text)
        if stored.v != VERSION:
            raise DamagedAnnotation(f"version {stored.v} is not known")
        if stored.quota != quota_uid:
            raise DamagedAnnotation("it was copied from another quota")
        return Account(
            _amounts(stored.counted, stored.names),
            {uid: _reservation(stored, found) for uid, found in stored.r.items()},
            stored.revisions,
        )
    except (msgspec.MsgspecError, QuantityError) as error:
        raise DamagedAnnotation(str(error)) from None
    except IndexError:
        raise DamagedAnnotation("more amounts than names, or a kind that is not listed") from None
    except RecursionError:
        raise DamagedAnnotation("it is nested too deeply") from None


def _reservation(stored: _Stored, found: tuple[int, str, str, str, list[str | None], list[str | None]]) -> Reservation:
    kind, name, version, token, amounts, covered = found
    names = stored.names
    return Reservation(stored.kinds[kind], name, version, _amounts(amounts, names), _amounts(covered, names), token)


def _texts(amounts: ResourceList, names: Sequence[str]) -> list[str | None]:
    return [str(amounts[name]) if name in amounts else None for name in names]


def _amounts(texts: Amounts, names: Sequence[str]) -> Mapping[str, Quantity]:
    return {names[index]: Quantity.parse(text) for index, text in enumerate(texts) if text is not None}
