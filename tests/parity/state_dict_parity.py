"""State dict files against their real readers: torch.load(weights_only=True) and the safetensors package.

usage: state_dict_parity.py PATH_OF_KILN_STATE_DICT_TOOL
Needs the LibTorch that is installed already: KILN_TORCH_ROOT, or .deps/libtorch of the repository.
"""
import argparse
import collections
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, os.environ.get("KILN_TORCH_ROOT") or str(ROOT / ".deps" / "libtorch"))
sys.path.append(str(ROOT / ".deps" / "parity"))

import numpy  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

TOOL = sys.argv.pop(1) if len(sys.argv) > 1 else str(ROOT / "build" / "release" / "kiln_state_dict_tool")


def sample_module():
    torch.manual_seed(1)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Linear(8, 5))
    return module


def sample_state():
    state = sample_module().state_dict()
    generator = torch.Generator().manual_seed(2)
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        state[f"extra.{dtype}"] = torch.randn(4, 7, generator=generator).to(dtype)
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool):
        state[f"extra.{dtype}"] = torch.arange(300).to(dtype)
    state["extra.scalar"] = torch.tensor(-(2**40))
    state["extra.empty"] = torch.zeros(0, 3)
    return state


class StateDictParity(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def convert(self, kind, source):
        out = self.path("out")
        subprocess.run([TOOL, kind, source, out], check=True, stdout=subprocess.DEVNULL)
        return out

    def check(self, source, expected):
        loaded = torch.load(self.convert("zip", source), weights_only=True)
        self.assertIsInstance(loaded, collections.OrderedDict)
        self.assertEqual(list(loaded), list(expected))
        self.same(loaded, expected)
        self.same(load_file(self.convert("safetensors", source)), expected)

    def same(self, loaded, expected):
        self.assertEqual(set(loaded), set(expected))
        for name, tensor in expected.items():
            self.assertEqual(loaded[name].dtype, tensor.dtype, name)
            self.assertEqual(loaded[name].shape, tensor.shape, name)
            self.assertTrue(torch.equal(loaded[name], tensor), name)
            self.assertTrue(loaded[name].is_contiguous(), name)

    def test_zip(self):
        for protocol in (2, 3, 4, 5):
            torch.save(sample_state(), self.path("in"), pickle_protocol=protocol)
            self.check(self.path("in"), sample_state())

    def test_legacy(self):
        for protocol in (2, 4):
            torch.save(sample_state(), self.path("in"), pickle_protocol=protocol,
                       _use_new_zipfile_serialization=False)
            self.check(self.path("in"), sample_state())

    def test_plain_dict_and_parameters(self):
        torch.save(dict(sample_module().named_parameters()), self.path("in"))
        self.check(self.path("in"), {k: v.detach() for k, v in sample_module().named_parameters()})

    def test_strided(self):
        base = torch.randn(4, 6, 5, 3)
        state = {"last": base.contiguous(memory_format=torch.channels_last), "turned": base.permute(2, 0, 3, 1),
                 "part": base[1:3, ::2, 1:, 1], "tied": base, "tied_too": base}
        for new in (True, False):
            torch.save(state, self.path("in"), _use_new_zipfile_serialization=new)
            self.check(self.path("in"), state)

    def test_safetensors(self):
        save_file(dict(sample_state()), self.path("in"))
        loaded = torch.load(self.convert("zip", self.path("in")), weights_only=True)
        self.same(loaded, sample_state())

    def test_loads_into_a_module(self):
        torch.save(sample_module().state_dict(), self.path("in"))
        state = torch.load(self.convert("zip", self.path("in")), weights_only=True, mmap=True)
        self.assertFalse(sample_module().load_state_dict(state).missing_keys)

    def test_objects_beside_the_weights_are_passed_over(self):
        module = sample_module()
        optimizer = torch.optim.AdamW(module.parameters())
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, 10)
        average = torch.optim.swa_utils.AveragedModel(module)
        checkpoint = {
            "epoch": 3, "args": argparse.Namespace(lr=0.1, output=pathlib.Path("/out")), "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(), "model": module.state_dict(), "model_ema": average.state_dict(),
            "best": numpy.float64(71.2), "history": numpy.arange(5), "random": (random.getstate(), numpy.random.get_state()),
            "generator": numpy.random.default_rng(1), "torch": torch.get_rng_state(),
            "complex": torch.zeros(2, dtype=torch.complex64),
            "others": [{1}, frozenset([2]), b"x", bytearray(b"y"), 1 << 80, torch.float32, torch.Size([1]), torch.device("cpu"),
                       collections.defaultdict(list, {"a": [1]}), OSError("x"), print]}
        for protocol in (2, 3, 4, 5):
            torch.save(checkpoint, self.path("in"), pickle_protocol=protocol)
            self.check(self.path("in"), sample_module().state_dict())
        del checkpoint["complex"]  # the older format does not say how large it is
        torch.save(checkpoint, self.path("in"), _use_new_zipfile_serialization=False)
        self.check(self.path("in"), sample_module().state_dict())

    def test_whole_modules_are_refused(self):
        torch.save(sample_module(), self.path("in"))
        result = subprocess.run([TOOL, "zip", self.path("in"), self.path("out")], capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("torch.nn.modules.container.Sequential", result.stderr)


if __name__ == "__main__":
    unittest.main()
