"""What a training step asks of the device, exactly, beside the table in README.md, ResNet-18 but where a row names another
network: a longer step, a wait that was not there, an operator for each of many tensors show here. KILN_RENEW=1 writes the table
anew."""
import os
import pathlib
import shutil

from stand_in import FOLDER, GpuTest, main

README = pathlib.Path(__file__).with_name("README.md")
HEADER = "| options | operators | uploads | downloads | waits | sums |"
KINDS = ("operator", "upload", "download", "wait", "sum")
FEW, MANY = 2, 4  # steps of two runs, whose difference is that of the steps between
# Rows that are counted by day; the others with KILN_NIGHTLY=1.
BY_DAY = ("--optimizer sgd", "--precision fp16", "--mixup 0.2 --cutmix 1", "--print-freq 1", "--ranks 2",
          "--model-name mobilenet_v3_large", "--model-name vit_s_16")


def table():
    """Of the README: the lines around it, and its rows, {options: counts}."""
    before, after = README.read_text().split(HEADER + "\n|---|---|---|---|---|---|\n")
    lines, end = after.split("\n\n", 1)
    rows = {}
    for line in lines.splitlines():
        options, *counts = (cell.strip().strip("`") for cell in line.strip("|").split("|"))
        rows[options] = tuple(map(int, counts))
    return before, rows, end


def write(before, rows, end):
    lines = [f"| `{options}` | " + " | ".join(map(str, counts)) + " |" for options, counts in rows.items()]
    README.write_text("\n".join([before + HEADER, "|---|---|---|---|---|---|", *lines]) + "\n\n" + end)


class BudgetTest(GpuTest):
    def asked(self, steps, options):
        """What a rank asks for in a run of so many steps, by kind and name."""
        shutil.rmtree(self.folder / "model", ignore_errors=True)
        other = {"untrained_model_path": None, "image_size": 32} if "--model-name" in options else {}
        return self.counted(*self.train_arguments(
            batch_size=4, threads=1, epochs=None, steps=steps, precision=None if "--precision" in options else "fp32",
            print_freq=None if "--print-freq" in options else 1000, **other), *options, copy_us=0, sum_us=0)[0]

    def step(self, options):
        """The counts of a step by kind, and by name."""
        few, many = (self.asked(steps, options.split()) for steps in (FEW, MANY))
        each = {key: (many[key] - few[key]) / (MANY - FEW) for key in many if many[key] != few[key]}
        counts = [sum(count for (kind, _), count in each.items() if kind == of) for of in KINDS]
        return tuple(int(count) if count == int(count) else count for count in counts), each

    def test_a_step_asks_for_what_the_table_says(self):
        before, rows, end = table()
        found, stories = {}, []
        is_renewed = os.environ.get("KILN_RENEW") == "1"
        for options, expected in rows.items():
            if options not in BY_DAY and not is_renewed and os.environ.get("KILN_NIGHTLY") != "1":
                continue
            found[options], each = self.step(options)
            if found[options] != expected:
                stories.append(f"{options}: {found[options]}, {expected} in the table: {sorted(each.items())}")
        self.assertGreaterEqual(len(found), len(BY_DAY))
        if is_renewed:
            write(before, found, end)
        self.assertEqual(stories, [], "\n".join(["", *stories]))

    def account(self, *words, **settings):
        [account] = self.counted(*words, copy_us=0, **settings)
        return account

    def test_bench_step_waits_for_every_tenth_step_and_has_cudnn_measure(self):
        few, many = (self.account("step", "--device", "cuda", "--batch-size", 2, "--size", 32, "--steps", steps,
                                  program=(FOLDER / "kiln_bench",)) for steps in (10, 30))
        self.assertEqual(many["wait", "device"] - few["wait", "device"], 2)
        self.assertEqual({name for kind, name in many if kind == "algorithm"}, {"measured"})

    def test_cudnn_measures_only_where_50_batches_are_to_come(self):
        for steps, batch, way in ((49, 1, "guessed"), (25, 2, "measured")):
            account = self.account(*self.train_arguments(batch_size=4, threads=1, epochs=None, steps=steps, accumulate=batch))
            self.assertEqual({name for kind, name in account if kind == "algorithm"}, {way})

    # Counting them is a kernel and a copy, which the next sum waits for: 40 of BatchNorm, 3 of gradients.
    def test_sums_of_batch_norm_are_counted_every_eighth_time(self):
        _, each = self.step("--ranks 2 --sync-batch-norm")
        self.assertEqual(each["sum", "all-reduce"], 43)
        self.assertLessEqual(each["count", "sums"], 3 + 3 + 40 / 8)

    def test_inference_casts_the_weights_once(self):
        self.run_kiln(*self.train_arguments(epochs=1, batch_size=8, threads=1), copy_us=0)
        copies = []
        for size in (4, 2):
            account = self.account("score", "--trained-model-path", self.folder / "model", "--device", "cuda", "--batch-size", size,
                                   "--data-path", self.data / "val", "--output-path", self.folder / "scores.csv", "--precision", "bf16")
            copies.append((account["download", "pinned Float"], account["operator", "aten::copy_"]))
        (few, of_few), (many, of_many) = copies
        self.assertGreater(many, few)
        self.assertLess((of_many - of_few) / (many - few), 10)

    # The wait for a batch's logits comes after the next batch was queued, so only the last one counts.
    def test_score_and_evaluate_queue_a_batch_before_they_read_the_last(self):
        self.run_kiln(*self.train_arguments(epochs=1, batch_size=8, threads=1), copy_us=0)
        model = ["--trained-model-path", self.folder / "model", "--device", "cuda", "--batch-size", 4]
        for command, output in (("score", "scores.csv"), ("evaluate", "evaluation")):
            account = self.account(command, *model, "--data-path", self.data / "val", "--output-path", self.folder / output)
            batches = account["download", "pinned Float"]
            self.assertGreater(batches, 2)
            self.assertEqual(account["wait", "download"], 0, command)
            self.assertEqual(account["wait", "side stream"], 0, command)
            self.assertLessEqual(account["wait", "event"], 1, command)


if __name__ == "__main__":
    main()
