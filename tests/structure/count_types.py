#!/usr/bin/env python3
"""Counts the concepts that a reader of one training run meets: types declared in src/ that are named in the sources of
run/, train/ and data/loader which run_training reaches, once each.

    count_types.py [CHECKOUT] [--list]
"""
import argparse
import pathlib
import re

FOLDERS = ("run/", "train/", "data/loader/")
START = "run/training_run.cpp"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^\s*#[^\n]*', re.S | re.M)
DECLARATION = re.compile(r"\b(?:struct|class|enum\s+class|enum)\s+([A-Z]\w+)\s*(?:final\s*)?(?::[^:;{]*)?\{|"
                         r"\busing\s+([A-Z]\w+)\s*=")


def code(path):
    """A source without comments, texts and directives."""
    return COMMENT_OR_TEXT.sub(" ", path.read_text(encoding="utf-8"))


def reached(src):
    """The sources of FOLDERS that START includes, directly or not, each header with the source of its name."""
    found, waiting = set(), [START]
    while waiting:
        name = waiting.pop()
        if name in found or not name.startswith(FOLDERS) or not (src / name).is_file():
            continue
        found.add(name)
        waiting += INCLUDE.findall((src / name).read_text(encoding="utf-8"))
        waiting.append(re.sub(r"\.h$", ".cpp", name))
    return sorted(found)


def declared(src):
    sources = [path for path in src.rglob("*") if path.suffix in (".h", ".cpp")]
    return {name for path in sources for match in DECLARATION.finditer(code(path)) for name in match.groups() if name}


def types_of_a_run(src):
    """The files of the way, and the types named in them."""
    files = reached(src)
    words = set()
    for name in files:
        words |= set(re.findall(r"\b[A-Z]\w+", code(src / name)))
    return files, sorted(words & declared(src))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--list", action="store_true", help="print the names")
    arguments = parser.parse_args()
    files, types = types_of_a_run(arguments.checkout / "src")
    print(f"{len(types)} types in {len(files)} files")
    if arguments.list:
        print("\n".join(types))
