"""The console's words, in one place: a session with the program equals transcript.txt, numbers that vary apart.

KILN_RENEW=1 writes transcript.txt anew; read its diff. Other tests look at fields, codes and option names.
"""
import os
import pathlib
import re
import shutil
import subprocess

from flow import KILN, FlowTest, main

GOLDEN = pathlib.Path(__file__).with_name("transcript.txt")
SESSION = [
    "inspect data",
    "inspect data/train",
    "train --untrained-model-path untrained --train-data-path data/train --valid-data-path data/val "
    "--trained-model-path model --epochs 2 --batch-size 8 --threads 2 --loader-threads 1 --device cpu",
    "inspect model",
    "compare logs logs",
    "train --untrained-model-path untrained --train-data-path data/trian --valid-data-path data/train "
    "--trained-model-path model",
    "train --epochs 0 --device gpu",
    "predict photo.jpg",
]
# What differs from run to run and from machine to machine.
VARIES = [(r"kiln \d+\.\d+\.\d+ \([0-9a-f]+\)", "kiln VERSION (COMMIT)"),
          (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?(,\d+)?( UTC)?", "DATE"),
          (r"\d+(\.\d+)? ?(ms|s|min|kB|MB|GB|images/s)\b", r"# \2"), (r"\d+(\.\d+)? %", "# %"), (r"\d+\.\d+", "#"),
          (r"(?m)^(logs .*)  \d+ +(\w+) +(\d/\d)( \(saved: \d\))? .*", r"\1  IMAGES/S  \2  \3  …"),
          (r"(?m)^  (images/s|saved epoch) .*", r"  \1 …"),
          (r"(?m)^\*? +\d +#.*", "  EPOCH …"),
          (r"(?m)^  (There is no evidence|It ).*", "  VERDICT"), (r" {2,}", "  ")]


class TranscriptTest(FlowTest):
    def test_session(self):
        for name in ("data", "untrained"):
            shutil.copytree(self.shared_folder / name, self.folder / name)
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache"), "OMP_NUM_THREADS": "2"}
        told = []
        for line in SESSION:
            ended = subprocess.run([KILN, *line.split()], cwd=self.folder, env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, timeout=120)
            text = ended.stdout.replace(str(self.folder), "FOLDER")
            for pattern, word in VARIES:
                text = re.sub(pattern, word, text)
            told += [f"$ kiln {line}", *text.rstrip("\n").splitlines(), f"[exit {ended.returncode}]", ""]
        text = "\n".join(told)
        if os.environ.get("KILN_RENEW"):
            GOLDEN.write_text(text, encoding="utf-8")
        self.maxDiff = None
        self.assertEqual(text.splitlines(), GOLDEN.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main()
