"""Peers of `melisma bench mel`: log-mel spectrograms of ten-second clips in memory.

usage: mel.py numpy | torchaudio | librosa | torchaudio-cuda | flashmel | torchaudio-autocast, then THREADS
The last line of output is one JSON object {"N_FFT-HOP": million frames a second}, the better of single clips and batches.
"""

import json
import sys

SHAPES = [(1024, 256, 22050), (400, 160, 16000)]


def frames(rate, hop):
    return 1 + rate * 10 // hop


def numpy_cpu(threads):
    numpy = numpy_on(threads)

    def filterbank(rate, n_fft, n_mels=80):
        top = 2595 * numpy.log10(1 + rate / 2 / 700)
        low, middle, high = (700 * (10 ** (numpy.linspace(0, top, n_mels + 2) / 2595) - 1)[i : i + n_mels] for i in range(3))
        bins = numpy.fft.rfftfreq(n_fft, 1 / rate)[:, None]
        slopes = numpy.minimum((bins - low) / (middle - low), (high - bins) / (high - middle))
        return numpy.maximum(slopes, 0).astype("f4")

    rows = {}
    for n_fft, hop, rate in SHAPES:
        window, bank = numpy.hanning(n_fft + 1)[:-1].astype("f4"), filterbank(rate, n_fft)
        clips = numpy.random.default_rng(1).integers(-8000, 8000, (4, rate * 10), dtype="i2")

        def run(batch):
            samples = numpy.pad(batch * numpy.float32(1 / 32768), ((0, 0), (n_fft // 2, n_fft // 2)), mode="reflect")
            blocks = numpy.lib.stride_tricks.sliding_window_view(samples, n_fft, axis=1)[:, ::hop]
            spectrum = numpy.fft.rfft(blocks * window)
            m = (spectrum.real**2 + spectrum.imag**2) @ bank
            return (20 * numpy.log10(numpy.maximum(m, numpy.float32(1e-10)))).astype("f2")

        assert run(clips[:1]).shape == (1, frames(rate, hop), 80)
        best = max(n * frames(rate, hop) / median_seconds(lambda: run(clips[:n])) for n in (1, 4))
        rows[f"{n_fft}-{hop}"] = best / 1e6
    return rows


def torchaudio_cpu(threads):
    import torch
    import torchaudio

    torch.set_num_threads(threads)
    rows = {}
    with torch.inference_mode():
        for n_fft, hop, rate in SHAPES:
            mel = torchaudio.transforms.MelSpectrogram(rate, n_fft, hop_length=hop, n_mels=80)
            clips = torch.randint(-8000, 8000, (16, rate * 10), dtype=torch.int16)

            def run(batch):
                m = mel(batch.float().mul_(1 / 32768))
                return m.clamp_min_(1e-10).log10_().mul_(20).half()

            best = max(n * frames(rate, hop) / median_seconds(lambda: run(clips[:n])) for n in (1, 4, 16))
            rows[f"{n_fft}-{hop}"] = best / 1e6
    return rows


def librosa_cpu(threads):
    import librosa
    import numpy

    rows = {}
    for n_fft, hop, rate in SHAPES:
        clip = numpy.random.default_rng(1).standard_normal(rate * 10).astype(numpy.float32) * 0.1

        def run():
            m = librosa.feature.melspectrogram(y=clip, sr=rate, n_fft=n_fft, hop_length=hop, n_mels=80, htk=True, norm=None)
            return (20 * numpy.log10(numpy.maximum(m, 1e-10))).astype(numpy.float16)

        rows[f"{n_fft}-{hop}"] = frames(rate, hop) / median_seconds(run) / 1e6
    return rows


def on_cuda(make, n_clips=512):
    import torch

    rows = {}
    with torch.inference_mode():
        for n_fft, hop, rate in SHAPES:
            clips = torch.randint(-8000, 8000, (n_clips, rate * 10), dtype=torch.int16, device="cuda")
            work = make(n_fft, hop, rate)

            def run():
                work(clips)
                torch.cuda.synchronize()

            rows[f"{n_fft}-{hop}"] = n_clips * frames(rate, hop) / median_seconds(run) / 1e6
    return rows


def torchaudio_cuda(_):
    import torchaudio

    def make(n_fft, hop, rate):
        mel = torchaudio.transforms.MelSpectrogram(rate, n_fft, hop_length=hop, n_mels=80).cuda()
        return lambda clips: mel(clips.float().mul_(1 / 32768)).clamp_min_(1e-10).log10_().mul_(20).half()

    return on_cuda(make)


def torchaudio_autocast(_):
    import torch
    import torchaudio

    def make(n_fft, hop, rate):
        mel = torchaudio.transforms.MelSpectrogram(rate, n_fft, hop_length=hop, n_mels=80).cuda()

        def run(clips):
            with torch.autocast(device_type="cuda", dtype=torch.float16):
                m = mel(clips.float().mul_(1 / 32768))
            return m.float().clamp_min_(1e-10).log10_().mul_(20).to(torch.float16)

        return run

    return on_cuda(make)


def flashmel_cuda(_):
    import flashmel

    def make(n_fft, hop, rate):
        mel = flashmel.MelSpectrogram(rate, n_fft, hop_length=hop, n_mels=80).cuda()
        return lambda clips: mel(clips).clamp_min_(1e-10).log10_().mul_(20).half()

    return on_cuda(make)


PARTS = {
    "numpy": numpy_cpu,
    "torchaudio": torchaudio_cpu,
    "librosa": librosa_cpu,
    "torchaudio-cuda": torchaudio_cuda,
    "flashmel": flashmel_cuda,
    "torchaudio-autocast": torchaudio_autocast,
}
print(json.dumps(PARTS[sys.argv[1]](int(sys.argv[2]))))
