"""Makes speech, music and the codes that the package `snac` gives them.

espeak-ng 1.51 speaks our own sentences; `melisma` is a build of this repository.
python -m venv venv && venv/bin/pip install snac==1.2.1 torch==2.15.0 numpy==2.4.6 safetensors==0.8.0
venv/bin/python make.py path/to/melisma

`expected.safetensors` has for each clip and model, and each level of codes: the code, the second nearest one, and by
how much its distance is larger, relative to itself. Distances are computed in f64 from the package's FP32 vectors.
"""

import json
import subprocess
import sys
import tempfile
import wave
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save
from snac import SNAC

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MODELS = {
    "tiny24": (24_000, HERE.parent / "tiny24"),
    "mini24": (24_000, ROOT / "crates/melisma-models/mini24"),
    "tiny44": (44_100, HERE.parent / "tiny44"),
}
CENTRED = ("tiny24", "tiny44")
SENTENCES = [
    ("en-us", 165, "Seven small boats cross the harbour."),
    ("en-gb+f3", 180, "She whistles while the kettle boils."),
    ("de+m4", 170, "Zwei Krähen zanken sich am Zaun."),
    ("fr+f2", 175, "Un chat gris dort près du feu."),
]
# Seconds of speech and of music at each rate.
SECONDS = {24_000: (5.6, 2.0), 44_100: (2.2, 1.4)}


def read(path):
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16).reshape(-1, file.getnchannels())
        return samples.mean(axis=1) / 32768, file.getframerate()


def write(path, samples, rate):
    quantised = np.round(np.clip(samples, -1, 1) * 32767).astype(np.int16)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(quantised.tobytes())
    return quantised.astype(np.float32) / 32768


def resampled(samples, rate, wanted):
    """The band up to the lower Nyquist frequency, by one Fourier transform over the clip."""
    n = round(len(samples) * wanted / rate)
    spectrum = np.fft.rfft(samples)
    kept = np.zeros(n // 2 + 1, complex)
    width = min(len(kept), len(spectrum))
    kept[:width] = spectrum[:width]
    return np.fft.irfft(kept, n) * n / len(samples)


def speech(folder, rate, seconds):
    """Equal parts of each sentence."""
    part = round(seconds * rate / len(SENTENCES))
    said = []
    for index, (voice, words_per_minute, sentence) in enumerate(SENTENCES):
        path = folder / f"{index}.wav"
        subprocess.run(["espeak-ng", "-v", voice, "-s", str(words_per_minute), "-w", path, sentence], check=True)
        samples = resampled(*read(path), rate)[:part]
        said.append(np.pad(samples, (0, part - len(samples))))
    return np.concatenate(said)


def music(melisma, folder, rate, seconds):
    path = folder / "music.wav"
    flags = ["--rate", str(rate), "--seconds", "8", "--seed", "7", "--force", "--quiet", "--device", "cpu"]
    subprocess.run([melisma, "synth", "preset:bright", "-o", path, *flags], check=True)
    samples, _ = read(path)
    begin = 4 * rate
    return samples[begin : begin + round(seconds * rate)]


def chosen(model, samples):
    """Codes, second nearest codes and relative margins of each level."""
    found = []
    unit = lambda rows: torch.nn.functional.normalize(rows.double())
    residual = model.encoder(model.preprocess(torch.from_numpy(samples)[None, None]))
    for quantizer in model.quantizer.quantizers:
        pooled = torch.nn.functional.avg_pool1d(residual, quantizer.stride, quantizer.stride)
        cosines = unit(quantizer.in_proj(pooled)[0].T) @ unit(quantizer.codebook.weight).T
        distances = 2 - 2 * cosines
        decoded, codes = quantizer(residual)
        own = distances.gather(1, codes.T)
        second, at = distances.scatter(1, codes.T, torch.inf).min(1)
        found.append((codes[0], at, (second - own[:, 0]) / second))
        residual = residual - decoded
    for (codes, _, _), level in zip(found, model.encode(torch.from_numpy(samples)[None, None])):
        assert torch.equal(codes, level[0])
    return found


def opened(folder):
    model = SNAC(**json.loads((folder / "config.json").read_text())).eval()
    model.load_state_dict({name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()})
    return model.requires_grad_(False)


def centre(model, clips):
    """Moves the biases of the projections so that the projected clips have mean 0 on every level.

    The biases of random weights outweigh the sound: nearly every latent would get the same code.
    """
    latents = [model.encoder(model.preprocess(torch.from_numpy(samples)[None, None])) for samples in clips]
    for quantizer in model.quantizer.quantizers:
        stride = quantizer.stride
        pooled = torch.cat([torch.nn.functional.avg_pool1d(latent, stride, stride) for latent in latents], -1)
        quantizer.in_proj.bias -= quantizer.in_proj(pooled).mean((0, 2))
        latents = [latent - quantizer(latent)[0] for latent in latents]
    return {f"quantizers.{level}.in_proj.bias": q.in_proj.bias for level, q in enumerate(model.quantizer.quantizers)}


def main(melisma):
    torch.set_num_threads(1)
    sounds = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for rate, (speech_s, music_s) in SECONDS.items():
            clips = {"speech": speech(folder, rate, speech_s), "music": music(melisma, folder, rate, music_s)}
            sounds[rate] = {name: write(HERE / f"{name}_{rate}.wav", clip, rate) for name, clip in clips.items()}
    expected = {}
    for model_name, (rate, weights) in MODELS.items():
        model = opened(weights)
        if model_name in CENTRED:
            biases = centre(model, sounds[rate].values())
            expected |= {f"{model_name}.{name}": bias.clone() for name, bias in biases.items()}
        for name, samples in sounds[rate].items():
            for level, (codes, second, margin) in enumerate(chosen(model, samples)):
                key = f"{name}.{model_name}.{level}"
                expected[f"{key}.codes"] = codes.to(torch.int32)
                expected[f"{key}.second"] = second.to(torch.int32)
                expected[f"{key}.margin"] = margin.to(torch.float32)
                print(key, len(codes), "codes,", len(codes.unique()), "different, least margin", float(margin.min()))
    (HERE / "expected.safetensors").write_bytes(save(expected))


if __name__ == "__main__":
    main(sys.argv[1])
