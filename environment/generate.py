#!/usr/bin/env python3
"""Writes what is made from the program's table of options (`kiln describe --format json`). Standard library only.

    generate.py share OUT PROGRAM…      what a release has in share/: the documents, the manual page, completions of three shells,
                                        and the schema of a --config file
    generate.py files IMAGE PROGRAM…    files of this checkout: components that name this container image, tables of options

PROGRAM is `kiln`, or all the words that start it: docker run --rm IMAGE."""
import json
import pathlib
import subprocess
import sys

import component_files
import completions
from man_page import man_page
from option_tables import json_schema, with_tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLES = ("README.md", "docs/options.md")


def describe(program):
    done = subprocess.run([*program, "describe", "--format", "json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"generate.py: {' '.join(map(str, program))} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def share(described):
    """Path in share/ -> text."""
    commands = described["commands"]
    train = next(command for command in commands if command["name"] == "train")
    documents = {f"doc/kiln/{page.name}": page.read_text() for page in sorted((ROOT / "docs").glob("*.md"))}
    return {**documents,
            "man/man1/kiln.1": man_page(described, (ROOT / "docs/errors.md").read_text()),
            "bash-completion/completions/kiln": completions.bash(commands),
            "zsh/site-functions/_kiln": completions.zsh(commands),
            "fish/vendor_completions.d/kiln.fish": completions.fish(commands),
            "kiln/train.schema.json": json_schema(train)}


def components(described, image=None):
    """Path in this checkout -> text. The image is that of `build-image.sh cuda`, unless another one is named."""
    version, files = described["version"], {}
    image = image or f"kiln:{version}-cuda"
    for component in component_files.components(described["commands"]):
        name = component.name.replace(" ", "-") + ".yaml"
        azure = "component.yaml" if name == "train.yaml" else f"components/{name}"
        files[azure] = component_files.azure(component, version, image)
        files[f"components/kubeflow/{name}"] = component_files.kubeflow(component, version, image)
    return files


def pages(described):
    """Path in this checkout -> text."""
    return {name: with_tables((ROOT / name).read_text(), described["commands"]) for name in TABLES}


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("share", "files"):
        sys.exit(__doc__)
    described = describe(sys.argv[3:])
    if sys.argv[1] == "share":
        write(pathlib.Path(sys.argv[2]), share(described))
    else:
        write(ROOT, components(described, sys.argv[2]) | pages(described))


if __name__ == "__main__":
    main()
