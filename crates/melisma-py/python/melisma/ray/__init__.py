"""Datasets, packed checkpoints, clips and speech on a Ray cluster.

Shards go to the workers and rows of a manifest come back; audio and weights never pass through Ray's object store. The
inputs and the output are on storage that every node sees under the same path. A job that was stopped resumes when the
same call is made again, and the result has the bytes of a build on one machine.

    import ray, melisma.ray
    from melisma.ray import Mel, Workers
    ray.init("auto")
    report = melisma.ray.build("/data/wavs", "/data/train.h5", Mel(preset="whisper-80"), workers=Workers(num_gpus=1))
"""

from .._array import optional

optional("ray", "\"ray[data]\"")

from .._feature import Mel, Table, Tokens
from ._cluster import Workers
from ._error import JobError
from ._jobs import build, clips, pack, speak
from ._report import BuildReport, ClipsReport, JobReport, PackReport, SpeakReport

__all__ = [
    "BuildReport",
    "ClipsReport",
    "JobError",
    "JobReport",
    "Mel",
    "PackReport",
    "SpeakReport",
    "Table",
    "Tokens",
    "Workers",
    "build",
    "clips",
    "pack",
    "speak",
]
