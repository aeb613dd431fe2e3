"""FluidSynth on a MIDI file, to a WAV file: CPU seconds per minute of sound.

Arguments: the MIDI file, samples per second. The SoundFont is that of MELISMA_SOUNDFONT, else the first of the system's.
"""

import glob
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import wave

program = shutil.which("fluidsynth")
if program is None:
    sys.exit("No program named 'fluidsynth'")
fonts = [os.environ["MELISMA_SOUNDFONT"]] if "MELISMA_SOUNDFONT" in os.environ else sorted(glob.glob("/usr/share/sounds/sf2/*.sf2"))
if not fonts:
    sys.exit("no SoundFont: apt install fluid-soundfont-gm, or set MELISMA_SOUNDFONT")
said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
version = re.search(r"\d+\.\d+\.\d+", said)
figures = []
with tempfile.TemporaryDirectory() as folder:
    out = os.path.join(folder, "out.wav")
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [program, "-ni", "-q", "-T", "wav", "-F", out, "-r", sys.argv[2], fonts[0], sys.argv[1]]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        with wave.open(out) as sound:
            minutes = sound.getnframes() / sound.getframerate() / 60
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        figures.append(used / minutes)
print(json.dumps({f"FluidSynth {version.group(0) if version else ''}".strip(): sorted(figures)[1]}))
