"""usage: onnx.py MELISMA FOLDER RECORD: the test models of the `onnx` package through `melisma run`.

Every case passes, is refused with an error that says why, or fails; a crash and a wrong answer are failures.
"""

import collections
import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

melisma, folder, record = sys.argv[1:]
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)


def from_file(path, kind):
    data = open(path, "rb").read()
    if kind is not None and kind.WhichOneof("value") == "sequence_type":
        return [numpy_helper.to_array(tensor) for tensor in onnx.SequenceProto.FromString(data).tensor_values]
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def arrays(case, model, place):
    """The first set of inputs and outputs."""
    if case.data_sets:
        return case.data_sets[0]
    paths = lambda name: sorted(glob.glob(os.path.join(place, "test_data_set_0", name)), key=lambda p: int(re.findall(r"\d+", p)[-1]))
    types = {value.name: value.type for value in [*model.graph.input, *model.graph.output]}
    initial = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in initial]
    outputs = [value.name for value in model.graph.output]
    read = lambda pattern, names: [from_file(path, types.get(name)) for path, name in zip(paths(pattern), names)]
    return read("input_*.pb", inputs), read("output_*.pb", outputs)


def run(item):
    number, kind, case = item
    place = os.path.join(folder, str(number))
    os.makedirs(place)
    path = os.path.join(place, "model.onnx")
    model = case.model or onnx.load(os.path.join(case.model_dir, "model.onnx"))
    onnx.save(model, path)
    inputs, outputs = arrays(case, model, case.model_dir)
    plain = lambda value: isinstance(value, (numpy.ndarray, numpy.generic)) and numpy.asarray(value).dtype.kind in "fiub"
    if not all(plain(value) for value in [*inputs, *outputs]):
        return kind, case.name, "unsupported", "inputs or outputs that are not numeric arrays"
    initial = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in initial]
    command = [melisma, "run", path, "-o", os.path.join(place, "out"), "--device", "cpu", "--threads", "1", "--json", "--quiet"]
    for index, (name, value) in enumerate(zip(names, inputs)):
        file = os.path.join(place, f"{index}.npy")
        numpy.save(file, numpy.ascontiguousarray(value).reshape(numpy.shape(value)))
        command += ["--input", f"{name}={file}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return kind, case.name, "failed", "no answer in 120 s"
    if done.returncode != 0:
        line = (done.stderr.splitlines() or [""])[0]
        if done.returncode != 2 or not line.startswith("error: ") or "panicked" in done.stderr:
            return kind, case.name, "failed", f"exit code {done.returncode}: {done.stderr[-300:]}"
        return kind, case.name, "unsupported", line.removeprefix(f"error: {path}: ")
    found = [numpy.load(output["path"]) for output in json.loads(done.stdout)["outputs"]]
    for value, expected in zip(found, outputs):
        expected = numpy.asarray(expected)
        if value.dtype != expected.dtype or value.shape != expected.shape:
            return kind, case.name, "failed", f"{value.dtype}{value.shape} for {expected.dtype}{expected.shape}"
        if re.search("random|bernoulli|multinomial|training_dropout", case.name):
            continue
        # Sums are compared at the size of their terms; a value in the middle of two steps of 8 bits may go to either.
        finite = numpy.abs(expected[numpy.isfinite(expected)].astype(numpy.float64)) if expected.dtype.kind == "f" else numpy.zeros(0)
        atol = max(case.atol, 1e-6 * finite.max(initial=0.0))
        atol = 1 if "quantizelinear" in case.name and expected.dtype in (numpy.uint8, numpy.int8) else atol
        if not numpy.allclose(value, expected, rtol=case.rtol, atol=atol, equal_nan=True):
            difference = numpy.abs(value.astype(numpy.float64) - expected.astype(numpy.float64)).max()
            return kind, case.name, "failed", f"differs by {difference}"
    shutil.rmtree(place)
    return kind, case.name, "passed", ""


cases = []
for kind in ("node", "pytorch-converted", "pytorch-operator", "simple"):
    cases += [(kind, case) for case in load_model_tests(kind=kind)]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(run, [(number, *case) for number, case in enumerate(cases)]))

counts = collections.defaultdict(collections.Counter)
reasons = collections.Counter()
for kind, _, verdict, why in results:
    counts[kind][verdict] += 1
    if verdict == "unsupported":
        reasons[re.sub(r"`[^`]*`|\"[^\"]*\"|-?\d+", "...", why)] += 1
failures = [{"kind": kind, "name": name, "why": why} for kind, name, verdict, why in results if verdict == "failed"]
verdicts = ("passed", "unsupported", "failed")
report = {
    "package": f"onnx {onnx.__version__}",
    "engine": "rten",
    "counts": {kind: {verdict: counts[kind][verdict] for verdict in verdicts} for kind in counts},
    "total": {verdict: sum(counts[kind][verdict] for kind in counts) for verdict in verdicts},
    "unsupported": dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
    "failed": failures,
}
with open(record, "w") as file:
    json.dump(report, file, indent=1, sort_keys=False)
    file.write("\n")
print(json.dumps({"counts": report["counts"], "total": report["total"]}, indent=1))
for failure in failures:
    print(f"FAILED {failure['kind']} {failure['name']}: {failure['why']}")
sys.exit(1 if failures else 0)
