"""Reports: frozen dataclasses that are also read-only mappings."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, eq=False)
class Report(Mapping[str, Any]):
    """A report whose fields are attributes and keys: `report.rows` is `report["rows"]`, and `dict(report)` is a dict."""

    def __getitem__(self, key: str) -> Any:
        """Returns the field called `key`."""
        if key not in self.__dataclass_fields__:
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        """Returns the names of all fields."""
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        """Returns the number of fields."""
        return len(self.__dataclass_fields__)
