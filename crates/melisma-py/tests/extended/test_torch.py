"""With torch: tensors in and out, the tensor guide's snippets, loaders, and the snac package beside ours."""

import os
import sys
import tempfile
import unittest
import unittest.mock

import numpy
import torch

import melisma
from melisma import Config, MemoryTracker, TensorOptimizer, _populate, apply_tensor_optimizations, audio, dataset, mel, pack, snac, synth

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../golden/snac/tiny24")


class Guide(unittest.TestCase):
    """The snippets of the tensor guide, with only the import changed."""

    def setUp(self):
        torch.manual_seed(0)
        self.model = torch.nn.Linear(1000, 10)
        self.config = {"mixed_precision": True, "memory_efficient": True, "use_tensorrt": True}

    def test_basic_usage(self):
        model, config = self.model, self.config
        optimizer = TensorOptimizer(config)
        input_tensor = torch.randn(1000, 1000, requires_grad=True)
        optimized_tensor = optimizer.optimize_tensor(input_tensor, dtype="float16")
        with optimizer.mixed_precision_context():
            result = model(optimized_tensor)
        self.assertEqual((optimized_tensor.dtype, result.dtype), (torch.float16, torch.float16))
        self.assertFalse(optimized_tensor.requires_grad or result.requires_grad)
        torch.testing.assert_close(result.float(), model(input_tensor).detach(), atol=0.02, rtol=0.02)

    def test_decorator(self):
        @apply_tensor_optimizations(self.config)
        def process_audio(audio_data):
            self.assertEqual(audio_data.dtype, torch.float16)
            return self.model(audio_data)

        result = process_audio(torch.randn(3, 1000))
        self.assertEqual((result.dtype, result.shape, result.requires_grad), (torch.float32, (3, 10), False))

    def test_memory_and_profile(self):
        tracker = MemoryTracker()
        with tracker.track():
            self.model(torch.zeros(1, 1000))
        print(tracker.get_memory_summary())
        self.assertEqual(Config.load_with_profile("field")["profile"], "field")

    def test_types(self):
        optimizer = TensorOptimizer(self.config)
        for dtype, expected in [(None, torch.float16), ("bfloat16", torch.bfloat16), (torch.float32, torch.float32)]:
            self.assertEqual(optimizer.optimize_tensor(torch.ones(3), dtype).dtype, expected)
        self.assertEqual(optimizer.optimize_tensor(torch.ones(3, dtype=torch.int64)).dtype, torch.int64)
        self.assertEqual(optimizer.optimize_tensor(torch.tensor([1e6])).dtype, torch.float32)
        with self.assertRaisesRegex(ValueError, "does not fit float16"):
            optimizer.optimize_tensor(torch.tensor([1e6]), "float16")


