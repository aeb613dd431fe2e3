"""Twins of long calls, for `await`: each works on a thread, and ends when its task is cancelled."""

import asyncio
import contextlib
import contextvars
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from . import _melisma

_P = ParamSpec("_P")
_R = TypeVar("_R")


def twin(call: Callable[_P, _R]) -> Callable[_P, Coroutine[Any, Any, _R]]:
    """The twin of a call. It is cancelled as a task is: the work ends as after Ctrl-C, and with it the task."""

    @functools.wraps(call)
    async def awaited(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        cancel = _melisma._Cancel()
        work = functools.partial(contextvars.copy_context().run, call, *args, **kwargs)
        future = asyncio.get_running_loop().run_in_executor(None, cancel.run, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            cancel.cancel()
            # Nothing works on the arguments any more when the task has ended.
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            if not future.cancelled():
                future.exception()
            raise

    name = call.__name__
    awaited.__name__ = f"{name}_async"
    awaited.__qualname__ = f"{call.__qualname__}_async"
    said = inspect.cleandoc(call.__doc__ or "").partition("\n")[2]
    awaited.__doc__ = f"As `{name}`, on a thread, for `await`; if the task is cancelled, the work ends.\n{said}"
    del awaited.__wrapped__
    awaited.__signature__ = inspect.signature(call)  # type: ignore[attr-defined]
    return awaited
