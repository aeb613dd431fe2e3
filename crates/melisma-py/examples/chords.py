"""Renders a labelled training set of chords: python chords.py FOLDER [COUNT]"""

import json
import pathlib
import random
import sys

from melisma import audio, synth

CHORDS = {"major": (0, 4, 7), "minor": (0, 3, 7), "dominant seventh": (0, 4, 7, 10), "suspended": (0, 5, 7)}

folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8
folder.mkdir(parents=True, exist_ok=True)
rng = random.Random(7)
for index in range(count):
    name, root = rng.choice(list(CHORDS)), rng.randrange(48, 60)
    instrument = rng.choice(["pad", "pluck", "lead"])
    notes = [synth.Note(instrument, 0, 1.5, root + step, rng.uniform(0.5, 0.9)) for step in CHORDS[name]]
    samples = synth.render(synth.Score(notes=notes), seconds=2, rate=22050)
    audio.write(folder / f"{index:04}.wav", samples, 22050)
    label = {"chord": name, "root": root, "instrument": instrument}
    (folder / f"{index:04}.json").write_text(json.dumps(label))
print(f"{count} chords in {folder}")
