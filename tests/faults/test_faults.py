"""The real program where calls to the system fail: full and broken disks, no threads, no memory, few descriptors. The
library of interpose.cpp (KILN_FAULTS) makes the n-th call fail; how many there are, a run without faults has counted.

Each run ends within seconds with one of the exit codes that its fault may have, and no final name holds a broken file. All
runs are listed.
With KILN_NIGHTLY=1 at every place, by day at some.
"""
import concurrent.futures
import errno
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "flow"))
from flow import KILN, FlowTest, kiln, main  # noqa: E402

LIBRARY = os.environ.get("KILN_FAULTS", str(pathlib.Path(KILN).parent / "tests/faults/libkiln_faults.so"))
NIGHTLY = os.environ.get("KILN_NIGHTLY") == "1"
PATIENCE = 60  # s; runs take seconds
HANG = "hang"
NOT_STARTED = 127  # the system's loader had no memory for the libraries
FILE_FAULTS = [("write", errno.ENOSPC, "from"), ("write", errno.EIO, "once"), ("write", errno.EIO, "short"),
               ("fsync", errno.EIO, "from"), ("rename", errno.EIO, "once"), ("open", errno.EACCES, "from"),
               ("mkdir", errno.ENOSPC, "from")]
SOME_FAULTS = [("write", errno.ENOSPC, "from"), ("rename", errno.EIO, "once")]  # by day; of pack all
ANY = (0, 1, 3)


class Outcome:
    def __init__(self, what, codes, code, text, seconds):
        self.what, self.codes, self.code, self.text, self.seconds, self.broken = what, codes, code, text, seconds, ""

    def is_answer(self):
        # The destructor of nlohmann's JSON allocates, and ends the program where it cannot.
        if self.code == -signal.SIGABRT and ": new " in self.what:
            return "what():  std::bad_alloc" in self.text
        return self.code in self.codes and "bug in kiln" not in self.text and not self.broken

    def row(self):
        sign = " " if self.is_answer() else "!"
        last = [line for line in self.text.strip().splitlines() if line] or [""]
        return f"{sign} {self.what:58} exit {self.code!s:>4} {self.seconds:5.1f} s  {self.broken or last[-1][:110]}"


def fault(call, number, first, how="from", prefix="-"):
    """The environment of a run in which this call fails."""
    return {"LD_PRELOAD": LIBRARY, "KILN_FAULT_PROGRAM": os.path.realpath(KILN),
            "KILN_FAULT": f"{call} {number} {first} {how} {prefix}"}


