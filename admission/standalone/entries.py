"""What the store remembers of the objects of one namespace, by UID and by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from admission.ledger import Identity
from admission.resource_lists import ResourceList
from admission.standalone.state import Row

MAX_GONE: Final = 10_000
"""How many deleted objects of a namespace are remembered, so that a second deletion gives nothing back."""


@dataclass(slots=True)
class Entry:
    """A row, and what `used` of each quota holds for its object (quota name -> amounts).

    `before` is what this entry replaced, as long as it is not on record; `abandoned` says that its caller gave up.
    """

    row: Row
    charged: dict[str, ResourceList] = field(default_factory=dict)
    before: Entry | None = None
    abandoned: bool = False

    @property
    def is_live(self) -> bool:
        """Whether the object exists."""
        return self.row.observed is not None


class Entries:
    """The entries of one namespace."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Entry] = {}
        self._by_name: dict[tuple[str, str], list[str]] = {}
        self._gone: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._by_uid.values())

    def uids(self) -> set[str]:
        """The UIDs that are known."""
        return set(self._by_uid)

    def get(self, uid: str) -> Entry | None:
        """The entry of a UID."""
        return self._by_uid.get(uid)

    def named(self, kind: str, name: str) -> list[Entry]:
        """All entries of that name, in the order in which they came."""
        return [self._by_uid[uid] for uid in self._by_name.get((kind, name), ())]

    def find(self, identity: Identity) -> Entry | None:
        """The entry of an object that existed before the call; without a UID the last of its name, living first."""
        entry = self._by_uid.get(identity.uid)
        if entry is not None or identity.has_uid:
            return entry
        named = self.named(identity.kind, identity.name)
        return max(enumerate(named), key=lambda pair: (pair[1].is_live, pair[0]))[1] if named else None

    def put(self, entry: Entry) -> list[Row]:
        """Take an entry in place of the one of the same UID; the rows of those that are forgotten for it."""
        identity = entry.row.identity
        if identity.uid not in self._by_uid:
            self._by_name.setdefault((identity.kind, identity.name), []).append(identity.uid)
        self._by_uid[identity.uid] = entry
        self._gone.pop(identity.uid, None)
        if not entry.row.is_gone():
            return []
        self._gone[identity.uid] = None
        forgotten = [self._by_uid[uid].row for uid in list(self._gone)[: len(self._gone) - MAX_GONE]]
        for row in forgotten:
            self.drop(row.identity)
        return forgotten

    def drop(self, identity: Identity) -> None:
        """Forget an object."""
        if self._by_uid.pop(identity.uid, None) is not None:
            names = self._by_name[identity.kind, identity.name]
            names.remove(identity.uid)
            if not names:
                del self._by_name[identity.kind, identity.name]
        self._gone.pop(identity.uid, None)

    def drop_gone(self, names: Iterable[tuple[str, str]]) -> None:
        """Forget that objects of these kinds and names were deleted: there are such objects again."""
        for kind, name in names:
            for entry in self.named(kind, name):
                if entry.row.is_gone():
                    self.drop(entry.row.identity)
