"""Text to speech: a language model whose tokens are frames of a codec.

A `Speaker` is the built-in voice, or a folder in the layout of Hugging Face and the SNAC model that it was trained
with. The same text, voice, settings and seed give the same samples, alone, as a stream or among others.

    speaker = speak.Speaker()                                       # the built-in voice
    speech = speaker.speak("Good morning!")
    audio.write("morning.wav", speech.samples, speech.sample_rate)

    orpheus = speak.Speaker("orpheus/", model="snac_24khz/")        # a model of yours
    laugh = orpheus.speak("Good morning! <laugh>", voice="leo")
"""

import dataclasses
import operator
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import numpy

from . import _melisma, _report
from ._array import Floats, Integers, number, value_error, word
from ._async import twin
from ._error import MelismaError
from ._feature import warn_of_spoken
from ._html import clip_html
from ._melisma import SpeechStream
from ._path import StrPath, path_of
from ._shard import index_of
from .audio import SampleFormat

__all__ = ["Estimate", "ListReport", "Sampling", "Speaker", "Speech", "SpeechStream"]

Text: TypeAlias = str | Mapping[str, Any]
"""A text, or a dict with `text` and, where wanted, `voice` and `seed`."""

_KEYS = frozenset({"text", "voice", "seed"})


class Sampling(TypedDict, total=False):
    """How tokens are drawn, in this order. What is left out is the model's own, `Speaker.defaults`.

    Args:
        repetition_penalty: Makes tokens of the recent past less likely; 1 is off.
        penalty_window: The recent past in tokens; None is prompt and speech.
        temperature: Above 1 evens the probabilities out; 0 takes the most likely token.
        top_k: Draws from so many of the most likely tokens; 0 is off.
        top_p: Draws from this share of the probability, most likely tokens first; 1 is off.
        min_p: Leaves out tokens below this share of the most likely one's probability; 0 is off.
        free: Draws from all tokens, not only those of the frame's current slot; tokens out of order are left out.
    """

    repetition_penalty: float | None
    penalty_window: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    free: bool


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Speech:
    """The speech of a text. `numpy.asarray` gives its samples; notebooks show a player and a spectrogram.

    Args:
        samples: float32 [samples].
        sample_rate: In Hz.
        codes: Its codes, int32 [n] for each level, as `snac.Decoder` takes them.
        ledger: The account of the tokens: accepted, rejected, resyncs, frames, concealed_frames, dropped_frames.
        notes: What a listener should know, such as a piece that the model did not end.
    """

    samples: Floats
    sample_rate: int
    codes: list[Integers]
    ledger: dict[str, int]
    notes: list[str]

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.sample_rate

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.typing.NDArray[Any]:
        return numpy.array(self.samples, dtype) if copy else numpy.asarray(self.samples, dtype)

    def _repr_html_(self) -> str:
        return clip_html(self.samples[None], self.sample_rate)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Estimate(_report.Report):
    """How fast texts will be spoken, from a few steps before the first.

    Args:
        real_time_factor: Seconds of work for a second of speech, all texts together.
        step_seconds: The time of a step, which draws a token for each text.
        texts_at_once: Texts of a list, or pieces of a text, that are spoken together.
        most_seconds: The time of all texts if none ends before its limit.
    """

    real_time_factor: float
    step_seconds: float
    texts_at_once: int
    most_seconds: float


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ListReport(_report.Report):
    """What `Speaker.speak_list` did.

    Args:
        texts: Texts that are spoken.
        texts_kept: Those of them that were there already.
        frames: Frames of tokens; of audio, those of this call only.
        samples: Samples of audio that this call has written.
        files: Names of the files in the folder of audio.
        failures: A dict for each line that failed, with `path`, as in list.jsonl:7, and `message`.
        notes: What a listener should know of single lines.
        expected: How fast the texts were expected to be spoken; None if none was left.
    """

    texts: int
    texts_kept: int
    frames: int
    samples: int
    files: list[str]
    failures: list[dict[str, Any]]
    notes: list[str]
    expected: Estimate | None


