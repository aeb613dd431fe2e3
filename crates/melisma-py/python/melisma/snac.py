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

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Self, overload

import numpy

from . import _melisma
from ._array import ArrayLike, Floats, Integers, OutT, as_numpy, floats, integers, rate, target, value_error
from ._async import twin
from ._populate import Valid, populate, validate
from ._rows import Dataset
from ._snac import SNAC, Codes, as_codes
from .audio import resample

__all__ = ["SNAC", "Codes", "Decoder", "Encoder", "StreamDecoder", "StreamEncoder", "Valid", "populate", "validate"]


def _mono(samples: ArrayLike) -> Floats:
    array = floats(samples)
    if array.ndim == 2 and array.shape[0] == 1:
        array = array[0]
    if array.ndim != 1:
        raise value_error(f"samples of shape {array.shape} are not supported", "use one channel: [samples] or [1, samples]")
    return array


class Decoder(_melisma.Codec):
    """Codes to samples.

    Args:
        model: `builtin:mini24`, a folder with `config.json` and weights, or a file of weights beside `config.json`.
        device: `cpu`, `cuda` or `cuda:N`; None is that of the settings.
        threads: Threads of the CPU; None is that of the settings.
        memory_limit: Bytes, or text such as "2GiB"; None is that of the settings.
    """

    _directions = ("decode",)

    @overload
    def decode(self, codes: Codes, *, noise: int | None = 0, out: OutT) -> OutT: ...
    @overload
    def decode(self, codes: Codes, *, noise: int | None = 0, out: None = None) -> Floats: ...
    def decode(self, codes: Codes, *, noise: int | None = 0, out: ArrayLike | None = None) -> Any:
        """Decodes a clip.

        Args:
            codes: Frames [n, slots], or one array for each level.
            noise: The seed of the decoder's noise, or None for none.
            out: Takes the samples: float32 [samples], an array or a CPU tensor in C order.

        Returns:
            float32 [samples], or `out`.
        """
        samples: Floats = self._decode([as_codes(codes)], noise, target(out))[0]
        return samples if out is None else out

    decode_async = twin(decode)

    def decode_batch(self, clips: Iterable[Codes], *, noise: int | None = 0) -> list[Floats]:
        """Decodes several clips together.

        Args:
            clips: The codes of each, as for `decode`.
            noise: As for `decode`.

        Returns:
            float32 [samples] for each, the same as those of the clip alone.
        """
        return self._decode([as_codes(codes) for codes in clips], noise, None)

    decode_batch_async = twin(decode_batch)

    def decode_row(self, rows: Dataset, index: int, *, noise: int | None = 0) -> Floats:
        """Decodes a row of a corpus, whose codes must be of this model.

        Args:
            rows: The corpus, as `melisma.dataset.open` gives it.
            index: The number of the row, from the end if it is negative.
            noise: As for `decode`.

        Returns:
            float32 [samples].
        """
        if not isinstance(rows, Dataset):
            raise TypeError(f"{type(rows).__name__} is not a Dataset")
        if "melisma.model" not in rows.attributes:
            raise value_error(f"{rows.path} is not a corpus of tokens", "build(..., Tokens(model=...)) makes one")
        self._check_stamp(rows.attributes["melisma.model"])
        codes, _text = rows[index]
        return self.decode(codes, noise=noise)

    def stream(
        self, *, noise: int | None = 0, format: Literal["auto", "orpheus", "ids"] = "auto"
    ) -> "StreamDecoder":
        """Returns a stream: samples leave as soon as no later frame can change them.

        Args:
            noise: As for `decode`.
            format: How text writes tokens: "orpheus", "ids", or "auto" to find out.

        Returns:
            The stream, at its start.
        """
        return StreamDecoder(self, noise=noise, format=format)


class StreamDecoder(_melisma.StreamDecoder):
    """One stream of a `Decoder`. Its samples are, bit for bit, those of decoding the whole clip.

    `finish` returns the last samples. `with` ends the stream at the end of the block, so call `finish` inside of it.

    Args:
        decoder: The decoder.
        noise: As for `Decoder.decode`.
        format: As for `Decoder.stream`.
    """

    def push(self, piece: Any) -> Floats:
        """Takes the next tokens.

        Args:
            piece: A str or bytes is text with `<custom_token_N>`, cut anywhere. An int or [n] integers are vocabulary
                ids. Frames [n, slots], and a sequence of levels, are codes.

        Returns:
            The samples that became final; often there are none.
        """
        if isinstance(piece, str | bytes):
            return self._push_text(piece.encode() if isinstance(piece, str) else piece)
        if isinstance(piece, int | numpy.integer):
            return self._push_text(b"%d " % int(piece))
        if isinstance(piece, list | tuple) and all(isinstance(id, int | numpy.integer) for id in piece):
            piece = numpy.array(piece, numpy.int64)
        if not isinstance(piece, list | tuple) and as_numpy(piece).ndim == 1:
            ids = integers(piece, "ids")
            return self._push_text(b"".join(b"%d " % id for id in ids.tolist()))
        return self._push_codes(as_codes(piece))

    def samples(self, pieces: Iterable[Any]) -> Iterator[Floats]:
        """Pushes every piece, then finishes the stream.

        Args:
            pieces: What `push` takes, one after the other.

        Returns:
            The samples, as they become final.
        """
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
    """Samples to codes.

    Args:
        model: As for `Decoder`.
        device: As for `Decoder`.
        threads: As for `Decoder`.
        memory_limit: As for `Decoder`.
    """

    _directions = ("encode",)

    def _at_rate(self, samples: ArrayLike, sample_rate: int | None) -> Floats:
        array = _mono(samples)
        if sample_rate is None or rate(sample_rate) == self.sample_rate:
            return array
        return resample(array, sample_rate, self.sample_rate)

    def encode(self, samples: ArrayLike, *, sample_rate: int | None = None) -> list[Integers]:
        """Encodes a clip, padded with silence to whole frames.

        Args:
            samples: [samples] or [1, samples].
            sample_rate: Their rate in Hz; another one than the model's is resampled. None is the model's.

        Returns:
            The codes, [n] for each level.
        """
        return self._encode([self._at_rate(samples, sample_rate)])[0]

    encode_async = twin(encode)

    def encode_batch(self, clips: Iterable[ArrayLike], *, sample_rate: int | None = None) -> list[list[Integers]]:
        """Encodes several clips together.

        Args:
            clips: The samples of each.
            sample_rate: As for `encode`.

        Returns:
            The codes of each, as `encode` gives them.
        """
        return self._encode([self._at_rate(samples, sample_rate) for samples in clips])

    encode_batch_async = twin(encode_batch)

    def to_text(self, codes: Codes, *, format: Literal["orpheus", "ids"] = "orpheus") -> str:
        """Returns the text of codes, as language models write them.

        Args:
            codes: Frames [n, slots], or one array for each level.
            format: "orpheus" or "ids".

        Returns:
            The tokens, one frame a line.
        """
        return self._text(as_codes(codes), format)

    def stream(self) -> "StreamEncoder":
        """Returns a stream: codes leave as soon as no later sample can change them.

        Returns:
            The stream, at its start.
        """
        return StreamEncoder(self)


class StreamEncoder(_melisma.StreamEncoder):
    """One stream of an `Encoder`. Its codes are those of encoding the whole clip.

    Args:
        encoder: The encoder.
    """

    def push(self, samples: ArrayLike) -> list[Integers]:
        """Takes the next samples.

        Args:
            samples: [samples] or [1, samples], at the model's rate.

        Returns:
            The codes that became final, [n] for each level.
        """
        return self._push(_mono(samples))
