"""A build on Ray with two workers beside the same build on one machine, and the driver's memory per file; or the
forecast of `melisma dataset plan` beside what two local workers take.

    python bench/cluster.py [--minutes 3] [--folder FOLDER]
    python bench/cluster.py --plan RECORD [--melisma PROGRAM] [--hours 100] [--folder FOLDER]

The first builds tokens with the built-in model. Ray is started before the clock. Memory is measured on files that are
refused, so that only lists count. The second builds spectrograms: two processes with one thread and one shard each,
then the merge. The clips repeat a few files through links, so they need little disk space; the results need it all.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy

from melisma import audio, dataset

RATE, SECONDS, DIFFERENT = 24_000, 20, 16
#: Runs the job in a process of its own, whose memory is that of the driver.
DRIVER = """
import json, resource, sys, time
import ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
import melisma.ray
ray.get(ray.remote(lambda: None).remote())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begun = time.perf_counter()
try:
    feature = getattr(melisma.ray, sys.argv[3])()
    report = melisma.ray.build(sys.argv[1], sys.argv[2], feature, retries=0, shards=json.loads(sys.argv[4]))
except melisma.ray.JobError as error:
    report = {"error": str(error)}
seconds = time.perf_counter() - begun
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": seconds, "driver_bytes": (after - before) * 1024, "rows": report.get("rows")}))
"""


def write_files(folder, count, rate=RATE):
    """`count` files, of which a few are different."""
    os.makedirs(folder)
    random = numpy.random.default_rng(1)
    for index in range(min(count, DIFFERENT)):
        samples = random.standard_normal(rate * SECONDS).astype("f4") / 8
        audio.write(os.path.join(folder, f"{index:07}.wav"), samples, rate)
    for index in range(DIFFERENT, count):
        os.symlink(os.path.join(folder, f"{index % DIFFERENT:07}.wav"), os.path.join(folder, f"{index:07}.wav"))


def on_ray(wavs, output, feature, shards=None):
    command = [sys.executable, "-c", DRIVER, wavs, output, feature, json.dumps(shards)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def alone(wavs, output):
    begun = time.perf_counter()
    dataset.build(wavs, output, dataset.Tokens(), device="cpu", threads=2, progress=False)
    return time.perf_counter() - begun


def memory(folder, counts):
    """The driver's growth per file, between two jobs whose files are all refused."""
    grown = []
    for count in counts:
        wavs = os.path.join(folder, f"names-{count}")
        os.makedirs(wavs)
        with open(os.path.join(wavs, "0.wav"), "wb") as file:
            file.write(b"RIFF")
        for index in range(1, count):
            os.symlink(os.path.join(wavs, "0.wav"), os.path.join(wavs, f"{index}.wav"))
        grown.append(on_ray(wavs, os.path.join(folder, f"names-{count}.h5"), "Mel", 4)["driver_bytes"])
        shutil.rmtree(wavs)
    return (grown[1] - grown[0]) / (counts[1] - counts[0])


def beside_the_plan(arguments):
    """Spectrograms by two processes, and what the plan says of them."""
    melisma = [arguments.melisma, "--device", "cpu"]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        wavs = os.path.join(folder, "wavs")
        count = int(arguments.hours * 3600 / SECONDS)
        write_files(wavs, count, 22_050)
        parts = [os.path.join(folder, f"part-{shard}.h5") for shard in (0, 1)]
        begun = time.perf_counter()
        builds = [
            subprocess.Popen([*melisma, "--threads", "1", "dataset", "build", wavs, "-o", part, "--shard", f"{shard + 1}/2"])
            for shard, part in enumerate(parts)
        ]
        if any([build.wait() for build in builds]):
            sys.exit("a build failed")
        built = time.perf_counter() - begun
        begun = time.perf_counter()
        subprocess.run([*melisma, "dataset", "merge", *parts, "-o", os.path.join(folder, "whole.h5")], check=True)
        merged = time.perf_counter() - begun
    plan = [*melisma, "dataset", "plan", "--hours", str(count * SECONDS / 3600), "--machine", arguments.plan, "--json"]
    forecast = json.loads(subprocess.run(plan, stdout=subprocess.PIPE, check=True).stdout)
    took = built + (0 if forecast["merge_seconds"] is None else merged)
    off = 100 * (forecast["seconds"] / took - 1)
    print(json.dumps({"build_seconds": built, "merge_seconds": merged, "forecast": forecast, "off_percent": off}, indent=2))
    if abs(off) > 15:
        sys.exit("the forecast is off by more than 15 %")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--names", type=int, default=200_000)
    parser.add_argument("--plan", default=None)
    parser.add_argument("--hours", type=float, default=100)
    parser.add_argument("--melisma", default="melisma")
    arguments = parser.parse_args()
    if arguments.plan is not None:
        return beside_the_plan(arguments)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        probe = os.path.join(folder, "probe")
        write_files(probe, DIFFERENT)
        seconds = alone(probe, os.path.join(folder, "probe.h5"))
        count = max(DIFFERENT, int(DIFFERENT * arguments.minutes * 60 / seconds) + 1)
        wavs = os.path.join(folder, "wavs")
        write_files(wavs, count)
        one, two = os.path.join(folder, "one.h5"), os.path.join(folder, "two.h5")
        plain = alone(wavs, one)
        ran = on_ray(wavs, two, "Tokens")
        with open(one, "rb") as first, open(two, "rb") as second:
            same = first.read() == second.read()
        per_file = memory(folder, (1_000, arguments.names))
    print(json.dumps({
        "files": count, "audio_hours": count * SECONDS / 3600, "two_threads_seconds": plain,
        "two_workers_seconds": ran["seconds"], "slower_percent": 100 * (ran["seconds"] / plain - 1), "same_bytes": same,
        "driver_bytes_per_file": per_file, "driver_peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }, indent=2))
    if not same or ran["seconds"] > 1.1 * plain or per_file > 300:
        sys.exit("a figure is missed: the same bytes, at most 10 % slower, at most 300 bytes of the driver per file")


if __name__ == "__main__":
    main()