class Speaker(_melisma.Speaker):
    """A language model that speaks, and its codec.

    Args:
        voice_model: `builtin:voice`, or a folder with `config.json`, weights, `tokenizer.json`, and `speak.yaml` unless it
            is Orpheus; None is the built-in voice.
        model: Its codec: `builtin:mini24`, a folder with `config.json` and weights, or a file of weights beside
            `config.json`; None is `builtin:solo24` for the built-in voice and `builtin:mini24` for others.
        precision: That of the language model on a GPU: "fp32" refuses weights that are not bf16, "bf16" rounds weights,
            activations and cache, which is faster; None is that of the settings.
        normalise: Whether numbers, dates, abbreviations and the like are read out in words before the model sees a text;
            None is what the model's `speak.yaml` says, or the settings.
        device: `cpu`, `cuda` or `cuda:N`; None is that of the settings.
        threads: Threads of the CPU; None is that of the settings.
        memory_limit: Bytes, or text such as "2GiB"; None is that of the settings.
    """

    def speak(
        self,
        text: str,
        *,
        voice: str | None = None,
        seed: int = 0,
        speed: float = 1.0,
        noise: int | None = 0,
        **sampling: Unpack[Sampling],
    ) -> Speech:
        """Speaks a text.

        Args:
            text: What is spoken, of any length.
            voice: One of `voices`; None is the first.
            seed: The seed of the speech.
            speed: The speed at the same pitch, 0.25 to 4.
            noise: The seed of the codec's noise, or None for none.
            sampling: How tokens are drawn, see `Sampling`.

        Returns:
            Samples, codes, ledger and notes.
        """
        return self._speech(self._speak(word(text, "text"), as_which(voice, seed), as_manner(speed, noise, sampling)))

    speak_async = twin(speak)

    def stream(
        self,
        text: str,
        *,
        voice: str | None = None,
        seed: int = 0,
        speed: float = 1.0,
        noise: int | None = 0,
        **sampling: Unpack[Sampling],
    ) -> SpeechStream:
        """Speaks a text while it is read.

        Args:
            text: As for `speak`.
            voice: As for `speak`.
            seed: As for `speak`.
            speed: As for `speak`.
            noise: As for `speak`.
            sampling: As for `speak`.

        Returns:
            An iterator of samples, float32 [samples], as soon as they are final. Joined they are those of `speak`.
        """
        return self._stream(word(text, "text"), as_which(voice, seed), as_manner(speed, noise, sampling))

    def estimate(
        self, text: str, *, voice: str | None = None, seed: int = 0, **sampling: Unpack[Sampling]
    ) -> Estimate:
        """Times a few steps of a text, of which nothing is left.

        Args:
            text: As for `speak`.
            voice: As for `speak`.
            seed: As for `speak`.
            sampling: As for `speak`.

        Returns:
            How fast `speak` and `stream` will be.
        """
        manner = as_manner(1.0, 0, sampling)
        return Estimate(**self._estimate(word(text, "text"), as_which(voice, seed), manner))

    estimate_async = twin(estimate)

    def speak_all(
        self,
        texts: Iterable[Text],
        *,
        voice: str | None = None,
        seed: int = 0,
        speed: float = 1.0,
        noise: int | None = 0,
        **sampling: Unpack[Sampling],
    ) -> list[Speech | MelismaError]:
        """Speaks many texts in one batch. A text that cannot be spoken stops no other.

        Args:
            texts: Each is a str, or a dict with `text` and, where wanted, `voice` and `seed`.
            voice: The voice of texts without one.
            seed: The seed of texts without one.
            speed: As for `speak`.
            noise: As for `speak`.
            sampling: As for `speak`.

        Returns:
            For each text, in order, what `speak` gives alone, or the exception that it would raise.
        """
        if isinstance(texts, str):
            raise TypeError("texts: a str is one text; use a list of them")
        lines = [_line(f"texts[{index}]", text, voice, seed) for index, text in enumerate(texts)]
        found = self._speak_all(lines, as_manner(speed, noise, sampling))
        return [one if isinstance(one, MelismaError) else self._speech(one) for one in found]

    speak_all_async = twin(speak_all)

    def speak_list(
        self,
        texts: StrPath,
        output: StrPath,
        *,
        voice: str | None = None,
        seed: int = 0,
        speed: float = 1.0,
        noise: int | None = 0,
        sample_format: SampleFormat = "s16",
        format: Literal["codes", "orpheus"] = "codes",
        drop_repeats: bool = False,
        shard: tuple[int, int] = (1, 1),
        overwrite: bool = False,
        **sampling: Unpack[Sampling],
    ) -> ListReport:
        """Speaks the lines of a file in one batch, as `melisma speak --list` does. The same call again keeps what is
        there and speaks the rest, also after a kill.

        Args:
            texts: A file of JSON lines with `text` and, where wanted, `voice`, `seed` and `name`.
            output: A name without a suffix is a folder of audio, one that ends with .safetensors, .h5 or .jsonl a corpus
                of tokens.
            voice: The voice of lines without one; None is the first.
            seed: The seed of lines without one.
            speed: The speed of audio at the same pitch, 0.25 to 4.
            noise: The seed of the codec's noise in audio, or None for none.
            sample_format: That of audio.
            format: What a .jsonl file has in each line: "codes", or "orpheus" for the ids of its vocabulary.
            drop_repeats: Whether a .jsonl file leaves out frames that start like the frame before.
            shard: The number of this part of the list, counted from 1, and how many there are: (3, 8).
            overwrite: Whether what is there is spoken again.
            sampling: As for `speak`.

        Returns:
            Counts of texts, frames and samples, the lines that failed, notes, and how fast it was expected to be.
        """
        which = as_which(voice, seed)
        asked = {
            "list": path_of(texts), "output": path_of(output), "voice": which[0], "seed": which[1],
            "sample_format": word(sample_format, "sample_format"), "format": word(format, "format"),
            "drop_repeats": bool(drop_repeats), "shard": index_of(shard), "overwrite": bool(overwrite),
        }
        warn_of_spoken(self._builtin_codec, path_of(output))
        found = self._list(asked, as_manner(speed, noise, sampling))
        expected = found["expected"]
        return ListReport(**found | {"expected": None if expected is None else Estimate(**expected)})

    speak_list_async = twin(speak_list)

    def _speech(self, found: "_melisma._Spoken") -> Speech:
        samples, codes, ledger, notes = found
        return Speech(samples=samples, sample_rate=self.sample_rate, codes=codes, ledger=ledger, notes=notes)


