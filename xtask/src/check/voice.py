"""The built-in voice beside its teacher, flite's `slt`.

usage: voice.py MELISMA GOLDEN FOLDER [VOICE CODEC]    # a folder of a voice and one of its codec, in place of those built in

Harvard lists 1 to 6 with seeds 0 to 4: the words that pocketsphinx misses, and DNSMOS, beside the teacher's own speech
through the codec. Then the lengths of 1,000 texts: lists 1 to 72, and pairs of them.
"""

import importlib.util
import json
import multiprocessing
import os
import re
import subprocess
import sys
import wave

import numpy as np
import onnxruntime
from pocketsphinx import Decoder
from scipy.signal import resample_poly

SEEDS, N_HARVARD, N_TEXTS = range(5), 60, 1000
# Word errors of the voice by those of the teacher through the codec, and of the latter by those of the teacher itself.
MOST_ERRORS, MOST_CODEC_ERRORS = 1.25, 1.5
# What the voice's DNSMOS may lose to the teacher's through the codec.
MOST_LOSS = 0.05
LENGTHS = (0.7, 1.4)
RATE = 16_000
# DNSMOS rates 9.01 s of 16 kHz; its overall score is a polynomial of the model's third output.
WINDOW, OVERALL = 144_160, np.poly1d([-0.06766283, 1.11546468, 0.04602535])


def run(*command):
    """Returns what the command says beside its output."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)
    return done.stderr


def read(path):
    """Returns samples at 16 kHz."""
    with wave.open(path) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        return samples if file.getframerate() == RATE else resample_poly(samples, RATE, file.getframerate())


def seconds(path):
    with wave.open(path) as file:
        return file.getnframes() / file.getframerate()


def words(text):
    return re.findall(r"[a-z']+", text.lower())


def distance(said, heard):
    """Returns the least insertions, deletions and replacements."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1]


def start_ears():
    global EARS, RATER
    EARS = Decoder(samprate=RATE, loglevel="FATAL")
    package = importlib.util.find_spec("speechmos").submodule_search_locations[0]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = os.path.join(package, "dnsmos_models", "sig_bak_ovr.onnx")
    RATER = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def judge(job):
    """Returns word errors, words, and DNSMOS of a file; a short one repeats, as DNSMOS' own script has it."""
    text, path = job
    samples, said = read(path), words(text)
    pause = np.zeros(RATE // 5)
    heard = np.clip(np.concatenate([pause, samples, pause]), -1, 1) * 32767
    EARS.start_utt()
    EARS.process_raw(heard.astype("<i2").tobytes(), full_utt=True)
    EARS.end_utt()
    hypothesis = EARS.hyp()
    errors = distance(said, words(hypothesis.hypstr) if hypothesis else [])
    looped = np.tile(samples, -(-WINDOW // len(samples)))[:WINDOW].astype(np.float32)
    return errors, len(said), OVERALL(RATER.run(None, {"input_1": looped[None]})[0][0][2])


def measure(pool, name, jobs):
    """Prints and returns the word error rate and DNSMOS of files."""
    errors, n_words, scores = zip(*pool.imap_unordered(judge, jobs, chunksize=4))
    rate, score = sum(errors) / sum(n_words), float(np.mean(scores))
    print(f"{name}: word error rate {rate:.3f}, DNSMOS {score:.2f}, {len(jobs)} files", flush=True)
    return rate, score


def speak_list(program, folder, rows, options):
    """Speaks rows of a list into `folder`; none may end with a note."""
    listed = folder + ".jsonl"
    with open(listed, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    said = run(program, "speak", "--list", listed, "-o", folder, "-f", *options)
    assert "note: line" not in said, said


def main(program, golden, folder, *own):
    os.chdir(folder)
    voice = ["--voice-model", own[0], "--model", own[1]] if own else []
    codec = own[1] if own else "builtin:solo24"
    with open(os.path.join(golden, "harvard.txt")) as file:
        harvard = file.read().splitlines()
    with open(os.path.join(golden, "teacher.jsonl")) as file:
        teacher = [json.loads(line) for line in file]
    assert [row["text"] for row in teacher] == harvard[:N_HARVARD]
    pairs = [f"{harvard[7 * n % 720]} {harvard[(7 * n + 11) % 720]}" for n in range(N_TEXTS - len(harvard))]
    texts = harvard + pairs
    os.makedirs("raw")
    os.makedirs("codec")
    with multiprocessing.Pool(initializer=start_ears) as pool:
        read_aloud = [pool.apply_async(run, ("flite", "-voice", "slt", "-t", text.lower(), "-o", f"raw/{n}.wav"))
                      for n, text in enumerate(texts)]
        for n, row in enumerate(teacher):
            with open("tokens.json", "w") as file:
                json.dump({"codes": row["codes"]}, file)
            run(program, "decode", "tokens.json", "-o", f"codec/{n}.wav", "--model", codec)
        rows = [{"text": text, "seed": seed, "name": f"{n}-{seed}"} for seed in SEEDS for n, text in enumerate(harvard[:N_HARVARD])]
        speak_list(program, "spoken", rows, voice)
        [job.get() for job in read_aloud]
        raw, _ = measure(pool, "flite", [(text, f"raw/{n}.wav") for n, text in enumerate(harvard[:N_HARVARD])])
        through, through_score = measure(pool, "flite through the codec", [(row["text"], f"codec/{n}.wav") for n, row in enumerate(teacher)])
        spoken, score = measure(pool, "the voice", [(row["text"], f"spoken/{row['name']}.wav") for row in rows])
    print(f"codec by flite {through / raw:.2f}, voice by codec {spoken / through:.2f}, DNSMOS {score - through_score:+.2f}", flush=True)
    speak_list(program, "texts", [{"text": text, "name": str(n)} for n, text in enumerate(texts)], voice)
    ratios = [seconds(f"texts/{n}.wav") / seconds(f"raw/{n}.wav") for n in range(len(texts))]
    print(f"lengths of {len(texts)} texts by flite's: {min(ratios):.2f} to {max(ratios):.2f}, mean {np.mean(ratios):.2f}")
    strange = [text for text, ratio in zip(texts, ratios) if not LENGTHS[0] <= ratio <= LENGTHS[1]]
    assert not strange, f"{len(strange)} texts end early or late: {strange[:5]}"
    assert through <= MOST_CODEC_ERRORS * raw, "the codec loses too many words"
    assert spoken <= MOST_ERRORS * through, "the voice loses too many words"
    assert score >= through_score - MOST_LOSS, "the voice sounds worse than the teacher through the codec"


if __name__ == "__main__":
    main(*sys.argv[1:])
