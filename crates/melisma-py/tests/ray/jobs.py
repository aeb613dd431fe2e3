"""What the tests of jobs share: audio files, folders, and a driver in a process of its own."""

import hashlib
import os
import subprocess
import sys

import numpy

from melisma import audio

RATE = 22_050


def write_files(folder, count, seconds=1.0):
    """Tones of different pitch and length."""
    os.makedirs(folder, exist_ok=True)
    for index in range(count):
        samples = numpy.sin(numpy.arange(int(RATE * seconds) + 700 * (index % 7)) / (5 + index)) * 0.5
        audio.write(os.path.join(folder, f"{index:03}.wav"), samples.astype("f4"), RATE)


def digest(path):
    """The hash of a file, or of all files of a folder."""
    hasher = hashlib.sha256()
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            hasher.update(name.encode() + digest(os.path.join(path, name)).encode())
    else:
        with open(path, "rb") as file:
            hasher.update(file.read())
    return hasher.hexdigest()


def start_driver(address, code):
    """Runs `code` in another process that is connected to the cluster."""
    connect = f"ray.init(address={address!r}, log_to_driver=False)"
    program = f"import ray\n{connect}\nimport melisma.ray\n{code}\n"
    return subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
