"""The kernels of src/modules/cuda/norm_kernels.cu, run on the CPU (fake/emulated) beside LibTorch's operators in float64, under the
address and undefined-behavior sanitizers. Nothing here is a measurement of a GPU.

    test_norm_kernels.py LIBRARY [COMPILER OPTION...]

With a compiler, which makes LIBRARY of the two options SOURCE and -o OUTPUT that follow, also sees each of seven faults fail. The
process must begin with the sanitizer's library, for which it starts itself again.
"""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
KERNELS = ROOT / "src/modules/cuda/norm_kernels.cu"
POINTERS = ("x added dy out bits mean scale weight bias running_mean running_variance sums partial tickets").split()
KINDS = ("", "relu", "add", "add_relu")
# [N, C, H, W] beside grids: vectors of a tile, blocks, rows of threads at most.
CASES = [((1, 8, 1, 2), (8, 1, 32)), ((2, 64, 5, 5), (8, 1, 32)), ((2, 64, 5, 5), (2, 3, 8)), ((4, 40, 3, 3), (5, 3, 7)),
         ((37, 24, 9, 9), (8, 4, 16)), ((5, 72, 6, 4), (32, 2, 4)), ((2, 512, 2, 2), (32, 1, 8)), ((3, 16, 7, 7), (1, 5, 256))]
FAULTS = {  # what a test has to find, after what it has to let pass
    "none": ("constexpr int kThreads = 256;", "constexpr int kThreads = 256;"),
    "a barrier within a block": ("    __syncthreads();\n    if (y + half < n)", "    if (y + half < n)"),
    "a barrier before the last block": ("  __syncthreads();\n  return is_last;", "  return is_last;"),
    "a ticket that stays": ("    if (is_last) g.tickets[blockIdx.x] = 0;  // for the next launch\n", ""),
    "the added map forgotten": ("if (kAdds) value += A(z.at[j]);", ""),
    "the biased variance": ("(A(g.rows) - A(1))", "A(g.rows)"),
    "a wrong count of a thread": ("mine.count = A(place.count);", "mine.count = A(place.step);"),
    "a wrong count of blocks": ("== gridDim.y - 1", "== gridDim.y - (gridDim.y > 1 ? 2 : 1)")}


class Arguments(ctypes.Structure):
    _fields_ = ([(name, ctypes.c_void_p) for name in POINTERS] + [(name, ctypes.c_double) for name in ("epsilon", "momentum", "count")]
                + [("rows", ctypes.c_uint), ("vectors", ctypes.c_uint)])