def run(what, arguments, environment=None, limit=None, codes=ANY):
    """`limit`: (resource, value) for the process; `codes`: how it may exit."""
    def bind():
        resource.setrlimit(limit[0], (limit[1], limit[1]))
    begin = time.monotonic()
    process = subprocess.Popen([KILN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", env={**os.environ, **(environment or {})},
                               preexec_fn=bind if limit else None, start_new_session=True)
    try:
        text, _ = process.communicate(timeout=PATIENCE)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        code, text = HANG, process.communicate()[0]
    return Outcome(what, codes, code, text, time.monotonic() - begin)


def some(numbers, by_day):
    """All by night; else as many, the last among them."""
    numbers = list(numbers)
    if NIGHTLY or len(numbers) <= by_day:
        return numbers
    if by_day == 1:
        return numbers[-1:]
    return sorted({numbers[round(i * (len(numbers) - 1) / (by_day - 1))] for i in range(by_day)})


def leftovers(folder, arguments):
    """Temporary files of a run that failed, after the same command once more where a journal says that it finishes them."""
    if any(folder.rglob(".kiln-journal")):
        again = kiln(*arguments)
        if again.returncode != 0:
            return [f"the next run does not finish the journal: {again.stderr}"]
    return [path.name for path in folder.rglob(".kiln-*") if path.name.startswith((".kiln-tmp-", ".kiln-journal"))]


def fault_of_model(folder):
    """Why a reader would take a broken model for whole; empty: none would."""
    if not (folder / "_meta.yaml").exists():
        return ""
    seen = kiln("inspect", folder)
    return "" if seen.returncode == 0 else f"_meta.yaml of a broken model: {seen.stderr}"


def fault_of_shards(folder, source):
    """Why shards that hold less than the source would be taken for all of it."""
    if not folder.is_dir() or not any(name.suffix == ".tar" for name in folder.iterdir()):
        return ""
    seen = kiln("inspect", folder, "--json")
    if seen.returncode != 0:
        return ""
    told = json.loads(seen.stdout)
    found = {entry["name"]: entry["images"] for entry in told["classes"]}
    expected = {path.name: len(list(path.iterdir())) for path in source.iterdir()}
    return "" if found == expected else f"taken for whole with {found}"


def fault_of_page(path):
    return "" if not path.exists() or path.read_text().rstrip().endswith("</html>") else f"{path.name} is cut"


def fault_of_records(path):
    """TensorBoard's: a length, its checksum, the bytes, their checksum."""
    data, at = path.read_bytes(), 0
    while at + 12 <= len(data):
        at += 16 + struct.unpack_from("<Q", data, at)[0]
    return "" if at == len(data) else f"{path.name} is cut"


def fault_of_logs(folder):
    for path in folder.rglob("metrics.jsonl") if folder.is_dir() else []:
        text = path.read_text()
        if text and not text.endswith("\n"):
            return "metrics.jsonl ends within a line"
        try:
            _ = [json.loads(line) for line in text.splitlines()]
        except ValueError as error:
            return f"metrics.jsonl: {error}"
    for path in folder.rglob("error_info.json") if folder.is_dir() else []:
        try:
            json.loads(path.read_text())
        except ValueError as error:
            return f"error_info.json: {error}"
    found = [fault_of_records(path) for path in folder.rglob("events.out.*")] if folder.is_dir() else []
    return "".join(found) or fault_of_page(folder / "report.html")


class FaultTest(FlowTest):
    """The runs of a test go two at a time; each has a folder."""

    @classmethod
    def setUpClass(cls):
        if not pathlib.Path(LIBRARY).exists():
            raise AssertionError(f"{LIBRARY} is not built")
        super().setUpClass()

    def new_folder(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self.folder))

    def go_through(self, title, cases):
        """`cases`: functions that run the program and give an Outcome. All are listed; the worst fail the test. One that may fail
        does: else none of them met its fault."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(lambda case: case(), cases))
        print(f"\n{title}: {len(outcomes)} runs, {sum(outcome.seconds for outcome in outcomes):.1f} s")
        for outcome in outcomes:
            print(outcome.row())
        sys.stdout.flush()
        bad = [outcome for outcome in outcomes if not outcome.is_answer()]
        self.assertEqual([outcome.row() for outcome in bad], [], "\n\n".join(outcome.text[-2000:] for outcome in bad))
        self.assertTrue(any(outcome.code for outcome in outcomes) or all(outcome.codes == (0,) for outcome in outcomes), title)

    def places(self, arguments, prefix):
        """How many calls of each kind a run without faults makes."""
        counts = self.new_folder() / "counts"
        seen = run("dry run", arguments, {**fault("count", 0, 0, "once", prefix), "KILN_FAULT_COUNTS": str(counts)})
        self.assertEqual(seen.code, 0, seen.text)
        return {call: int(number) for call, number in map(str.split, counts.read_text().splitlines())}

    def break_files(self, name, arguments_of, target_of, check, by_day, codes=ANY, full=None, faults=tuple(FILE_FAULTS), share=1):
        """Every fault at every call for a path below `target_of(folder)`, with `arguments_of(folder)`; only in the first
        `share` of the calls where their number differs from run to run. `full`: the exit codes on a disk that stays full."""
        def case(call, number, how, place, count):
            folder = self.new_folder()
            is_full = (call, number, how) == ("write", errno.ENOSPC, "from")
            outcome = run(f"{name}: {call} {place}/{count} {how} {errno.errorcode[number]}", arguments_of(folder),
                          fault(call, number, place, how, target_of(folder)), codes=full if is_full and full else codes)
            outcome.broken = check(folder, outcome) or "".join(leftovers(folder, arguments_of(folder))[:1])
            shutil.rmtree(folder, ignore_errors=True)
            return outcome

        folder, cases = self.new_folder(), []
        counts = self.places(arguments_of(folder), target_of(folder))
        for call, number, how in faults:
            for place in some(range(1, int(counts[call] * share) + 1), by_day):
                cases.append(lambda all=(call, number, how, place, counts[call]): case(*all))
        self.assertTrue(cases)
        self.go_through(name, cases)


class FileTest(FaultTest):
    def test_pack(self):
        source = self.folder / "source"  # for three shards
        for path in sorted((self.data / "train").rglob("*.png"))[::4]:
            (source / path.parent.name).mkdir(parents=True, exist_ok=True)
            (source / path.parent.name / path.name).write_bytes(path.read_bytes() + bytes(250_000))

        def check(folder, outcome):
            made = (folder / "out").is_dir() and any((folder / "out").glob("*.tar"))
            return fault_of_shards(folder / "out", source) or (
                "exit 0 without shards" if outcome.code == 0 and not made else "")
        self.break_files("pack", lambda folder: ["pack", "--input-path", source, "--output-path", folder / "out",
                                                 "--shard-mb", 1],
                         lambda folder: folder / "out", check, by_day=1, full=(3,))

    def test_init_model(self):
        def check(folder, outcome):
            whole = (folder / "out/_meta.yaml").exists()
            return fault_of_model(folder / "out") or ("exit 0 without a model" if outcome.code == 0 and not whole else "")
        self.break_files("init-model",
                         lambda folder: ["init-model", "resnet18", "--untrained-model-path", folder / "out"],
                         lambda folder: folder / "out", check, by_day=1, full=(3,), faults=FILE_FAULTS if NIGHTLY else SOME_FAULTS)

    def test_report(self):
        self.assertEqual(self.train().returncode, 0)
        logs = self.folder / "logs"

        def check(folder, outcome):
            missing = outcome.code == 0 and not (folder / "out.html").exists()
            return fault_of_page(folder / "out.html") or ("exit 0 without a page" if missing else "")
        self.break_files("report", lambda folder: ["report", logs, "--output-path", folder / "out.html"],
                         lambda folder: folder, check, by_day=1, full=(3,), faults=FILE_FAULTS if NIGHTLY else SOME_FAULTS)

    def training(self, folder, **options):
        return self.train_arguments(trained_model_path=folder / "model", log_path=folder / "logs", loader_threads=1,
                                    threads=1, **options)

    def test_train_and_its_model(self):
        """An earlier model stays where a full disk has no room for the new one."""
        earlier = (self.trained_model / "model").read_bytes()

        def arguments(folder):
            if not (folder / "model").exists():
                shutil.copytree(self.trained_model, folder / "model")
            return self.training(folder)

        def check(folder, outcome):
            model = folder / "model/model"
            is_new = not model.exists() or model.read_bytes() != earlier
            whole = (folder / "model/_meta.yaml").exists()
            return (fault_of_model(folder / "model") or fault_of_logs(folder / "logs") or
                    ("exit 0 without a new model" if outcome.code == 0 and not (whole and is_new) else "") or
                    ("the earlier model is gone" if ": write " in outcome.what and outcome.code != 0 and is_new else ""))
        faults = FILE_FAULTS if NIGHTLY else SOME_FAULTS
        self.break_files("train, model", arguments, lambda folder: folder / "model", check, 1, full=(3,), faults=faults)

    def test_a_mount_that_cannot_rename_is_refused_before_the_work(self):
        """As an output on a mounted bucket; checkpoints and logs need no rename."""
        self.assertEqual(self.train().returncode, 0)
        commands = {
            "init-model": lambda folder: ["init-model", "resnet18", "--untrained-model-path", folder / "out"],
            "pack": lambda folder: ["pack", "--input-path", self.data / "train", "--output-path", folder / "out"],
            "score": lambda folder: ["score", "--trained-model-path", self.folder / "model", "--data-path",
                                     self.data / "val", "--output-path", folder / "out/scores.csv"],
            "evaluate": lambda folder: ["evaluate", "--trained-model-path", self.folder / "model", "--data-path",
                                        self.data / "val", "--output-path", folder / "out"],
            "train": lambda folder: self.train_arguments(
                trained_model_path=folder / "out", log_path=folder / "logs", loader_threads=1, threads=1)}

        def case(name, arguments_of):
            folder = self.new_folder()
            (folder / "out").mkdir()
            outcome = run(f"{name}: no rename", arguments_of(folder), fault("rename", errno.ENOSYS, 1, "from", folder / "out"),
                          codes=(3,))
            outcome.broken = "it worked first" if "Epoch 1," in outcome.text else "".join(leftovers(folder, [])[:1])
            return outcome
        self.go_through("no rename", [lambda all=all: case(*all) for all in commands.items()])

    def test_train_goes_on_without_a_checkpoint(self):
        """One is missed, and nothing else: the run ends with its model, and what is left of checkpoints is whole."""
        def arguments(folder):
            return [*self.training(folder), "--checkpoint-path", folder / "checkpoints", "--checkpoint-every", "1step"]

        def check(folder, outcome):
            if outcome.code == 0 and not (folder / "model/_meta.yaml").exists():
                return "exit 0 without a model"
            if outcome.code == 0 and "could not be written" not in outcome.text and " short " not in outcome.what:
                return "a fault that is not told"  # the rest of a short write is written
            for part in (folder / "checkpoints").glob("checkpoint-*"):
                if kiln("inspect", part).returncode != 0:
                    return f"{part.name} is not whole"
            return ""
        once = [("write", errno.ENOSPC, "once"), ("fsync", errno.EIO, "once"), ("write", errno.EIO, "short")]
        once = once if NIGHTLY else once[:1]
        # The probe before the run begins is the first call, and its fault is one of the command line.
        self.break_files("train, checkpoints", arguments, lambda folder: folder / "checkpoints", check, 3 if NIGHTLY else 1,
                         codes=(0,) if not NIGHTLY else (0, 3), faults=once,
                         share=0.5)  # a checkpoint is skipped while a slow one is being written

    def test_a_checkpoint_is_skipped_while_another_is_written(self):
        """To a disk that takes 0.4 s for each sync."""
        folder = self.new_folder()
        checkpoints = folder / "checkpoints"
        seen = run("slow disk", [*self.training(folder, batch_size=8), "--checkpoint-path", checkpoints,
                                 "--checkpoint-every", "1step"],
                   fault("fsync", 400, 1, "slow", checkpoints))
        self.assertEqual((seen.code, seen.text.count("is skipped")), (0, 1), seen.text)
        self.assertLess(max(int(part.name[-6:]) for part in checkpoints.glob("checkpoint-*")), 6)  # steps

    def test_train_goes_on_without_its_logs(self):
        def check(folder, outcome):
            lost = not (folder / "model/_meta.yaml").exists()
            silent = ": write " in outcome.what and " from " in outcome.what and "warning" not in outcome.text
            return (fault_of_logs(folder / "logs") or ("exit 0 without a model" if outcome.code == 0 and lost else "") or
                    ("a fault that is not told" if silent else ""))
        writes = [("write", errno.ENOSPC, "from"), ("write", errno.EIO, "short"), ("fsync", errno.EIO, "from"),
                  ("rename", errno.EIO, "once")]
        self.break_files("train, logs", self.training, lambda folder: folder / "logs", check, 1,
                         codes=(0,), faults=writes if NIGHTLY else writes[:1])
        if NIGHTLY:
            self.break_files("train, logs", self.training, lambda folder: folder / "logs", check, 1,
                             faults=[("open", errno.EACCES, "from"), ("mkdir", errno.ENOSPC, "from")])


class ClockTest(FaultTest):
    def test_a_clock_that_jumps_changes_nothing(self):
        """By three days either way, while the launcher and its ranks are at work."""
        models, warnings, days = {}, {}, {}

        def case(hours):
            folder = self.new_folder()
            outcome = run(f"train --ranks 2: the clock jumps by {hours} h",
                          self.train_arguments(trained_model_path=folder / "model", log_path=folder / "logs", ranks=2,
                                               epochs=2, loader_threads=1, threads=1), fault("clock", hours, 20, "from"),
                          codes=(0,))
            if outcome.code == 0:
                models[hours], warnings[hours] = (folder / "model/model").read_bytes(), outcome.text.count("warning")
                lines = (folder / "logs/70_driver_log_0.txt").read_text().splitlines()
                days[hours] = len({line[:10] for line in lines if line[:2] == "20"})
            return outcome
        jumps = (72, -72) if NIGHTLY else (-72,)
        self.go_through("clock", [lambda hours=hours: case(hours) for hours in (0, *jumps)])
        self.assertEqual({hours for hours, count in days.items() if count > 1}, set(jumps), "it jumped while they ran")
        self.assertEqual((len(models), len(set(models.values())), len(set(warnings.values()))), (1 + len(jumps), 1, 1),
                         warnings)


class LimitTest(FaultTest):
    def commands(self):
        """Name -> the arguments of a run in this folder."""
        return {"inspect": lambda folder: ["inspect", self.data / "train", "--check"],
                "pack": lambda folder: ["pack", "--input-path", self.data / "train", "--output-path", folder / "out"],
                "train": lambda folder: self.train_arguments(trained_model_path=folder / "model", log_path=folder / "logs",
                                                             loader_threads=4, threads=1),
                "train --ranks 2": lambda folder: self.train_arguments(
                    trained_model_path=folder / "model", log_path=folder / "logs", ranks=2, loader_threads=2, threads=1)}

    def limited(self, title, by_night, by_day, environment_of=None, limit_of=None, codes_of=lambda name, value: ANY):
        """`by_night`: the values for all commands; `by_day`: those of each, by its name."""
        def case(name, arguments_of, value):
            folder = self.new_folder()
            outcome = run(f"{name}: {title} {value}", arguments_of(folder), environment_of and environment_of(value),
                          limit_of and limit_of(value), codes_of(name, value))
            outcome.broken = (fault_of_model(folder / "model") if "train" in name else "") or fault_of_logs(folder / "logs")
            shutil.rmtree(folder, ignore_errors=True)
            return outcome
        cases = [lambda all=(name, arguments_of, value): case(*all) for name, arguments_of in self.commands().items()
                 for value in (by_night if NIGHTLY else by_day.get(name, ()))]
        self.go_through(title, cases)

    def test_threads(self):
        """Commands do without helpers; training without any is refused."""
        self.limited("threads fail from", range(1, 21), {"inspect": (1,), "train": (1, 7), "train --ranks 2": (3,)},
                     environment_of=lambda first: fault("thread", errno.EAGAIN, first),
                     codes_of=lambda name, first: (0,) if "train" not in name else (3,) if (name, first) == ("train", 1) else ANY)

    def test_descriptors(self):
        self.limited("descriptors", range(5, 31), {"inspect": (5,), "train": (6,), "train --ranks 2": (30,)},
                     limit_of=lambda value: (resource.RLIMIT_NOFILE, value), codes_of=lambda name, value: (*ANY, NOT_STARTED))

    def test_address_space(self):
        self.limited("address space, MiB", range(256, 4097, 256), {"inspect": (1536,), "train": (768, 1024)},
                     limit_of=lambda value: (resource.RLIMIT_AS, value << 20),
                     codes_of=lambda name, value: (3,) if value < 1024 else ANY)

    def test_allocations(self):
        """One that fails, and all from one on."""
        for name, arguments_of in self.commands().items():
            if name == "train --ranks 2" or name != "pack" and not NIGHTLY:
                continue
            places = self.places(arguments_of(self.new_folder()), "-")
            self.assertGreater(places["own"], 1000)
            count, cases = places["new"], []
            for how in ("once", "from"):
                for place in some(range(1, count + 1, max(1, count // 200)), 2):
                    cases.append(lambda name=name, arguments_of=arguments_of, how=how, place=place, count=count: run(
                        f"{name}: new {place}/{count} {how}", arguments_of(self.new_folder()),
                        fault("new", errno.ENOMEM, place, how), codes=(0, 3)))
            self.assertTrue(cases)
            self.go_through(f"allocations of {name}", cases)


if __name__ == "__main__":
    main()
