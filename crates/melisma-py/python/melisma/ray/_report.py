"""The reports of jobs."""

import dataclasses
from typing import Any

from .. import _report


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class JobReport(_report.Report):
    """What every job reports. It is also a mapping with these keys.

    Args:
        shards: Shards of the job.
        shards_resumed: Those of them that earlier calls finished.
        shards_failed: Those of them that failed on every attempt.
        faults: A dict for each fault, with `node`, `shard` (counted from 1; None for a fault of the node) and `message`.
        wall_seconds: Seconds that the call took.
    """

    shards: int
    shards_resumed: int
    shards_failed: int
    faults: list[dict[str, Any]]
    wall_seconds: float


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class BuildReport(JobReport):
    """What `build` did: the fields of `JobReport`, and these.

    Args:
        rows: Rows of the dataset.
        frames: Frames of all rows.
        files_ok: Files that were used.
        files_failed: Files that could not be used.
        files_left_out: Files that filters left out: `min_seconds`, `max_seconds` and `require_text`.
        files_peak_limited: Files that are quieter than `loudness`, because of their peaks.
        files_without_text: Files without a text, for tokens.
        audio_seconds: Seconds of audio that were read.
        failures: A dict for each of the first thousand files that failed, with `path` and the reason.
        failures_by_code: How many failures there are of each reason, its `code`.
        missing_shards: Shards that the dataset lacks.
        skipped: What was left out of the inputs, in words.
    """

    rows: int
    frames: int
    files_ok: int
    files_failed: int
    files_left_out: int
    files_peak_limited: int
    files_without_text: int
    audio_seconds: float
    failures: list[dict[str, Any]]
    failures_by_code: dict[str, int]
    missing_shards: int
    skipped: list[str]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class PackReport(JobReport):
    """What `pack` did: the fields of `JobReport`, and these.

    Args:
        output: The index of the packed files.
        source_bytes: Bytes of the plain files.
        packed_bytes: Bytes of the packed files.
    """

    output: str
    source_bytes: int
    packed_bytes: int


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ClipsReport(JobReport):
    """What `clips` did: the fields of `JobReport`, and these.

    Args:
        output: The folder of the clips.
        clips: Clips of the job.
        clips_kept: Those of them that were there already.
        notes: Notes of all clips.
        samples: Samples of all clips.
    """

    output: str
    clips: int
    clips_kept: int
    notes: int
    samples: int


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SpeakReport(JobReport):
    """What `speak` did: the fields of `JobReport`, and these.

    Args:
        output: The folder of audio, or the corpus.
        texts: Texts that were spoken.
        texts_kept: Those of them that were there already when their shard began.
        frames: Frames of tokens; of audio, those of this job only.
        samples: Samples of audio that this job has written.
        failures: A dict for each of the first thousand lines that failed, with `path`, as in list.jsonl:7, and `message`.
        notes: What listeners should know of single lines.
    """

    output: str
    texts: int
    texts_kept: int
    frames: int
    samples: int
    failures: list[dict[str, Any]]
    notes: list[str]
