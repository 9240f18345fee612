"""The folder on disk: writing files as a whole or not at all, and the lock that keeps processes apart."""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from certs._errors import FolderError, LockTimeoutError, MissingFileError

LOCK_FILE = ".lock"
"""The name of the file that is locked; it is empty, and is left in place when the lock is given back."""

LOCK_WAIT = 30.0
"""How long to wait for the lock of a folder, in seconds: far more than any holder needs."""

SECRET = 0o600
PUBLIC = 0o644

_FOLDER = 0o700
_RETRY = 0.02
_SUFFIX = ".tmp"


def make_folder(folder: Path) -> None:
    """Make a folder, for its owner only, when it is missing.

    Raises:
        FolderError: it cannot be made, or something else has its name.
    """
    try:
        if not folder.is_dir():
            folder.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"{folder}: cannot make the folder: {error.strerror}") from error


def read(path: Path) -> bytes:
    """The content of a file.

    Raises:
        MissingFileError: there is no such file.
        FolderError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise MissingFileError(f"{path}: there is no such file") from None
    except OSError as error:
        raise FolderError(f"{path}: cannot read it: {error.strerror}") from error


def exists(path: Path) -> bool:
    """Whether there is a file of that name.

    Raises:
        FolderError: it cannot be told.
    """
    try:
        return path.exists()
    except OSError as error:
        raise FolderError(f"{path}: cannot look for it: {error.strerror}") from error


def write(path: Path, content: bytes, mode: int) -> None:
    """Put a file in place of the present one, so that a reader, and a crash at any moment, finds the old or the new.

    Raises:
        FolderError: it cannot be written; then the old file is as it was.
    """
    try:
        _replace(path, content, mode)
    except OSError as error:
        raise FolderError(f"{path}: cannot write it: {error.strerror}") from error


def _replace(path: Path, content: bytes, mode: int) -> None:
    # In the same folder, because a rename is atomic only within a file system.
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    # The rename itself lies in the folder: without this, a power failure could bring back the old file later on.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path, names: tuple[str, ...]) -> None:
    """Remove what writes that were killed have left; only for the holder of the exclusive lock, the only writer."""
    for name in names:
        for path in folder.glob(f".{name}.*{_SUFFIX}"):
            with suppress(OSError):
                path.unlink()


@contextmanager
def writing(folder: Path, wait: float = LOCK_WAIT) -> Iterator[None]:
    """Hold the lock of a folder alone, as its only writer.

    Args:
        folder: the folder, which exists.
        wait: how long to wait for the lock, in seconds.

    Raises:
        LockTimeoutError: others held it for all that time.
        FolderError: the lock file cannot be made.
    """
    path = folder / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, SECRET)
    except OSError as error:
        raise FolderError(f"{path}: cannot make it: {error.strerror}") from error
    with _locked(descriptor, path, fcntl.LOCK_EX, wait):
        yield


@contextmanager
def reading(folder: Path, wait: float = LOCK_WAIT) -> Iterator[None]:
    """Keep writers out of a folder, so that tls.crt and tls.key are of one making; other readers may come in.

    To be held around code that reads both files by itself, such as `ssl.SSLContext.load_cert_chain`. A folder without
    a lock file never had a writer, and one whose lock file cannot be opened is not for this process to wait for: both
    are read without a lock. Not to be held while calling `ensure` or `renew`, which would wait for it in vain.

    Args:
        folder: the folder.
        wait: how long to wait for the lock, in seconds.

    Raises:
        LockTimeoutError: a writer held it for all that time.
    """
    path = folder / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    with _locked(descriptor, path, fcntl.LOCK_SH, wait):
        yield


@contextmanager
def _locked(descriptor: int, path: Path, operation: int, wait: float) -> Iterator[None]:
    try:
        deadline = time.monotonic() + wait
        while not _try_lock(descriptor, path, operation):
            if time.monotonic() >= deadline:
                raise LockTimeoutError(f"{path}: another process has held the lock for {wait:g} seconds")
            time.sleep(_RETRY)
        yield
    finally:
        # Closing the file gives the lock back, and so does the end of the process, however it comes about.
        os.close(descriptor)


def _try_lock(descriptor: int, path: Path, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise FolderError(f"{path}: cannot lock it: {error.strerror}") from error
    return True
