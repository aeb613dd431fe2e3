"""Exceptions: each is a MelismaError, and the exception of Python that fits its kind."""


class MelismaError(Exception):
    """What went wrong. `kind` is for programs, the text for people, `hint` says how to fix it where that is known."""

    def __init__(self, kind: str, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.kind = kind
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, tuple[str, str, str | None]]:
        return of_kind, (self.kind, self.message, self.hint)


class MelismaValueError(MelismaError, ValueError):
    """A wrong value, a file that is not sound, or a check that failed."""


class MelismaOSError(MelismaError, OSError):
    """The operating system refused."""


class MelismaMemoryError(MelismaError, MemoryError):
    """The memory limit refused, or an allocation failed."""


class MelismaRuntimeError(MelismaError, RuntimeError):
    """This build or this machine cannot do it."""


_CLASSES = {
    "Io": MelismaOSError,
    "Memory": MelismaMemoryError,
    "Unsupported": MelismaRuntimeError,
    "Device": MelismaRuntimeError,
}


def of_kind(kind: str, message: str, hint: str | None) -> MelismaError:
    return _CLASSES.get(kind, MelismaValueError)(kind, message, hint)
