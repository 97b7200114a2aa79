"""Reads shards of `kiln pack` with the webdataset package: shards_parity.py KILN. Exit code 77: no webdataset."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent
TORCH = os.environ.get("KILN_TORCH_ROOT", str(SOURCE / ".deps" / "libtorch"))
sys.path[:0] = [str(SOURCE / ".deps" / "parity"), TORCH]

try:
    import webdataset
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def main(kiln):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        subprocess.run([kiln, "demo-data", "--output-path", folder / "data", "--images", "60"], check=True)
        data = folder / "data" / "train"
        subprocess.run([kiln, "pack", "--input-path", data, "--output-path", folder / "shards"], check=True)
        classes = (folder / "shards" / "classes.txt").read_text().splitlines()
        files = sorted(path for path in data.rglob("*") if path.is_file())
        expected = [(path.suffix, path.read_bytes(), classes.index(path.parent.name)) for path in files]
        shards = sorted(str(path) for path in (folder / "shards").glob("*.tar"))
        samples = webdataset.WebDataset(shards, shardshuffle=False).decode(only=["cls"])
        read = []
        for sample in samples:
            kinds = [key for key in sample if not key.startswith("__") and key != "cls"]
            assert len(kinds) == 1, kinds
            read.append(("." + kinds[0], sample[kinds[0]], sample["cls"]))
        assert read == expected, f"{len(read)} samples are not the {len(expected)} that were packed"
        print(f"webdataset {webdataset.__version__} read {len(read)} samples with their classes")


main(sys.argv[1])
