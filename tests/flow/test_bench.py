"""kiln_bench, the program that the scripts of bench/ measure with: what its numbers say of each other."""
import json
import os
import pathlib
import shutil
import subprocess

from flow import KILN, FlowTest, kiln, main

BENCH = os.environ.get("KILN_BENCH", str(pathlib.Path(KILN).parent / "kiln_bench"))
RANKS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def bench(*words, before=()):
    return subprocess.run([*map(str, (*before, BENCH, *words))], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **RANKS})


class LoaderTest(FlowTest):
    def test_one_json_object(self):
        data = self.copy_data()
        files = sorted(path for path in data.rglob("*") if path.is_file())
        files[0].write_bytes(b"no image")
        result = bench("loader", "--data", data, "--size", 20, "--threads", 2, "--passes", 5, "--batch-size", 10,
                      "--step-ms", 2)
        self.assertEqual(result.returncode, 0, result.stderr)
        measured = json.loads(result.stdout)
        self.assertEqual((measured["images"], measured["bad_images"], measured["threads"]), (47, 1, 2))
        self.assertEqual(len(measured["resident_bytes_after_passes"]), 5)
        stored = sum(path.stat().st_size for path in files)
        self.assertAlmostEqual(measured["megabytes_per_second"] * 47 / measured["images_per_second"] * 1e6, stored, -1)
        self.assertLessEqual(measured["images_per_second"], 47 / 0.010)  # five steps of 2 ms
        stages = measured["microseconds_per_image"]
        self.assertEqual(list(stages), ["read", "decode", "resample", "augment", "to_floats", "waited_for"])
        self.assertGreater(min(stages["read"], stages["decode"], stages["resample"], stages["to_floats"]), 0)
        self.assertLess(measured["share_waited"], 1)

    def test_memory_is_level_whatever_parts_of_the_images_are_taken(self):
        made = kiln("demo-data", "--output-path", self.folder / "large", "--images", 10, "--classes", 2, "--size", 700)
        self.assertEqual(made.returncode, 0, made.stderr)
        # Readers from the beginning: should reads be slow, the first of them would come later.
        result = bench("loader", "--data", self.folder / "large/train", "--size", 224, "--augment", "standard",
                      "--threads", 2, "--passes", 12, "--batch-size", 2, "--read-ahead", 4)
        self.assertEqual(result.returncode, 0, result.stderr)
        resident = json.loads(result.stdout)["resident_bytes_after_passes"]
        self.assertLess(max(resident[2:]) - resident[1], 4 << 20)  # three files of 1 MiB may be read ahead for the first time

    def test_a_path_that_is_no_utf8(self):
        data = os.fsencode(self.folder) + b"/im\xe9ges"
        shutil.copytree(os.fsencode(self.data / "val"), data)
        result = bench("loader", "--data", os.fsdecode(data), "--size", 20, "--passes", 1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(json.loads(result.stdout)["data"].endswith("im\ufffdges"))

    def test_too_little_memory_names_its_own_options(self):
        result = bench("loader", "--data", self.data / "val", "--size", 2048, "--batch-size", 1_000_000)
        self.assert_refused(result, 3, "Out of memory", "--batch-size or --size, fewer --threads")

    def test_what_it_cannot_measure(self):
        self.assert_refused(bench("loader", "--data", self.folder / "nowhere"), 1, "does not exist")
        self.assert_refused(bench("loader", "--size", "x"), 1, "--size is 'x'")
        self.assert_refused(bench("loader", "--epochs", 1), 1, "no option --epochs")
        self.assert_refused(bench("train"), 1, "loader, step, collective, mpi or scale")


class StepTest(FlowTest):
    def test_two_precisions_in_turn(self):
        for words in ([], ["--inference"]):
            result = bench("step", "--size", 16, "--batch-size", 4, "--classes", 7, "--steps", 3, "--threads", 1, "--device", "cpu",
                           "--against", "bf16", *words)
            self.assertEqual(result.returncode, 0, result.stderr)
            measured = json.loads(result.stdout)
            self.assertEqual((measured["precision"], measured["against"], measured["inference"]), ("fp32", "bf16", bool(words)))
            self.assertLessEqual(measured["times_as_fast_least"], measured["times_as_fast"])
            self.assertLessEqual(measured["times_as_fast"], measured["times_as_fast_most"])
            self.assertGreater(measured["times_as_fast_by_processor"], 0)

    def test_one_json_object(self):
        result = bench("step", "--size", 16, "--batch-size", 4, "--classes", 7, "--steps", 2, "--threads", 1,
                      "--device", "cpu")
        self.assertEqual(result.returncode, 0, result.stderr)
        measured = json.loads(result.stdout)
        self.assertEqual([measured[name] for name in ("model_name", "image_size", "batch_size", "classes", "steps", "threads")],
                         ["resnet18", 16, 4, 7, 2, 1])
        self.assertAlmostEqual(measured["images_per_second"] * measured["seconds_per_step"], 4, 3)
        shares = measured["share_of_step"]
        self.assertAlmostEqual(sum(shares.values()), 1, 6)
        self.assertGreater(min(shares[name] for name in ("convolution", "batch_norm", "optimizer")), 0)
        for name in ("machine_gigaflops_per_second", "machine_gigabytes_per_second", "share_of_machine_flops"):
            self.assertGreater(measured[name], 0, name)

    def test_the_forward_pass_of_a_trained_model(self):
        # From 65 pixels on, where training multiplies by padding, too.
        words = ["step", "--size", 65, "--batch-size", 4, "--classes", 7, "--steps", 2, "--threads", 1, "--device", "cpu"]
        step, forward = (json.loads(bench(*words, *more).stdout) for more in ([], ["--inference"]))
        self.assertEqual((step["inference"], forward["inference"]), (False, True))
        self.assertAlmostEqual(step["gigaflops_per_step"], 3 * forward["gigaflops_per_step"], 6)
        of_one = json.loads(bench(*words, "--inference", "--batch-size", 1).stdout)
        self.assertAlmostEqual(forward["gigaflops_per_step"], 4 * of_one["gigaflops_per_step"], 6)
        shares = forward["share_of_step"]
        self.assertGreater(shares["convolution"], 0)
        # ResNet's BatchNorm always follows a convolution, which it is folded into.
        self.assertEqual([shares[name] for name in ("batch_norm", "gradient_accumulation", "optimizer")], [0, 0, 0])

    def test_what_it_cannot_measure(self):
        self.assert_refused(bench("step", "--model-name", "alexnet"), 1, "alexnet")
        self.assert_refused(bench("step", "--batch-size", 1), 1, "--batch-size")
        for precision in ("fp16", "tf32"):
            self.assert_refused(bench("step", "--precision", precision, "--device", "cpu"), 1, "--precision " + precision)


class CollectiveTest(FlowTest):
    def test_sums(self):
        for part in ("collective", "mpi"):
            with self.subTest(part=part):
                result = bench(part, before=("mpirun", "--oversubscribe", "-np", 2))
                self.assertEqual(result.returncode, 0, result.stderr)
                measured = json.loads(result.stdout)
                self.assertEqual(measured["ranks"], 2)
                for one in measured["sums"]:
                    self.assertAlmostEqual(one["bus_gigabytes_per_second"], one["bytes"] / one["seconds"] / 1e9, 6)
                    self.assertLessEqual(one["seconds_least"], one["seconds"])
                    self.assertLessEqual(one["seconds"], one["seconds_most"])
                self.assertIn(25 << 20, [one["bytes"] for one in measured["sums"]])

    def test_one_process_has_nobody_to_sum_with(self):
        result = bench("collective")
        self.assert_refused(result, 1, "mpirun -np 2")
        self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    main()
