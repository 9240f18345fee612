"""Objects as the API reads them: the parts that matter here must have the form that the API gives them."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from admission.objects import decode_quantity
from admission.quantity import ERR_FORMAT, ERR_NUMERIC, ERR_SUFFIX

Json = dict[str, Any]

T = TypeVar("T")


class Malformed(ValueError):
    """An object that the API could not read; the message says what is wrong, without the object's kind."""


def shaped(body: Json, wire: type[T]) -> T:
    """The object as one of the types of `admission.objects`; raises Malformed."""
    try:
        return msgspec.convert(body, wire, dec_hook=decode_quantity)
    except msgspec.ValidationError as error:
        raise Malformed(_readable(str(error))) from None
    except RecursionError:
        raise Malformed("the document is nested too deeply") from None


def _readable(text: str) -> str:
    """msgspec says `Expected ..., got ... - at `$.spec.x``; people look for the path first.

    What is wrong with a quantity the API says without the path.
    """
    problem, at, path = text.rpartition(" - at `$.")
    if problem in (ERR_FORMAT, ERR_NUMERIC, ERR_SUFFIX):
        return problem
    return f"{path.rstrip('`')}: {problem[:1].lower()}{problem[1:]}" if at else text