def as_which(voice: object, seed: object, prefix: str = "") -> tuple[str | None, int]:
    """Returns a voice and a seed."""
    return None if voice is None else word(voice, f"{prefix}voice"), _to_integer(seed, f"{prefix}seed")


def _line(place: str, text: Text, voice: str | None, seed: int) -> tuple[str, str | None, int]:
    """Returns text, voice and seed of one of many texts."""
    if isinstance(text, str):
        return text, *as_which(voice, seed)
    if not isinstance(text, Mapping):
        raise TypeError(f"{place}: {type(text).__name__} is neither a str nor a dict")
    unknown = sorted(map(str, text.keys() - _KEYS))
    if unknown or "text" not in text:
        what = f"unknown key `{unknown[0]}`" if unknown else "`text` is missing"
        raise value_error(f"{place}: {what}", "the keys are text, voice and seed")
    own = text.get("voice")
    which = as_which(voice if own is None else own, text.get("seed", seed), f"{place}: ")
    return word(text["text"], f"{place}: text"), *which


def _to_integer(value: Any, what: str) -> int:
    """Returns a whole number that fits into 64 bits."""
    try:
        found = operator.index(value)
    except TypeError:
        raise TypeError(f"{what}: {type(value).__name__} is not a whole number") from None
    if not 0 <= found < 1 << 64:
        raise value_error(f"{what} is {value!r:.40}", "use a whole number from 0 to 2**64 - 1")
    return found


def as_manner(speed: float, noise: int | None, sampling: Sampling) -> "_melisma._Manner":
    """Returns how a text is spoken, as the native part takes it."""
    given: dict[str, Any] = dict(sampling)
    unknown = sorted(given.keys() - Sampling.__optional_keys__)
    if unknown:
        raise TypeError(f"unexpected argument `{unknown[0]}`; those of the sampler are {', '.join(Sampling.__annotations__)}")
    floats = {
        key: None if given.get(key) is None else number(given[key], key)
        for key in ("repetition_penalty", "temperature", "top_p", "min_p")
    }
    wholes = {
        key: None if given.get(key) is None else _to_integer(given[key], key) for key in ("top_k", "penalty_window")
    }
    return {
        "speed": number(speed, "speed"),
        "noise": None if noise is None else _to_integer(noise, "noise"),
        **floats,
        **wholes,
        "free": bool(given.get("free", False)),
    }
