"""The lock of a job: one driver works on it, and the lock of a dead driver is free."""

import fcntl
import json
import os
import time

from .._error import MelismaValueError
from ._folder import Folder

#: Seconds until a lock that is held is an error; the processes of a dead driver need some to end.
TIMEOUT_S = 15


class Lock:
    """The lock in a job's folder, held by the process that takes it until it releases it or ends."""

    def __init__(self, folder: Folder, owner: str) -> None:
        self._folder, self._owner = folder, owner
        self._path = folder.at("lock")
        self._file: int | None = None

    def take(self, timeout_s: float = TIMEOUT_S) -> None:
        """Takes the lock, and creates the folder if it is missing."""
        self._folder.check()
        begun = time.monotonic()
        while not self._try_acquire():
            if time.monotonic() - begun > timeout_s:
                owner = (self._folder.read("lock") or {}).get("owner", "unknown")
                message = f"{self._folder.path}: another driver works on this job ({owner})"
                raise MelismaValueError("busy", message, "wait until it has finished, or stop it")
            time.sleep(0.2)

    def _try_acquire(self) -> bool:
        os.makedirs(self._folder.path, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The holder before may have removed the file that was opened here.
            is_held = os.path.samestat(os.fstat(file), os.stat(self._path))
        except (BlockingIOError, FileNotFoundError):
            is_held = False
        if not is_held:
            os.close(file)
            return False
        os.ftruncate(file, 0)
        os.write(file, json.dumps({"owner": self._owner}).encode())
        self._file = file
        return True

    def release(self) -> None:
        """Removes the lock, and the folder if nothing else is in it."""
        if self._file is None:
            return
        os.unlink(self._path)
        os.close(self._file)
        self._file = None
        if not os.listdir(self._folder.path):
            os.rmdir(self._folder.path)
