"""SNAC codec tokens to audio and back, whole or as streams.

Codes are one array of integers for each level, coarsest first, as `Encoder.encode` gives them, or frames in a row,
[frames, 7] for a 24 kHz model, in the order in which language models write them.

>>> import numpy
>>> from melisma import snac
>>> codes = snac.populate([0, 1, 2, 3, 4, 5, 6] * 4)
>>> [level.shape for level in codes]
[(1, 4), (1, 8), (1, 16)]
>>> decoder = snac.Decoder("builtin:mini24")
>>> whole = decoder.decode(codes)
>>> whole.shape, decoder.sample_rate
((8192,), 24000)
>>> stream = decoder.stream()
>>> pieces = [stream.push(numpy.arange(7)[None]) for _ in range(4)] + [stream.finish()]
>>> bool((numpy.concatenate(pieces) == whole).all())
True
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Self, TypeAlias

import numpy

from . import _melisma
from ._array import ArrayLike, Floats, Integers, floats, in_order, integers, is_torch, like, plain, rate, refuse, target
from ._path import StrPath, path_of
from .audio import resample

__all__ = ["SNAC", "Codes", "Decoder", "Encoder", "StreamDecoder", "StreamEncoder", "populate"]

Codes: TypeAlias = ArrayLike
"""Frames [n, slots], or a sequence with one array [n] or [1, n] for each level."""


def populate(frames: ArrayLike, *, codebook_size: int = 4096) -> tuple[Any, Any, Any]:
    """Spreads frames of seven codes in a row over the three levels of a 24 kHz model: [1, n], [1, 2n] and [1, 4n].

    Codes after the last whole frame are left out. A code outside of the codebook raises ValueError. A torch tensor
    gives torch tensors on its device.
    """
    array = frames if isinstance(frames, numpy.ndarray) and frames.dtype == numpy.int32 else integers(frames)
    if array.ndim > 1 and array.shape[-1] != 7:
        raise refuse(f"codes of shape {array.shape}", "use [n] codes in a row, or frames [n, 7]")
    if not in_order(array):
        array = integers(array)
    levels = _melisma._populate(array, codebook_size)
    return levels if not is_torch(frames) else (like(frames, levels[0]), like(frames, levels[1]), like(frames, levels[2]))


def _given(codes: Codes) -> Integers | list[Integers]:
    """Codes as the native part takes them: frames with two axes, or levels with one each."""
    if isinstance(codes, list | tuple):
        if len(codes) == 0:
            raise refuse("codes without a level", "give frames [n, slots], or one array for each level")
        levels = [integers(level, f"level {index}") for index, level in enumerate(codes)]
        for index, level in enumerate(levels):
            if level.ndim not in (1, 2) or (level.ndim == 2 and level.shape[0] != 1):
                raise refuse(f"level {index} has the shape {level.shape}", "use [n] or [1, n]; a batch is a list of codes")
        return [level.reshape(-1) for level in levels]
    frames = integers(codes)
    if frames.ndim != 2:
        raise refuse(f"codes of shape {frames.shape}", "use frames [n, slots], or one array for each level")
    return frames


def _mono(samples: ArrayLike) -> Floats:
    array = floats(samples)
    if array.ndim == 2 and array.shape[0] == 1:
        array = array[0]
    if array.ndim != 1:
        raise refuse(f"samples of shape {array.shape}", "use one channel: [samples] or [1, samples]")
    return array


class Decoder(_melisma.Codec):
    """Codes to samples."""

    _directions = ("decode",)

    def decode(self, codes: Codes, *, noise: int | None = 0, out: ArrayLike | None = None) -> Any:
        """The samples of a clip, in `out` if that is given. `noise` is the seed of the decoder's noise, or None."""
        samples: Floats = self._decode([_given(codes)], noise, target(out))[0]
        return samples if out is None else out

    def decode_batch(self, clips: Iterable[Codes], *, noise: int | None = 0) -> list[Floats]:
        """The samples of several clips, decoded together; they are the same as those of each clip alone."""
        return self._decode([_given(codes) for codes in clips], noise, None)

    def stream(
        self, *, noise: int | None = 0, format: Literal["auto", "orpheus", "ids"] = "auto"
    ) -> "StreamDecoder":
        """A stream: samples leave as soon as no later frame can change them."""
        return StreamDecoder(self, noise=noise, format=format)


class StreamDecoder(_melisma.StreamDecoder):
    """One stream of a `Decoder`. Its samples are, bit for bit, those of decoding the whole clip.

    `finish` returns the last samples. `with` ends the stream at the end of the block, so call `finish` inside of it.
    """

    def push(self, piece: Any) -> Floats:
        """Takes a piece, gives the samples that became final; often there are none.

        A str or bytes is text with `<custom_token_N>`, cut anywhere. An int or [n] integers are vocabulary ids. Frames
        [n, slots], and a sequence of levels, are codes.
        """
        if isinstance(piece, str | bytes):
            return self._push_text(piece.encode() if isinstance(piece, str) else piece)
        if isinstance(piece, int | numpy.integer):
            return self._push_text(b"%d " % int(piece))
        if isinstance(piece, list | tuple) and all(isinstance(id, int | numpy.integer) for id in piece):
            piece = numpy.array(piece, numpy.int64)
        if not isinstance(piece, list | tuple) and plain(piece).ndim == 1:
            ids = integers(piece, "ids")
            return self._push_text(b"".join(b"%d " % id for id in ids.tolist()))
        return self._push_codes(_given(piece))

    def samples(self, pieces: Iterable[Any]) -> Iterator[Floats]:
        """Pushes every piece, and yields samples while they become final; then finishes the stream."""
        for piece in pieces:
            samples = self.push(piece)
            if samples.size:
                yield samples
        last = self.finish()
        if last.size:
            yield last

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        if not self.is_finished:
            self.finish()


