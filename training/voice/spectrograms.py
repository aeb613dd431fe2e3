#!/usr/bin/env python3
"""Draws spectrograms of ten Harvard sentences: flite's slt, the same through solo24, and the built-in voice.

    spectrograms.py OUT.png [--melisma PROGRAM]

The programs melisma and flite must be installed, and PyPI's matplotlib. 80 mel bands up to 8 kHz, the loudest 80 dB. The
voice has its own settings and seed 0.
"""
import argparse, json, os, subprocess, tempfile

import matplotlib
import numpy

matplotlib.use("Agg")
from matplotlib import pyplot

TEACHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../golden/voice/teacher.jsonl")
SENTENCES = (0, 6, 12, 19, 25, 31, 38, 44, 50, 56)
COLUMNS = ("flite", "flite through solo24", "the voice")
RATE, HOP = 16_000, 160
MEL = dict(sample_rate=RATE, n_fft=1024, win_length=512, hop_length=HOP, n_mels=80, f_max=8000)


def read_aloud(melisma, row, folder):
    """Returns the audio files of a sentence, in the order of the columns."""
    flite, tokens, codec, voice = (os.path.join(folder, name) for name in ("flite.wav", "tokens.json", "codec.wav", "voice.wav"))
    subprocess.run(["flite", "-voice", "slt", "-t", row["text"], "-o", flite], check=True)
    with open(tokens, "w") as file:
        json.dump({"codes": row["codes"]}, file)
    subprocess.run([melisma, "decode", tokens, "-o", codec, "--model", "builtin:solo24", "-q"], check=True)
    subprocess.run([melisma, "speak", row["text"], "-o", voice, "--seed", "0", "-q"], check=True)
    return flite, codec, voice


def decibels(melisma, path):
    """Returns the spectrogram of an audio file, [bands, frames]."""
    settings = [word for key, value in MEL.items() for word in ("--set", f"{key}={value}")]
    subprocess.run([melisma, "mel", path, "-o", path + ".npy", "--preset", "librosa-db", *settings, "-q"], check=True)
    return numpy.load(path + ".npy")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--melisma", default="melisma")
    arguments = parser.parse_args()
    with open(TEACHER) as file:
        rows = [json.loads(line) for line in file]
    figure, axes = pyplot.subplots(len(SENTENCES), len(COLUMNS), figsize=(8, 11), sharex="row", layout="constrained")
    for line, number in zip(axes, SENTENCES):
        with tempfile.TemporaryDirectory() as folder:
            files = read_aloud(arguments.melisma, rows[number], folder)
            pictures = [decibels(arguments.melisma, path) for path in files]
        for axis, picture in zip(line, pictures):
            seconds = picture.shape[1] * HOP / RATE
            axis.imshow(picture, origin="lower", aspect="auto", cmap="magma", extent=(0, seconds, 0, len(picture)))
            axis.set_yticks([])
            axis.tick_params(labelsize=5)
        line[0].set_xlim(0, max(picture.shape[1] for picture in pictures) * HOP / RATE)
        line[0].set_ylabel(rows[number]["text"][:24] + "...", fontsize=5)
    for axis, title in zip(axes[0], COLUMNS):
        axis.set_title(title, fontsize=8)
    figure.savefig(arguments.out, dpi=100)


if __name__ == "__main__":
    main()
