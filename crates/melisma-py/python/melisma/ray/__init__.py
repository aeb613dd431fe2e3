"""Datasets, packed checkpoints and clips on a Ray cluster.

Shards go to the workers and rows of a manifest come back; audio and weights never pass through Ray's object store. The
inputs and the output are on storage that every node sees under the same path. A job that was stopped resumes when the
same call is made again, and the result has the bytes of a build on one machine.

    import ray, melisma.ray
    from melisma.ray import Workers
    ray.init("auto")
    report = melisma.ray.build("/data/wavs", "/data/train.h5", preset="whisper-80", workers=Workers(num_gpus=1))
"""

from ._cluster import Workers
from ._error import JobError
from ._jobs import build, clips, pack

__all__ = ["JobError", "Workers", "build", "clips", "pack"]
