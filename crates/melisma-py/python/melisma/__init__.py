"""Melisma's tensor tools: tensors lowered, combined and multiplied under a memory limit, on the CPU or a GPU."""

from ._error import MelismaError, MelismaMemoryError, MelismaOSError, MelismaRuntimeError, MelismaValueError
from ._melisma import MemoryTracker, PrecisionScope, Tensor, TensorOptimizer, Weights

__all__ = [
    "MelismaError",
    "MelismaMemoryError",
    "MelismaOSError",
    "MelismaRuntimeError",
    "MelismaValueError",
    "MemoryTracker",
    "PrecisionScope",
    "Tensor",
    "TensorOptimizer",
    "Weights",
]