class Tensors(unittest.TestCase):
    def test_tensors_give_tensors(self):
        samples = torch.sin(torch.arange(22_050) / 9)
        found = mel.spectrogram(samples)
        self.assertEqual((found.dtype, found.shape), (torch.float16, (80, 87)))
        numpy.testing.assert_array_equal(found.numpy(), mel.spectrogram(samples.numpy()))
        numpy.testing.assert_array_equal(mel.spectrogram(samples.bfloat16()), mel.spectrogram(samples.bfloat16().float()))
        self.assertIsInstance(audio.resample(samples, 22_050, 16_000), torch.Tensor)
        codes = snac.populate(torch.arange(28))
        self.assertEqual([(level.dtype, level.shape) for level in codes], [(torch.int32, (1, 4)), (torch.int32, (1, 8)), (torch.int32, (1, 16))])
        shared = torch.zeros(80, 87, dtype=torch.float16)
        self.assertIs(mel.spectrogram(samples, out=shared), shared)
        numpy.testing.assert_array_equal(shared, found)

    def test_population_where_the_tensor_is(self):
        for codes in [torch.arange(30), torch.arange(21, dtype=torch.uint8).reshape(3, 7), torch.zeros(0, dtype=torch.int64)]:
            valid, whole = _populate._on_device(codes, 4096)
            self.assertEqual(valid, (True, True, True))
            for level, expected in enumerate(snac.populate(codes)):
                self.assertTrue(torch.equal(_populate._level(whole, level), expected))
        for slot, level in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 1), (5, 2), (6, 2)]:
            for bad in [4096, -1, 1 << 40]:
                codes = torch.zeros(14, dtype=torch.int64)
                codes[7 + slot] = bad
                self.assertEqual([*_populate._on_device(codes, 4096)[0]], [other != level for other in range(3)])

    def test_voices_and_memory(self):
        pitches = torch.tensor([60, 64, 67])
        rows = synth.voices(pitches, seconds=0.1)
        self.assertEqual((rows.dtype, rows.shape), (torch.float32, (3, 4_800)))
        numpy.testing.assert_array_equal(rows.sum(dim=0), synth.voices([60, 64, 67], seconds=0.1).sum(axis=0))
        with self.assertRaisesRegex(ValueError, r"out: .* requires a gradient\n.*out.detach\(\)"):
            synth.voices(pitches, out=rows.clone().requires_grad_())
        with torch.no_grad():
            numpy.testing.assert_array_equal(synth.voices(pitches, out=rows.clone().requires_grad_()), rows)
        tracker = MemoryTracker()
        with tracker.track("torch"):
            ones = torch.ones(25_000_000)
        self.assertLess(abs(tracker.scopes()["torch"]["resident_growth"] - 100e6), 10e6)

    def test_memory_is_shared_in_both_directions(self):
        samples = torch.sin(torch.arange(22_050) / 9)
        self.assertEqual(melisma._array.as_numpy(samples).ctypes.data, samples.data_ptr())
        decoder = snac.Decoder(device="cpu")
        codes = numpy.zeros((2, 7), "i4")
        blob = pack.compress(samples)
        for found in [mel.spectrogram(samples.numpy()), audio.resample(samples.numpy(), 8, 4), decoder.decode(codes), pack.decompress(blob)]:
            self.assertEqual(torch.from_dlpack(found).data_ptr(), found.ctypes.data)
        for work in [
            lambda **out: mel.spectrogram(samples, **out),
            lambda **out: audio.resample(samples, 8, 4, **out),
            lambda **out: torch.as_tensor(decoder.decode(codes, **out)),
            lambda **out: pack.decompress(blob, "pt", **out),
        ]:
            expected = work()
            out = torch.full_like(expected, 9)
            self.assertEqual(work(out=out).data_ptr(), out.data_ptr())
            torch.testing.assert_close(out, expected, atol=0, rtol=0)
            with self.assertRaisesRegex(ValueError, "out: "):
                work(out=out.bfloat16())
        bf16 = torch.randn(30).bfloat16()
        out = torch.zeros(30).bfloat16()
        self.assertIs(pack.decompress(pack.compress(bf16), out=out), out)
        torch.testing.assert_close(out, bf16, atol=0, rtol=0)

    def test_a_gpu_that_is_missing(self):
        if torch.cuda.is_available():
            self.skipTest("there is a GPU")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.safetensors")
            pack.save_file({"w": torch.randn(4)}, path)
            for device in ["cuda", "cuda:1", torch.device("cuda")]:
                with self.assertRaisesRegex(RuntimeError, "cuda:[01]"):
                    pack.load_to_device(path, device)
            with self.assertRaisesRegex(ValueError, "no memory of its own"):
                pack.load_to_device(path, "cpu")

    def test_weights(self):
        tensors = {
            "bf16": torch.randn(300, 200).bfloat16(),
            "f32": torch.randn(3, 4, 5),
            "f8": torch.randn(64).to(torch.float8_e4m3fn),
            "flag": torch.tensor(True),
            "empty": torch.zeros(0, 4),
            "columns": torch.randn(40, 50).T,
            "grad": torch.nn.Parameter(torch.randn(4)),
        }
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.safetensors")
            pack.save_file(tensors, path)
            loaded = pack.load_file(path)
            with pack.safe_open(path, framework="pt") as file:
                for index in [slice(10, 20), (slice(250, None), slice(3, 150, 7)), (5, 6), (..., -1)]:
                    torch.testing.assert_close(file.get_slice("bf16")[index], tensors["bf16"][index], atol=0, rtol=0)
        for name, tensor in tensors.items():
            self.assertEqual((loaded[name].dtype, loaded[name].shape), (tensor.dtype, tensor.shape), name)
            self.assertTrue(torch.equal(loaded[name].contiguous().view(-1).view(torch.uint8), tensor.detach().contiguous().view(-1).view(torch.uint8)), name)
        blob = pack.compress(tensors["bf16"])
        self.assertTrue(torch.equal(pack.decompress(blob, "pt"), tensors["bf16"]))

    def test_a_loader_with_two_workers(self):
        with tempfile.TemporaryDirectory() as folder:
            for index in range(6):
                audio.write(os.path.join(folder, f"{index}.wav"), numpy.sin(numpy.arange(44_100) / (5 + index)), 22_050)
            dataset.build(folder, os.path.join(folder, "train.h5"), dataset.Mel(segment=0.5), progress=False)
            rows = dataset.open(os.path.join(folder, "train.h5"))
            for method in ["fork", "spawn"]:
                loader = torch.utils.data.DataLoader(rows, batch_size=5, num_workers=2, multiprocessing_context=method)
                batches = list(loader)
                self.assertEqual([tuple(batch.shape) for batch in batches], [(5, *rows[0].shape)] * 4 + [(4, *rows[0].shape)])
                torch.testing.assert_close(batches[1][2], torch.from_numpy(numpy.array(rows[7])))
                for n_workers in [0, 2]:
                    context = method if n_workers else None
                    loader = torch.utils.data.DataLoader(
                        rows, batch_size=5, num_workers=n_workers, multiprocessing_context=context, collate_fn=dataset.collate
                    )
                    for found, batch in zip(loader, batches, strict=True):
                        self.assertTrue(torch.equal(found, batch) and not found.is_shared())
            with self.assertRaisesRegex(ValueError, "not a batch"):
                dataset.collate([rows[0]])


