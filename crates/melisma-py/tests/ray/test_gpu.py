"""Workers with a GPU, or a part of one, make what one process with that GPU makes."""

import os
import tempfile
import unittest

import numpy
import ray

import melisma.ray
from jobs import digest
from melisma import audio, dataset, mel
from melisma.ray import Mel, Tokens, Workers


def finds_gpu():
    try:
        mel.Transform(device="cuda")
    except melisma.MelismaError:
        return "REQUIRE_CUDA" in os.environ
    return True


@unittest.skipUnless(finds_gpu(), "there is no GPU")
class Gpu(unittest.TestCase):
    def test_two_workers_share_a_gpu(self):
        with tempfile.TemporaryDirectory() as folder:
            wavs = os.path.join(folder, "wavs")
            os.mkdir(wavs)
            for index in range(12):
                samples = numpy.random.default_rng(index).standard_normal(24_000 * 3 + 700 * index, dtype="f4") / 8
                audio.write(os.path.join(wavs, f"{index:03}.wav"), samples, 24_000)
            ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False)
            self.addCleanup(ray.shutdown)
            for name, feature in {"mel.h5": Mel(segment=0.5), "tokens.safetensors": Tokens()}.items():
                alone, shared = os.path.join(folder, f"alone-{name}"), os.path.join(folder, f"shared-{name}")
                dataset.build(wavs, alone, feature, device="cuda", progress=False)
                workers = Workers(num_cpus=1, num_gpus=0.5)
                report = melisma.ray.build(wavs, shared, feature, workers=workers, shards=4)
                self.assertEqual((report["files_ok"], report["faults"], report["shards"]), (12, [], 4))
                self.assertEqual(digest(shared), digest(alone), name)


if __name__ == "__main__":
    unittest.main()
