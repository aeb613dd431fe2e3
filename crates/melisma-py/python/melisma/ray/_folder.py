"""The folder of a job on shared storage: what was asked for, and one row for each finished shard.

    OUT.shards/job.json           what was asked for, and the number of shards; written last
    OUT.shards/inputs.list        all input files of a dataset
    OUT.shards/shard-00001.json   the row of a finished shard
    OUT.shards/shard-00001.begun  the node that works on a shard, or did when it died
    OUT.shards/merged.json        present once the shards are merged
    OUT.shards/lock               held while a driver works on the job
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from .._array import value_error

#: What is decided once, and what writes the files that belong to it.
Plan: TypeAlias = tuple[dict[str, Any], Callable[[], None]]
#: Files that a job has before its `job.json`.
_EARLY = re.compile(r"lock|\.?inputs\.list.*|\.job\.json\.\d+")
#: All files of a job but the lock.
_OWN = re.compile(r"\.?(job\.json|merged\.json|inputs\.list|shard-\d{5,}).*")


class Folder:
    """The folder of one job."""

    def __init__(self, path: str) -> None:
        self.path = path

    def check(self) -> None:
        """Fails if the folder is there and not the folder of a job."""
        try:
            names = sorted(os.listdir(self.path))
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise value_error(f"{self.path}: a file has the name of the job's folder", "choose another output") from None
        foreign = [name for name in names if not _EARLY.fullmatch(name)]
        if not foreign or self.job() is not None:
            return
        hint = "choose another output, or remove the folder yourself"
        if "job.json" in names:
            raise value_error(f"{self.at('job.json')}: the file is damaged", hint)
        raise value_error(f"{self.path}: the folder has `{foreign[0]}`, and no job of melisma.ray", hint)

    def begin(
        self, asked: dict[str, Any], targets: list[str], plan: Callable[[], Plan], overwrite: bool
    ) -> dict[str, Any]:
        """Opens the job that was begun with `asked`, or begins it: `plan` adds what is decided once.

        A job is refused that would replace any of `targets`, which are not its own before it begins.
        """
        self.check()
        asked = json.loads(json.dumps(asked))
        found = self.job()
        if found is not None and not overwrite:
            other = _difference(found["asked"], asked)
            if other is not None:
                raise value_error(
                    f"{self.path}: the job there was begun with {other}",
                    "use overwrite=True to start over, or the arguments that it was begun with",
                )
            return found
        existing = [] if overwrite else [target for target in targets if os.path.exists(target)]
        if existing:
            raise value_error(f"{existing[0]}: the file exists already", "use overwrite=True, or choose another name")
        facts, save = plan()
        self.empty()
        os.makedirs(self.path, exist_ok=True)
        save()
        begun = {"asked": asked, **facts}
        self.write("job.json", begun)
        return begun

    def empty(self) -> None:
        """Removes the files of the job, but not its lock. `job.json` goes last, so that a rest stays ours."""
        names = os.listdir(self.path) if os.path.isdir(self.path) else []
        for name in sorted(filter(_OWN.fullmatch, names), key="job.json".__eq__):
            remove(self.at(name))

    def job(self) -> dict[str, Any] | None:
        """Returns the job, if one was begun here."""
        found = self.read("job.json")
        return found if found is not None and {"asked", "shards"} <= found.keys() else None

    def at(self, name: str) -> str:
        """Returns the path of a file of the job."""
        return os.path.join(self.path, name)

    def read(self, name: str) -> dict[str, Any] | None:
        """Returns a JSON file, or None if it is missing or damaged."""
        try:
            with open(self.at(name), encoding="utf-8") as file:
                found = json.load(file)
        except (FileNotFoundError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Writes a JSON file that appears whole or not at all."""
        partial = self.at(f".{name}.{os.getpid()}")
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self.at(name))

    def rows(self) -> dict[int, dict[str, Any]]:
        """Returns the rows of all finished shards."""
        found = (re.fullmatch(r"shard-(\d{5,})\.json", name) for name in sorted(os.listdir(self.path)))
        rows = {int(match[1]) - 1: self.read(match[0]) for match in found if match is not None}
        return {shard: row for shard, row in rows.items() if row is not None}

    def started_node(self, shard: int) -> str | None:
        """Returns the node that a shard was begun on last."""
        found = self.read(f"{stem(shard)}.begun")
        return None if found is None else str(found["node"])


def stem(shard: int) -> str:
    """Returns the name of a shard's files, counted from 1 as in `--shard`."""
    return f"shard-{shard + 1:05}"


def remove(path: str) -> None:
    """Removes a file or a folder, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


def stamp(paths: Iterable[str]) -> str | None:
    """Changes with the size or the time of any of these files and folders; None if one is missing."""
    seen = hashlib.sha256()
    try:
        for path in paths:
            inside = [os.path.join(path, name) for name in sorted(os.listdir(path))] if os.path.isdir(path) else [path]
            for place in inside:
                data = os.stat(place)
                seen.update(f"{place}\0{data.st_size} {data.st_mtime_ns}\n".encode(errors="surrogateescape"))
    except FileNotFoundError:
        return None
    return seen.hexdigest()


def _difference(found: dict[str, Any], asked: dict[str, Any]) -> str | None:
    """Returns the first argument that differs, in words; None if all are the same."""
    for key in {**asked, **found}:
        before, now = found.get(key), asked.get(key)
        if before == now:
            continue
        if isinstance(before, dict) and isinstance(now, dict):
            return _difference(before, now)
        return f"{key}={before!r}, this call has {key}={now!r}"
    return None