class Parity(unittest.TestCase):
    def test_the_numbers_of_torchaudio(self):
        if "TEST_TORCHAUDIO" not in os.environ:
            self.skipTest("TEST_TORCHAUDIO does not name a folder with torchaudio")
        # Spectrograms are plain torch. torchaudio's compiled parts may be of another CUDA, which it checks.
        with unittest.mock.patch("torch.version.cuda", None), unittest.mock.patch("sys.path", [*sys.path, os.environ["TEST_TORCHAUDIO"]]):
            import torchaudio

        torch.manual_seed(2)
        samples = torch.randn(2, 16_000 * 3) * 0.1
        wide = {"n_fft": 1024, "win_length": 1024, "hop_length": 256, "n_mels": 80}
        narrow = {"n_fft": 512, "win_length": 400, "hop_length": 200, "f_min": 50.0, "f_max": 7_000.0, "power": 1}
        for values in [{}, wide, narrow]:
            expected = torchaudio.transforms.MelSpectrogram(16_000, **values)(samples)
            found = mel.spectrogram(samples, preset="torchaudio", **values)
            torch.testing.assert_close(found, expected, atol=1e-5 * expected.max().item(), rtol=1e-3)

    def test_the_same_codes_and_samples_as_the_snac_package(self):
        """The package's noise is random, so both are without."""
        import snac as theirs

        original = theirs.SNAC.from_config(os.path.join(GOLDEN, "config.json"))
        original.load_state_dict(torch.load(os.path.join(GOLDEN, "pytorch_model.bin"), map_location="cpu"))
        original.eval()
        ours = snac.SNAC.from_pretrained(GOLDEN, noise=None)
        torch.manual_seed(1)
        batch = torch.randn(2, 1, 3 * 8_192) * 0.1
        with torch.inference_mode():
            codes = original.encode(batch)
            found = ours.encode(batch)
            self.assertEqual([level.shape for level in found], [level.shape for level in codes])
            same = sum((a == b).sum().item() for a, b in zip(found, codes)) / sum(a.numel() for a in codes)
            self.assertGreater(same, 0.99)
            for module in original.modules():
                if type(module).__name__ == "NoiseBlock":
                    module.forward = lambda x: x
            torch.testing.assert_close(ours.decode(codes), original.decode(codes), atol=1e-4, rtol=0)
            audio_hat, _ = ours(batch[..., :20_000])
        self.assertEqual(audio_hat.shape, (2, 1, 20_000))


if __name__ == "__main__":
    unittest.main()
