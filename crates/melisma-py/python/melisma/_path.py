"""Paths as users give them."""

import os
from typing import TypeAlias

StrPath: TypeAlias = str | os.PathLike[str]


def path_of(value: StrPath) -> str:
    """Returns the str of a path. An int would be an open file of this process, which `open` would close: it is refused."""
    if isinstance(value, str | os.PathLike):
        found = os.fspath(value)
        if isinstance(found, str):
            return found
    raise TypeError(f"{value!r:.100} is not a path; use a str or an os.PathLike of one")
