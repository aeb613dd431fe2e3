"""On a GPU: weights decoded there, tensors of torch and arrays of other packages in its memory, every room's device."""

import gc
import os
import tempfile
import unittest
import unittest.mock

import numpy
import safetensors.torch
import torch

from melisma import MemoryTracker, TensorOptimizer, TensorRTOptimizer, apply_tensor_optimizations, audio, dataset, mel, optimize, pack, snac, synth

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../golden")
HAS_GPU = torch.cuda.is_available() or "REQUIRE_CUDA" in os.environ


def noise(n_samples, seed=0):
    return numpy.random.default_rng(seed).standard_normal(n_samples, dtype="f4") / 8


class Shared:
    """A CUDA tensor of which only DLPack is known."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


@unittest.skipUnless(HAS_GPU, "torch finds no GPU")
class Weights(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "x.safetensors")
        self.tensors = {
            "bf16": torch.randn(3000, 700).bfloat16(),
            "f16": torch.randn(129, 65).half(),
            "f32": torch.randn(3, 4, 5),
            "f8": torch.randn(64).to(torch.float8_e4m3fn),
            "whole": torch.arange(-9, 9),
            "flag": torch.tensor(True),
            "empty": torch.zeros(0, 3),
        }

    def assert_same(self, loaded):
        self.assertEqual(loaded.keys(), self.tensors.keys())
        for name, tensor in self.tensors.items():
            found = loaded[name]
            self.assertEqual((found.device, found.dtype, found.shape), (torch.device("cuda:0"), tensor.dtype, tensor.shape), name)
            self.assertTrue(torch.equal(found.cpu().view(-1).view(torch.uint8), tensor.view(-1).view(torch.uint8)), name)

    def test_packed_and_plain_files(self):
        pack.save_file(self.tensors, self.path)
        for device in ["cuda", "cuda:0", torch.device("cuda")]:
            self.assert_same(pack.load_to_device(self.path, device))
        safetensors.torch.save_file(self.tensors, self.path)
        self.assert_same(pack.load_to_device(self.path))

    def test_one_tensor_keeps_the_memory_and_the_last_frees_it(self):
        self.tensors["bf16"] = torch.randn(8192, 8192).bfloat16()
        pack.save_file(self.tensors, self.path)
        pack.load_to_device(self.path)
        gc.collect()
        before = torch.cuda.mem_get_info()[0]
        loaded = pack.load_to_device(self.path)
        kept = loaded["bf16"]
        del loaded
        gc.collect()
        self.assertTrue(torch.equal(kept.cpu(), self.tensors["bf16"]))
        self.assertLess(torch.cuda.mem_get_info()[0], before - (100 << 20))
        del kept
        gc.collect()
        self.assertGreater(torch.cuda.mem_get_info()[0], before - (16 << 20))

    def test_a_damaged_file(self):
        pack.save_file(self.tensors, self.path)
        with open(self.path, "r+b") as file:
            file.seek(-2_000, os.SEEK_END)
            byte = file.read(1)
            file.seek(-2_000, os.SEEK_END)
            file.write(bytes([byte[0] ^ 0x40]))
        with self.assertRaisesRegex(ValueError, "x.safetensors"):
            pack.load_to_device(self.path)


@unittest.skipUnless(HAS_GPU, "torch finds no GPU")
class Inputs(unittest.TestCase):
    def test_tensors_of_the_gpu_give_tensors_of_the_gpu(self):
        samples = torch.sin(torch.arange(22_050, device="cuda") / 9)
        for found, expected in [
            (mel.spectrogram(samples), mel.spectrogram(samples.cpu())),
            (mel.spectrogram(samples.bfloat16()), mel.spectrogram(samples.cpu().bfloat16())),
            (audio.resample(samples, 22_050, 16_000), audio.resample(samples.cpu(), 22_050, 16_000)),
            (snac.populate(torch.arange(28, device="cuda"))[2], snac.populate(torch.arange(28))[2]),
        ]:
            self.assertEqual((found.device.type, found.dtype), ("cuda", expected.dtype))
            self.assertTrue(torch.equal(found.cpu(), expected))
        with self.assertRaisesRegex(ValueError, "out: numpy cannot share a tensor of torch.float16 on cuda:0"):
            mel.spectrogram(samples, out=torch.zeros(80, 87, dtype=torch.float16, device="cuda"))

    def test_population_stays_on_the_gpu(self):
        for n in [1, 4, 8, 28]:
            codes = torch.arange(7 * n, device="cuda", dtype=torch.int32) * 31 % 4096
            with unittest.mock.patch.object(torch.Tensor, "cpu", side_effect=AssertionError("copied to the host")):
                levels = snac.populate(codes)
                self.assertEqual(snac.validate(codes), (True, True, True))
            for found, expected in zip(levels, snac.populate(codes.cpu()), strict=True):
                self.assertEqual((found.device.type, found.dtype), ("cuda", torch.int32))
                self.assertTrue(torch.equal(found.cpu(), expected))
            codes[-1] = 4096
            self.assertEqual(snac.validate(codes), (True, True, False))
            with self.assertRaisesRegex(ValueError, f"frame {n - 1}, slot 6: code 4096"):
                snac.populate(codes)

    def test_voices_of_the_gpu(self):
        pitches = torch.tensor([48.0, 60.5, 72.0], device="cuda")
        rows = synth.voices(pitches, instrument="pad", seconds=0.5)
        self.assertEqual(rows.device.type, "cuda")
        expected = synth.voices([48.0, 60.5, 72.0], instrument="pad", seconds=0.5)
        numpy.testing.assert_allclose(rows.cpu(), expected, atol=1e-5)
        alone = synth.voices([60.5], instrument="pad", seconds=0.5, device="cuda")
        numpy.testing.assert_array_equal(alone[0], rows[1].cpu())
        score = synth.Score(notes=[synth.Note("lead", 0.0, 0.2, 60, 0.8)])
        for found in synth.render_all([score] * 3, seconds=0.5, device="cuda"):
            numpy.testing.assert_array_equal(found, synth.render(score, seconds=0.5, device="cuda"))

    def test_memory_of_torch_on_the_gpu(self):
        tracker = MemoryTracker()
        torch.zeros(1, device="cuda")
        before = torch.cuda.memory_allocated()
        with tracker.track("torch"):
            torch.zeros(25_000_000, device="cuda")
        with tracker.track("melisma"):
            snac.Decoder(device="cuda")
        scopes = tracker.scopes()
        self.assertLess(abs(scopes["torch"]["torch_peak"] - before - 100e6), 10e6)
        self.assertGreater(scopes["melisma"]["device_peak"], 1 << 20)

    def test_what_shares_its_memory_by_dlpack(self):
        samples = torch.sin(torch.arange(22_050, device="cuda") / 9)
        expected = mel.spectrogram(samples.cpu().numpy())
        numpy.testing.assert_array_equal(mel.spectrogram(Shared(samples)), expected)
        try:
            import cupy
        except ImportError:
            return
        numpy.testing.assert_array_equal(mel.spectrogram(cupy.from_dlpack(samples)), expected)

    def test_the_tensor_guide(self):
        config = {"mixed_precision": True, "memory_efficient": True, "use_tensorrt": True}
        optimizer = TensorOptimizer(config)
        model = torch.nn.Linear(1000, 10).cuda()
        given = torch.randn(20, 1000, device="cuda", requires_grad=True)
        lowered = optimizer.optimize_tensor(given, dtype="float16")
        with optimizer.mixed_precision_context():
            result = model(lowered)
        self.assertEqual((result.device.type, result.dtype, result.requires_grad), ("cuda", torch.float16, False))
        torch.testing.assert_close(result.float(), model(given).detach(), atol=0.02, rtol=0.02)
        decorated = apply_tensor_optimizations(config)(lambda x: model(x))
        self.assertEqual((decorated(given).device.type, decorated(given).dtype), ("cuda", torch.float32))


@unittest.skipUnless(HAS_GPU, "torch finds no GPU")
class Rooms(unittest.TestCase):
    """The CPU's numbers within the tolerances of the rooms."""

    def test_codec(self):
        codes = numpy.random.default_rng(0).integers(0, 4096, (40, 7), dtype="i4")
        here, there = snac.Decoder(device="cpu"), snac.Decoder(device="cuda")
        expected = here.decode(codes, noise=None)
        numpy.testing.assert_allclose(there.decode(codes, noise=None), expected, atol=2e-3)
        stream = there.stream(noise=None)
        numpy.testing.assert_allclose(numpy.concatenate(list(stream.samples(codes[:, None]))), expected, atol=2e-3)
        encoder = snac.Encoder(device="cuda")
        found, wanted = encoder.encode(expected), snac.Encoder(device="cpu").encode(expected)
        same = sum((a == b).sum() for a, b in zip(found, wanted, strict=True)) / sum(level.size for level in wanted)
        self.assertGreater(same, 0.97)

    def test_the_interface_of_the_snac_package(self):
        model = snac.SNAC.from_pretrained(os.path.join(GOLDEN, "snac/tiny24"), noise=None).eval().to("cuda")
        batch = torch.randn(2, 1, 3 * 8_192, device="cuda") * 0.1
        codes = model.encode(batch)
        self.assertEqual({level.device.type for level in codes}, {"cuda"})
        samples = model.decode(codes)
        self.assertEqual((samples.device.type, samples.shape), ("cuda", batch.shape))
        expected = model.to("cpu").decode([level.cpu() for level in codes])
        torch.testing.assert_close(samples.cpu(), expected, atol=2e-3, rtol=0)

    def test_spectrograms_and_music(self):
        samples = noise(22_050)
        numpy.testing.assert_allclose(mel.spectrogram(samples, device="cuda"), mel.spectrogram(samples, device="cpu"), atol=0.05)
        here, there = (synth.render("preset:focus", seconds=3, device=device) for device in ("cpu", "cuda"))
        self.assertEqual(here.shape, there.shape)
        self.assertLess(abs(here - there).max(), 1e-3)

    def test_datasets(self):
        with tempfile.TemporaryDirectory() as folder:
            for index in range(3):
                audio.write(os.path.join(folder, f"{index}.wav"), noise(44_100, index), 22_050)
            rows = {}
            for device in ["cpu", "cuda"]:
                output = os.path.join(folder, f"{device}.h5")
                report = dataset.build(folder, output, dataset.Mel(segment=0.5), device=device, progress=False)
                self.assertEqual((report["files_ok"], report["failures"]), (3, []))
                rows[device] = numpy.array(dataset.open(output).column("mel"))
                dataset.build(folder, os.path.join(folder, f"{device}.safetensors"), dataset.Tokens(), device=device, progress=False)
            numpy.testing.assert_allclose(rows["cuda"], rows["cpu"], atol=0.05)

    def test_models(self):
        path = os.path.join(GOLDEN, "optimize/vocoder.onnx")
        x, y = (numpy.load(os.path.join(GOLDEN, f"optimize/vocoder.{name}.npy")) for name in "xy")
        with tempfile.TemporaryDirectory() as folder:
            config = {"cache_dir": folder, "use_tensorrt": True}
            engine = TensorRTOptimizer(config).optimize_onnx(path, input_shapes={"x": x.shape})
            self.assertTrue(os.path.isdir(engine))
            session = optimize.Session(path, config=config)
            for feed in [x, torch.from_numpy(x).cuda(), Shared(torch.from_numpy(x).cuda())]:
                numpy.testing.assert_allclose(session.run(None, {"x": feed})[0], y, atol=1e-2)


if __name__ == "__main__":
    unittest.main()