class Norm:
    """A norm of one kind by the kernels. What they write is NaN before."""

    def __init__(self, library, x, added, weight, bias, kind, grid, seed=1):
        self.launcher, self.kind, self.grid, self.seed = ctypes.CDLL(library).kiln_emulate_norm, kind, grid, seed
        width, channels = 16 // x.element_size(), x.shape[1]
        self.vectors, self.rows = channels // width, x.numel() // channels
        nan = lambda *sizes: torch.full(sizes, float("nan"), dtype=weight.dtype)
        self.x, self.added, self.weight, self.bias = x, added, weight, bias
        self.mean, self.scale, self.sums = nan(channels), nan(channels), nan(3, channels)
        self.running_mean, self.running_variance = torch.zeros_like(bias), torch.ones_like(bias)
        self.bits = torch.full((self.rows * self.vectors,), 0x55, dtype=torch.uint8)
        self.type = str(x.dtype).removeprefix("torch.")

    def launch(self, kernel, out=None, dy=None):
        wide, blocks, most = self.grid
        columns = min(self.vectors, wide)
        grid = (ctypes.c_uint * 4)(-(-self.vectors // columns), blocks, columns, max(1, min(most, 256 // columns)))
        partial = torch.full((blocks * (2 * self.bias.numel() + self.vectors),), float("nan"), dtype=self.bias.dtype)
        tensors = {**vars(self), "out": out, "dy": dy, "partial": partial}
        given = Arguments(epsilon=1e-5, momentum=0.1, count=self.rows, rows=self.rows, vectors=self.vectors, **{
            name: tensors[name].data_ptr() for name in POINTERS if tensors.get(name) is not None})
        self.launcher(f"kiln_{kernel}_{self.type}".encode(), ctypes.byref(grid), ctypes.byref(given), self.seed)

    def results(self, dy):
        y, dx, du = (torch.full_like(self.x, float("nan")) for _ in range(3))
        self.launch("statistics")
        self.launch("_".join(filter(None, ["normalize", self.kind])), out=y)
        way = {"": "", "add": "", "relu": "_relu", "add_relu": "_bits"}[self.kind]
        self.launch("sum_gradients" + way, out=du, dy=dy)
        has_du = way == "_bits"
        self.launch("gradient" + ("" if has_du else way), out=dx, dy=du if has_du else dy)
        return {"y": y, "dx": dx, "d_bias": self.sums[0], "d_weight": self.sums[2], "running_mean": self.running_mean,
                "running_variance": self.running_variance, **({"d_added": du} if has_du else {})}


def exact(x, added, weight, bias, kind, dy):
    leaf = lambda t: None if t is None else t.detach().double().requires_grad_()
    x, added, weight, bias = map(leaf, (x, added, weight, bias))
    mean, variance = torch.zeros_like(bias), torch.ones_like(bias)
    y = torch.nn.functional.batch_norm(x, mean.detach(), variance.detach(), weight, bias, True, 0.1, 1e-5)
    y = y if added is None else y + added
    y = y.relu() if "relu" in kind else y
    y.backward(dy.double())
    return {"y": y.detach(), "dx": x.grad, "d_bias": bias.grad, "d_weight": weight.grad, "running_mean": mean,
            "running_variance": variance, "d_added": None if added is None else added.grad}


def random_case(shape, dtype, kind):
    make = lambda: torch.randn(shape).to(dtype).contiguous(memory_format=torch.channels_last)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    weight, bias = torch.rand(shape[1]).to(wide) + 0.5, torch.randn(shape[1]).to(wide)
    return make() + 0.5, make() if "add" in kind else None, weight, bias, make()


def excess(found, right, dtype, least):
    """Of the largest difference over what rounding allows; `least`: what dx is a difference of."""
    limit = 1e-13 if dtype == torch.float64 else 4e-6
    rounding = {torch.float16: 2**-11, torch.bfloat16: 2**-8}.get(dtype, 0)
    allowed = limit * right.abs().max().clamp_min(least) + rounding * right.abs() + (6e-8 if dtype == torch.float16 else 0)
    difference = (found.double() - right).abs() / allowed.clamp_min(1e-300)
    return float("inf") if difference.isnan().any() else difference.max().item()


class NormKernelsTest(unittest.TestCase):
    library = ""

    def setUp(self):
        torch.manual_seed(1)

    def test_results_are_those_of_libtorch_in_float64_but_for_the_last_rounding(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            for kind in KINDS:
                for shape, grid in CASES:
                    x, added, weight, bias, dy = random_case(shape, dtype, kind)
                    right = exact(x, added, weight, bias, kind, dy)
                    least = (dy.double() * (weight / x.double().std((0, 2, 3), correction=0))[:, None, None]).abs().max()
                    for name, found in Norm(self.library, x, added, weight, bias, kind, grid).results(dy).items():
                        with self.subTest(dtype=dtype, kind=kind, shape=shape, grid=grid, name=name):
                            self.assertLessEqual(excess(found, right[name], dtype, least if name == "dx" else 0), 1)

    def test_the_order_of_blocks_and_threads_changes_no_bit(self):
        for kind in KINDS:
            *case, dy = random_case((9, 48, 11, 5), torch.bfloat16, kind)
            runs = [Norm(self.library, *case, kind, (2, 6, 16), seed).results(dy) for seed in range(1, 8)]
            for run in runs[1:]:
                self.assertTrue(all(torch.equal(run[name], value) for name, value in runs[0].items()), kind)

    def test_numbers_far_from_zero_and_outliers_keep_their_variance(self):
        x = torch.randn(16, 16, 8, 8, dtype=torch.float64)
        outlier = x * 1e-3
        outlier[0, :, 0, 0] = 1000
        for values in ((x + 1000).float(), outlier.float()):
            values = values.contiguous(memory_format=torch.channels_last)
            norm = Norm(self.library, values, None, torch.ones(16), torch.zeros(16), "", (4, 4, 32))
            norm.launch("statistics")
            right = values.double().var((0, 2, 3))
            self.assertLess((((norm.running_variance.double() - 0.9) / 0.1) / right - 1).abs().max().item(), 1e-5)

    def test_not_a_number_stays(self):
        x = torch.randn(2, 16, 3, 3).contiguous(memory_format=torch.channels_last)
        x[1, 3, 2, 2] = float("nan")
        y = Norm(self.library, x, None, torch.ones(16), torch.zeros(16), "relu", (4, 2, 8)).results(x)["y"]
        self.assertTrue(y[:, 3].isnan().all() and not y[:, :3].isnan().any())


def passes(library):
    command = [sys.executable, __file__, library]
    return subprocess.run(command, capture_output=True, text=True, timeout=900).returncode == 0


def see_faults(compiler):
    """Of kernels with each of the faults. False if one passes, or the kernels without a fault do not."""
    original, is_right = KERNELS.read_text(), True
    for name, (right, wrong) in FAULTS.items():
        assert original.count(right) == 1, name
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "modules/cuda" / KERNELS.name
            copy.parent.mkdir(parents=True)
            copy.write_text(original.replace(right, wrong))
            library = f"{folder}/libfault.so"
            subprocess.run([compiler[0], f"-I{folder}", *compiler[1:], "-o", library], check=True,
                           env={**os.environ, "LD_PRELOAD": ""})
            has_passed = passes(library)
            is_right = is_right and has_passed == (name == "none")
            print(f"{name}: {'passes' if has_passed else 'seen'}", flush=True)
    return is_right


if __name__ == "__main__":
    library, *compiler = sys.argv[1:]
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        asan = subprocess.run(["g++", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
        os.execve(sys.executable, [sys.executable, *sys.argv], {
            **os.environ, "LD_PRELOAD": os.path.realpath(asan), "ASAN_OPTIONS": "detect_leaks=0", "OMP_NUM_THREADS": "1"})
    if compiler:
        sys.exit(0 if see_faults(compiler) else 1)
    sys.path.insert(0, str(ROOT / "tests/parity"))
    import torch_packages  # noqa: F401: before torch
    import torch
    NormKernelsTest.library = library
    unittest.main(argv=sys.argv[:1], failfast=True)