class Encoder(_melisma.Codec):
    """Samples to codes."""

    _directions = ("encode",)

    def _at_rate(self, samples: ArrayLike, sample_rate: int | None) -> Floats:
        array = _mono(samples)
        if sample_rate is None or rate(sample_rate) == self.sample_rate:
            return array
        resampled: Floats = resample(array, sample_rate, self.sample_rate)
        return resampled

    def encode(self, samples: ArrayLike, *, sample_rate: int | None = None) -> list[Integers]:
        """The codes of a clip, [n] for each level. `sample_rate` is that of the samples; others are resampled.

        The end is padded with silence to whole frames.
        """
        return self._encode([self._at_rate(samples, sample_rate)])[0]

    def encode_batch(self, clips: Iterable[ArrayLike], *, sample_rate: int | None = None) -> list[list[Integers]]:
        """The codes of several clips."""
        return self._encode([self._at_rate(samples, sample_rate) for samples in clips])

    def to_text(self, codes: Codes, *, format: Literal["orpheus", "ids"] = "orpheus") -> str:
        """The tokens of `codes` as language models write them, one frame a line."""
        return self._text(_given(codes), format)

    def stream(self) -> "StreamEncoder":
        """A stream: codes leave as soon as no later sample can change them."""
        return StreamEncoder(self)


class StreamEncoder(_melisma.StreamEncoder):
    """One stream of an `Encoder`. Its codes are those of encoding the whole clip."""

    def push(self, samples: ArrayLike) -> list[Integers]:
        """Takes samples at the model's rate, gives the codes that became final."""
        return self._push(_mono(samples))


class SNAC:
    """The interface of the class of this name in the `snac` package: batches [B, 1, T] of samples, codes [B, n] a level.

    Torch tensors give torch tensors on their device, and arrays give arrays.
    """

    def __init__(self, path: StrPath, *, device: str | None = None, noise: int | None = 0) -> None:
        self._path, self._device, self._noise = path_of(path), device, noise
        self._codec = _melisma.Codec(self._path, device=device)

    @classmethod
    def from_pretrained(
        cls, path: StrPath, *, device: str | None = None, noise: int | None = 0
    ) -> Self:
        """Opens a folder with `config.json` and weights, a file of weights, or `builtin:mini24`. Nothing is downloaded."""
        return cls(path, device=device, noise=noise)

    @property
    def sampling_rate(self) -> int:
        """Samples per second."""
        return self._codec.sample_rate

    def eval(self) -> Self:
        """Itself: it has no training mode."""
        return self

    def train(self, mode: bool = True) -> Self:
        """Itself: it has no training mode."""
        return self

    def float(self) -> Self:
        """Itself: samples are float32."""
        return self

    def to(self, device: object) -> Self:
        """Moves the model to another device, `cpu`, `cuda` or `cuda:N`, and returns it."""
        if str(device) != self._device:
            self._codec = _melisma.Codec(self._path, device=str(device))
            self._device = str(device)
        return self

    def cpu(self) -> Self:
        """Moves the model to the CPU."""
        return self.to("cpu")

    def cuda(self, device: int = 0) -> Self:
        """Moves the model to a GPU."""
        return self.to(f"cuda:{device}")

    @property
    def codebook_size(self) -> int:
        """Codes of a level are below this."""
        return self._codec.codebook_size

    @property
    def hop_length(self) -> int:
        """Samples for each code of the finest level."""
        return self._codec.frame_len // max(self._codec.frame_codes)

    def encode(self, audio_data: ArrayLike) -> list[Any]:
        """Samples [B, 1, T] to codes, int64 [B, n] for each level."""
        batch = floats(audio_data)
        if batch.ndim != 3 or batch.shape[1] != 1:
            raise refuse(f"audio of shape {batch.shape}", "use [batch, 1, samples]")
        clips = self._codec._encode(list(batch[:, 0]))
        levels = zip(*clips, strict=True)
        return [like(audio_data, numpy.stack(level).astype(numpy.int64)) for level in levels]

    def decode(self, codes: Sequence[ArrayLike]) -> Any:
        """Codes [B, n] for each level to samples [B, 1, T]."""
        levels = [integers(level, f"level {index}") for index, level in enumerate(codes)]
        if not levels or any(level.ndim != 2 or len(level) != len(levels[0]) for level in levels):
            shapes = [level.shape for level in levels]
            raise refuse(f"codes of shapes {shapes}", "use one array [batch, n] for each level")
        clips = [_given([level[item] for level in levels]) for item in range(len(levels[0]))]
        samples = self._codec._decode(clips, self._noise, None)
        return like(codes[0], numpy.stack(samples)[:, None])

    def forward(self, audio_data: ArrayLike) -> tuple[Any, list[Any]]:
        """Samples [B, 1, T] encoded and decoded again, at their own length, and their codes."""
        codes = self.encode(audio_data)
        return self.decode(codes)[..., : plain(audio_data).shape[-1]], codes

    __call__ = forward
