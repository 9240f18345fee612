"""A store with its pipeline in this process: reviews in, `admitted` or the text of the refusal out."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

from admission.objects import decode_review
from admission.pipeline import Pipeline
from admission.quota.check import LimitedResource
from admission.standalone.state import FileState, State
from admission.standalone.store import StandaloneStore
from admission.standalone.world import Folder
from tests.standalone.folders import temporary_folder
from tests.standalone.manifests import Json, create, delete, file_of, update

ADMITTED = "admitted"


class Desk:
    """`objects` are what the files say. The state is kept in a file, unless one is given."""

    def __init__(self, *objects: Json, state: State | None = None, limited: tuple[LimitedResource, ...] = ()) -> None:
        self.home = temporary_folder()
        self.limited = limited
        self._generation = 0
        self._folder = self.home / "policies"
        self._folder.mkdir()
        self.state = state or FileState(self._state_path())
        self._say(*objects)
        self._open()

    def _state_path(self) -> Path:
        return self.home / str(self._generation) / "usage.db" if self._generation else self.home / "usage.db"

    def _say(self, *objects: Json) -> None:
        (self._folder / "policies.json").write_text(file_of(*objects))
        folder = Folder(self._folder)
        self.world = folder.load(folder.fingerprints())

    def _open(self) -> None:
        self.store = StandaloneStore(self.world, self.state, self.limited)
        self.pipeline = Pipeline(self.store, self.store)

    # -- what may happen

    def ask(self, review: Json, *, seconds: float = 10.0) -> str:
        decoded = decode_review(json.dumps(review).encode())
        answer = self.pipeline.validate(decoded, now=time.time(), deadline=time.monotonic() + seconds)
        return ADMITTED if answer.allowed else answer.message

    def create(self, new: Json, **more: object) -> str:
        return self.ask(create(new, **more))  # type: ignore[arg-type]

    def update(self, old: Json, new: Json, **more: object) -> str:
        return self.ask(update(old, new, **more))  # type: ignore[arg-type]

    def delete(self, old: Json, **more: object) -> str:
        return self.ask(delete(old, **more))  # type: ignore[arg-type]

    def reload(self, *objects: Json) -> None:
        """The files say something else now."""
        self._say(*objects)
        self.store.adopt(self.world)

    def crash(self) -> None:
        """What is in the files at this moment is all that is left; a new store starts on it."""
        before = self._state_path()
        self._generation += 1
        after = self._state_path()
        after.parent.mkdir()
        for suffix in ("", "-wal"):
            part = before.with_name(before.name + suffix)
            if part.exists():
                shutil.copyfile(part, after.with_name(after.name + suffix))
        self.store.close()
        self.state = FileState(after)
        self._open()

    def restart(self) -> None:
        """Ended and started in good order."""
        self.store.close()
        self.state = FileState(self._state_path())
        self._open()

    # -- what is to be seen

    def used(self, ns: str = "ns") -> dict[str, dict[str, str]]:
        """Quota name -> what is used of it."""
        return {name: quota.used for name, quota in self.store.usage(ns).get(ns, {}).items()}

    def close(self) -> None:
        self.store.close()
        shutil.rmtree(self.home, ignore_errors=True)
