"""The folder of a job on shared storage: what was asked for, and one row for each finished shard.

    OUT.shards/job.json           what was asked for, and the number of shards; written last
    OUT.shards/shard-00001.json   the row of a finished shard
    OUT.shards/shard-00001.begun  the node that works on a shard, or did when it died
"""

import glob
import json
import os
import shutil
from collections.abc import Callable
from typing import Any

from .._array import refuse


class Folder:
    """The folder of one job."""

    def __init__(self, path: str) -> None:
        self.path = path

    def begin(
        self,
        asked: dict[str, Any],
        targets: Callable[[], list[str]],
        plan: Callable[[], dict[str, Any]],
        overwrite: bool,
    ) -> dict[str, Any]:
        """Opens the job that was begun with `asked`, or begins it: `plan` adds what is decided once.

        A job is refused that would replace any of `targets`, which are not its own before it begins.
        """
        asked = json.loads(json.dumps(asked))
        found = self.job()
        if found is not None and not overwrite:
            if found["asked"] != asked:
                differ = [key for key in asked if asked[key] != found["asked"].get(key)]
                raise refuse(
                    f"{self.path}: an unfinished job with other {' and '.join(differ)} is there",
                    "use overwrite=True to start over, or the arguments that it was begun with",
                )
            return found
        existing = [] if overwrite else [target for target in targets() if os.path.exists(target)]
        if existing:
            raise refuse(f"{existing[0]}: the file exists already", "use overwrite=True, or choose another name")
        if os.path.isdir(self.path):
            shutil.rmtree(self.path)
        os.makedirs(self.path)
        begun = {"asked": asked, **plan()}
        self.write("job.json", begun)
        return begun

    def job(self) -> dict[str, Any] | None:
        """The job, if one was begun here."""
        return self.read("job.json")

    def at(self, name: str) -> str:
        """The path of a file of the job."""
        return os.path.join(self.path, name)

    def read(self, name: str) -> dict[str, Any] | None:
        """A JSON file, or None where there is none."""
        try:
            with open(self.at(name), encoding="utf-8") as file:
                found = json.load(file)
        except (FileNotFoundError, json.JSONDecodeError):
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

    def rows(self) -> list[dict[str, Any]]:
        """The rows of all finished shards."""
        names = sorted(glob.glob("shard-*.json", root_dir=self.path))
        return [row for row in map(self.read, names) if row is not None]

    def begun_on(self, shard: int) -> str | None:
        """The node that a shard was begun on last."""
        found = self.read(f"{stem(shard)}.begun")
        return None if found is None else str(found["node"])


def stem(shard: int) -> str:
    """The name of a shard's files, counted from 1 as in `--shard`."""
    return f"shard-{shard + 1:05}"
