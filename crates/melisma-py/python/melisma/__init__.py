"""Melisma: a tensor engine for audio AI.

Rooms: `snac` (codec tokens to audio and back), `speak` (texts to speech), `synth` (scores to audio), `mel`
(spectrograms), `audio` (files), `dataset` (folders of audio to training tensors), `pack` (weights without loss),
`optimize` (ONNX models). At the root are tools for single tensors under a memory limit. `melisma.ray` spreads work over
many machines; it is imported by name only.
"""

import sysconfig

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError("melisma does not support free-threaded Python; use a build with the GIL")

from . import audio, dataset, mel, optimize, pack, snac, speak, synth
from ._error import (
    MelismaError,
    MelismaFileExistsError,
    MelismaFileNotFoundError,
    MelismaImportError,
    MelismaMemoryError,
    MelismaOSError,
    MelismaPermissionError,
    MelismaRuntimeError,
    MelismaSafetensorError,
    MelismaValueError,
)
from ._melisma import Config, PrecisionScope, Server, Tensor, Weights, build_info, serve
from ._melisma import Span as span
from ._melisma import Trace as trace
from ._melisma import _version
from ._tensor import MemoryTracker, TensorOptimizer, TensorRTOptimizer, apply_tensor_optimizations

__version__ = _version()

__all__ = [
    "Config",
    "MelismaError",
    "MelismaFileExistsError",
    "MelismaFileNotFoundError",
    "MelismaImportError",
    "MelismaMemoryError",
    "MelismaOSError",
    "MelismaPermissionError",
    "MelismaRuntimeError",
    "MelismaSafetensorError",
    "MelismaValueError",
    "MemoryTracker",
    "PrecisionScope",
    "Server",
    "Tensor",
    "TensorOptimizer",
    "TensorRTOptimizer",
    "Weights",
    "apply_tensor_optimizations",
    "audio",
    "build_info",
    "dataset",
    "mel",
    "optimize",
    "pack",
    "serve",
    "snac",
    "span",
    "speak",
    "synth",
    "trace",
]
