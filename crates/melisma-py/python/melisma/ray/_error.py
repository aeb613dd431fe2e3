"""What a job raises at its end."""

from typing import Any

from .._error import MelismaRuntimeError

#: Faults that the message names.
_SHOWN = 10


class JobError(MelismaRuntimeError):
    """Shards that failed on every attempt, or no node that can work. Finished shards stay for the next call.

    Args:
        what: What failed.
        faults: A dict for each fault, with `node`, `shard` (counted from 1; None for a fault of the node) and `message`.
        hint: How to fix it, where that is known.
    """

    def __init__(self, what: str, faults: list[dict[str, Any]], hint: str | None = None) -> None:
        lines = [what, *(f"  {format_fault(fault)}" for fault in faults[:_SHOWN])]
        if len(faults) > _SHOWN:
            lines.append(f"  and {len(faults) - _SHOWN} more")
        super().__init__("unsupported", "\n".join(lines), hint)
        self.what, self.faults = what, faults

    def __reduce__(self) -> Any:
        return JobError, (self.what, self.faults, self.hint)


def format_fault(fault: dict[str, Any]) -> str:
    """Returns a fault in one line."""
    shard = "" if fault["shard"] is None else f", shard {fault['shard']}"
    return f"{fault['node'] or 'the cluster'}{shard}: {fault['message']}"
