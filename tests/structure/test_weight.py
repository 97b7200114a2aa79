"""What src/ weighs: at most what weight.txt says. A commit that makes something lighter lowers it there; one that makes
something heavier raises it there, with the reason."""
import collections
import io
import pathlib
import re
import subprocess
import tarfile
import tempfile

from tree import ROOT, TreeTest, main
from weight import CPP, code_lines, definitions, files, weigh

LIMITS = pathlib.Path(__file__).with_name("weight.txt")
MAX_SHOWN = 80


def limits():
    """Of each thing, the last limit in the file."""
    found = {}
    for line in LIMITS.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\s*(\d+) ([a-z ]+?)(?:  .*)?$", line):
            found[match[2]] = int(match[1])
    return found


def earlier(folder):
    """The tree at the last commit that changed weight.txt, written below `folder`; None without a history."""
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True).stdout
    try:
        commit = git("log", "-1", "--format=%H", "--", str(LIMITS)).decode().strip()
        tarfile.open(fileobj=io.BytesIO(git("archive", commit, "src"))).extractall(folder)
        return pathlib.Path(folder)
    except (OSError, subprocess.CalledProcessError, tarfile.TarError):
        return None


def what_came(before):
    """Folders of src/ that have more code than `before`, and names that it does not have."""
    def by_folder(root):
        sums = collections.Counter()
        for path in files(root / "src", *CPP):
            sums[str(path.parent.relative_to(root))] += code_lines(path)
        return sums
    old, new = by_folder(before), by_folder(ROOT)
    came = [f"{new[folder] - old[folder]:+} code lines in {folder}" for folder in sorted(new) if new[folder] > old[folder]]
    names = collections.Counter(definitions(ROOT)) - collections.Counter(definitions(before))
    came += [f"{name.kind} {name.name} in {name.path}" for name in sorted(names)]
    return came[:MAX_SHOWN] + [f"{len(came) - MAX_SHOWN} more"] * (len(came) > MAX_SHOWN)


class WeightTest(TreeTest):
    def test_nothing_is_heavier_than_it_says(self):
        allowed, weights = limits(), weigh(ROOT)
        self.assertEqual(set(allowed), set(weights))
        heavier = [f"{what}: {weight}, {allowed[what]} allowed" for what, weight in weights.items()
                   if weight > allowed[what]]
        if heavier:
            with tempfile.TemporaryDirectory() as folder:
                before = earlier(folder)
                came = what_came(before) if before else []
            self.fail("\n  ".join(["heavier than tests/structure/weight.txt says:", *heavier, "came:", *came]))


if __name__ == "__main__":
    main()
