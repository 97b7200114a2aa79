"""The starter: what it answers alone, and what it says where the rest of the program or LibTorch is missing."""
import os
import pathlib
import shutil
import subprocess
import sys

from flow import KILN, FlowTest, files_below, main

LIBRARY = pathlib.Path(KILN).parent / "libkiln.so"
TORCH_ROOT = pathlib.Path(os.environ.get("KILN_TORCH_ROOT") or pathlib.Path(__file__).parents[2] / ".deps/libtorch")


class StarterTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "environment/bin/kiln"
        self.program.parent.mkdir(parents=True)
        shutil.copy(KILN, self.program)

    def start(self, *arguments, before=(), **environment):
        settings = {name: value for name, value in os.environ.items() if name not in ("KILN_TORCH_ROOT", "AZUREML_RUN_ID")}
        return subprocess.run([*before, self.program, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                              env={**settings, "PATH": "/usr/bin:/bin", **environment})

    def packages(self, place="lib/python3.11/site-packages"):
        """A folder for Python packages of the environment, with what the wheel puts there."""
        folder = self.folder / "environment" / place
        (folder / "kiln_trainer").mkdir(parents=True)
        shutil.copy(LIBRARY, folder / "kiln_trainer")
        needed = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, check=True).stdout
        runtime = next(line.split()[2] for line in needed.splitlines() if "libstdc++" in line)
        (folder / "kiln_trainer/libstdc++.so.6").symlink_to(runtime)
        return folder

    def test_answers_without_the_library(self):
        for words in (["--help"], ["train", "--help"], ["train", "--help", "all"],
                      ["describe", "--format", "json"]):
            with self.subTest(words=words):
                result = self.start(*words)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertTrue(result.stdout)

    def test_refuses_words_without_the_library(self):
        (self.folder / "output").mkdir()
        arguments = self.train_arguments(epochs=0, patience="x")
        result = self.start(*arguments, SAGEMAKER_BASE_DIR=str(self.folder))
        self.assert_fails(result, 2, 2, "--patience", "--epochs")
        self.assertTrue((self.folder / "output/failure").read_text())

    def test_ranks_speak_with_one_voice(self):
        arguments = self.train_arguments(epochs=0)
        mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "3"]
        result = self.start(*arguments, before=mpirun, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("--epochs"), 1)

    def test_library_missing(self):
        self.assert_fails(self.start(*self.train_arguments()), 3, 39, "libkiln.so")

    def test_library_of_another_build(self):
        text = next(word for word in LIBRARY.read_bytes().split(b"\0") if word.startswith(b"kiln ") and word.endswith(b")"))
        (self.folder / "environment/lib").mkdir()
        (self.folder / "environment/lib/libkiln.so").write_bytes(
            LIBRARY.read_bytes().replace(text, text[:-2] + b"?)"))
        self.assert_fails(self.start(*self.train_arguments()), 3, 39, "libkiln.so", text.decode())

    def test_archive(self):
        (self.folder / "environment/lib").mkdir()
        shutil.copy(LIBRARY, self.folder / "environment/lib")
        link = self.folder / "kiln"
        link.symlink_to(self.program)
        self.program = link
        self.assertEqual(self.start("--version").returncode, 0)

    def test_a_library_that_is_cut_short(self):
        library = self.folder / "environment/lib/libkiln.so"
        library.parent.mkdir()
        library.write_bytes(LIBRARY.read_bytes()[:LIBRARY.stat().st_size // 2])
        result = self.start("--version")
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (3, 1), result.stderr)

    def test_too_little_memory(self):
        """Libraries would end the process while they initialize themselves, or later, where oneDNN builds a kernel."""
        def limited(kib):
            return subprocess.run(["bash", "-c", f'ulimit -v {kib}; exec "{KILN}" --version'], capture_output=True, text=True)
        for kib in (100_000, 480_000, (1 << 20) - 4):
            with self.subTest(kib=kib):
                result = limited(kib)
                self.assertEqual((result.returncode, len(result.stderr.splitlines())), (3, 1), result.stderr)
                self.assert_names(result.stderr, "ulimit -v")
        self.assertEqual(limited(1 << 20).returncode, 0)

    def test_a_rank_tells_what_is_wrong_on_its_host(self):
        rank = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
        result = self.start(*self.train_arguments(), OMPI_COMM_WORLD_LOCAL_RANK="0", **rank)
        self.assertEqual(result.returncode, 3)
        self.assert_names(result.stderr, "libkiln.so")
        self.assertEqual(self.start("train", "--epochs", "0", OMPI_COMM_WORLD_LOCAL_RANK="0", **rank).stderr, "")
        self.assertNotEqual(self.start("train", "--epochs", "0", SLURM_PROCID="3").stderr, "")

    def test_folders_that_depend_on_the_working_directory_are_not_used(self):
        self.packages()
        (self.folder / "lib").mkdir()
        (self.folder / "lib/python3.11/site-packages").mkdir(parents=True)
        (self.folder / "lib/python3.11/site-packages/torch").symlink_to(TORCH_ROOT / "torch")
        (self.folder / "bin").mkdir()
        (self.folder / "bin/python3").touch()
        for settings in ({"PATH": "bin:/usr/bin"}, {"KILN_TORCH_ROOT": ""}):
            with self.subTest(settings=settings):
                result = self.start("--version", before=("env", "-C", self.folder), **settings)
                self.assertEqual(result.returncode, 3, result.stderr)

    def test_a_wrong_torch_root_is_refused(self):
        (self.packages() / "torch").symlink_to(TORCH_ROOT / "torch")
        self.assert_fails(self.start(*self.train_arguments(), KILN_TORCH_ROOT="/nowhere"), 3, 39, "KILN_TORCH_ROOT", "/nowhere")

    def test_wheel_without_torch(self):
        self.packages()
        self.assert_fails(self.start(*self.train_arguments()), 3, 39, "PyTorch 2.11", "pip install", "KILN_TORCH_ROOT")

    def test_wheel_beside_another_torch(self):
        folder = self.packages()
        (folder / "torch/lib").mkdir(parents=True)
        (folder / "torch/lib/libtorch_cpu.so").touch()
        (folder / "torch/version.py").write_text("__version__ = '2.12.1+cpu'\n")
        self.assert_fails(self.start(*self.train_arguments()), 3, 39, "2.11", "2.12.1+cpu", "pip install")

    def test_wheel_finds_torch(self):
        """Of its own folder, of the Python that a virtual environment builds on, of one in PATH, and where it is told."""
        folder = self.packages()
        base = self.folder / "base"
        for where, settings in ((folder, {}), (base / "lib/python3.12/dist-packages", {}),
                                (base / "lib/python3.12/site-packages", {"PATH": f"{base}/bin:/usr/bin"}),
                                (self.folder / "elsewhere", {"KILN_TORCH_ROOT": str(self.folder / "elsewhere")})):
            with self.subTest(where=where):
                where.mkdir(parents=True, exist_ok=True)
                for name in ("torch", "nvidia"):
                    (where / name).symlink_to(TORCH_ROOT / name)
                (self.folder / "environment/pyvenv.cfg").write_text(
                    f"home = {base}/bin\n" if where.name == "dist-packages" else "")
                (base / "bin").mkdir(parents=True, exist_ok=True)
                (base / "bin/python3").touch()
                result = self.start("--version", **settings)
                self.assertEqual(result.returncode, 0, result.stderr)
                for name in ("torch", "nvidia"):
                    (where / name).unlink()

    def test_folder_of_pips_target(self):
        folder = self.packages(".")
        self.assert_fails(self.start(*self.train_arguments()), 3, 39, "PyTorch")
        (folder / "torch").symlink_to(TORCH_ROOT / "torch")
        self.assertEqual(self.start("--version").returncode, 0)

    def test_removed_working_directory(self):
        (self.folder / "environment/lib").mkdir()
        shutil.copy(LIBRARY, self.folder / "environment/lib")
        gone = self.folder / "gone"
        gone.mkdir()
        before = files_below(self.folder)
        result = subprocess.run(["sh", "-c", f'cd "{gone}" && rmdir "{gone}" && exec "{self.program}" inspect .'],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertEqual(files_below(self.folder), before)


if __name__ == "__main__":
    if not LIBRARY.exists():
        sys.exit(77)
    main()
