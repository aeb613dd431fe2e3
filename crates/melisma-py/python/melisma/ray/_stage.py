"""Remote files on a node: each worker fetches the files of its shard, and removes them after it."""

import fcntl
import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from melisma import _melisma

from .._array import value_error
from ._remote import ROOT, Remote

#: Bytes that are copied at once.
BLOCK = 1 << 20
#: Begins the name of every folder with staged files.
PREFIX = "melisma-stage-"


class Stage:
    """A private folder of one worker for the files of one shard at a time."""

    def __init__(self, remote: Remote, listed: _melisma._Inputs) -> None:
        self._remote = remote
        self.folder = os.path.join(remote.parent, PREFIX + secrets.token_hex(8))
        #: The job's files, below this folder.
        self.inputs = _melisma._Inputs.within(self.folder, [os.path.relpath(path, ROOT) for path in listed.paths(0, 1)])

    @contextmanager
    def stage(self, shard: tuple[int, int], with_texts: bool) -> Iterator[None]:
        """Fetches files for the time of a build. Files that are gone stay missing, and the build lists them."""
        wanted = [str(path) for path in self.inputs.paths(*shard)]
        if with_texts:
            wanted += [os.path.splitext(path)[0] + ".txt" for path in wanted]
        sweep(self._remote.parent)
        with _private(self.folder):
            staged = self._fetch_all(wanted)
            yield
            gone = next((path for path in staged if not os.path.exists(path)), None)
            if gone is not None:
                raise value_error(f"{gone}: another program removed this staged file", "use another scratch")

    def _fetch_all(self, wanted: list[str]) -> list[str]:
        files, root = self._remote.open()
        sources = [f"{root}/{os.path.relpath(path, self.folder)}" for path in wanted]
        there = [(info, path) for info, path in zip(files.get_file_info(sources), wanted, strict=True) if info.is_file]
        needed = sum(info.size or 0 for info, _ in there)
        if shutil.disk_usage(self.folder).free < needed:
            parent = self._remote.parent
            raise value_error(f"{parent}: no room for the {needed} bytes of a shard", "use more shards, or another scratch")
        return [path for info, path in there if _fetch(files, info.path, path)]


def _fetch(files: Any, source: str, target: str) -> bool:
    """Copies a file; False if it is gone."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        stream = files.open_input_stream(source)
    except FileNotFoundError:
        return False
    with stream, open(target, "wb") as file:
        shutil.copyfileobj(stream, file, BLOCK)
    # A build resumes only with files of the same time.
    os.utime(target, (0, 0))
    return True


@contextmanager
def _private(folder: str) -> Iterator[None]:
    """Returns a new folder that only this user can read, locked while its process lives."""
    lock = None
    while lock is None:
        os.mkdir(folder, 0o700)
        lock = _take_lock(folder, fcntl.LOCK_EX)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(parent: str) -> None:
    """Removes what killed workers have left."""
    for folder in glob.glob(os.path.join(glob.escape(parent), f"{PREFIX}*")):
        lock = _take_lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _take_lock(folder: str, how: int) -> int | None:
    """Locks a folder of this user; None if that cannot be done, or the folder is gone by then."""
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(file, how)
        if os.fstat(file).st_uid == os.getuid() and os.path.samestat(os.fstat(file), os.stat(folder)):
            return file
    except OSError:
        pass
    os.close(file)
    return None
