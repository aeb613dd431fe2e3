"""The native part of the package."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Self, TypeAlias, TypeVar, final

import numpy.typing as npt

__all__ = ["MemoryTracker", "PrecisionScope", "Tensor", "TensorOptimizer", "Track", "Weights", "_work"]

_Array: TypeAlias = npt.NDArray[Any]
_Operand: TypeAlias = Tensor | _Array
_Operation: TypeAlias = Literal["add", "subtract", "multiply", "divide", "maximum", "minimum"]
_Precision: TypeAlias = Literal["fp32", "fp16", "int8", "auto"]
_R = TypeVar("_R")

@final
class Tensor:
    """A dense array under the memory limit of the optimizer that made it, on its device."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of its axes."""
    @property
    def dtype(self) -> str:
        """The type of its elements: f32, f16, bf16, i64, i32, i16 or u8."""
    @property
    def nbytes(self) -> int:
        """Its bytes."""
    def numpy(self) -> _Array:
        """A copy of its elements."""
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> _Array:
        """What `numpy.asarray` calls. There is always a copy."""

@final
class TensorOptimizer:
    """The tensor tools under one set of settings: device, profile, memory limit and the section `tensor_optimizations`."""

    def __new__(
        cls,
        profile: str | None = None,
        config: str | os.PathLike[str] | dict[str, Any] | None = None,
        memory_limit: int | str | None = None,
    ) -> Self:
        """`config` is the path of a YAML file or a dict of settings; the environment's `MELISMA_*` count as everywhere."""
    @property
    def memory(self) -> MemoryTracker:
        """What is held, and the limit."""
    def optimize_tensor(self, array: _Operand, dtype: npt.DTypeLike | None = None) -> Tensor:
        """A tensor on the device with the values of `array`, as `dtype` or else as the settings ask."""
    def matmul(self, a: _Operand, b: _Operand) -> Tensor:
        """a [M, K] times b [K, N], in the type of `a`."""
    def combine(self, operation: _Operation, y: _Operand, x: _Operand | float) -> Tensor:
        """A new tensor: `y` changed by `x`, a number or as many elements."""
    def combine_in_place(self, operation: _Operation, y: _Operand, x: _Operand | float) -> None:
        """Changes `y`, a tensor or an array, where it is."""
    def mixed_precision(self) -> PrecisionScope:
        """A scope for `with`, in which products keep their operands in the precision that the settings ask for."""
    def apply(self, name: str, inputs: Iterable[_Operand], work: Callable[..., _R]) -> _R:
        """Optimizes `inputs` and calls `work(scope, *inputs)` in a precision scope, tracked as `name`."""
    def optimize(
        self,
        path: str | os.PathLike[str],
        inputs: dict[str, Sequence[int]],
        *,
        precision: _Precision | None = None,
        tolerance: float | None = None,
        engine: str | None = None,
        calibrate: str | os.PathLike[str] | None = None,
    ) -> dict[str, Any]:
        """Finds the best engine for an ONNX model with inputs of these shapes, caches it for `run`, and reports.

        The report is that of `melisma optimize --json`. Inputs whose shape the model fixes may be left out. What is None
        comes from the settings.
        """
    def run(
        self,
        path: str | os.PathLike[str],
        inputs: dict[str, _Array],
        *,
        precision: _Precision | None = None,
        tolerance: float | None = None,
        engine: str | None = None,
    ) -> dict[str, _Array]:
        """The outputs of an ONNX model by name.

        The engine is the fastest cached one for these shapes that satisfies `precision` and `tolerance`, else the
        embedded one in FP32. The logger `melisma` is told which and why, and `last_run` holds it.
        """
    @property
    def last_run(self) -> dict[str, Any] | None:
        """What `melisma run --json` says of the engine of the last `run`; None before the first."""

@final
class PrecisionScope:
    """Products in the precision that the settings ask for, with sums in FP32."""

    @property
    def dtype(self) -> str:
        """The format that operands are kept in."""
    def matmul(self, a: _Operand, b: _Operand) -> Tensor:
        """a [M, K] times b [K, N], in the format of this scope."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class Weights:
    """A file of weights: `.safetensors`, packed or not, or a checkpoint of PyTorch. Nothing but its header is read."""

    def __new__(cls, path: str | os.PathLike[str]) -> Self: ...
    def load(self, optimizer: TensorOptimizer, take: Callable[[str, Tensor], object]) -> None:
        """Reads one tensor after another, optimizes it and gives it to `take(name, tensor)`.

        The limit holds for what is alive at one time.
        """

@final
class MemoryTracker:
    """What tensors and buffers hold, by named scope."""

    def track(self, name: str) -> Track:
        """A scope called `name`, for `with`."""
    def summary(self) -> str:
        """The table of everything, as it is now."""
    def scopes(self) -> dict[str, dict[str, int]]:
        """Each scope that was left: its calls, and the most bytes held inside of it in host, pinned and device memory."""
    @property
    def host_bytes(self) -> int:
        """Bytes held in host memory now."""
    @property
    def limit(self) -> int | None:
        """The most bytes that host memory may hold, or None."""

@final
class Track:
    """A scope over memory, as a context manager."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...

def _work(spec: str | os.PathLike[str]) -> int: ...
