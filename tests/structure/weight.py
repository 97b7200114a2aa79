"""What the project weighs: code lines, types and named functions of src/, and lines of what else people have to read.

    weight.py [CHECKOUT]

A code line is neither blank nor a comment, an #include, a #pragma, or the beginning or end of a namespace. Types and
functions are what universal-ctags finds: definitions, nested and local ones included, lambdas not.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

CPP = (".cpp", ".h", ".cu", ".cuh")
TYPES = ("class", "enum", "struct", "union")
NOT_CODE = re.compile(r"//|#\s*(include|pragma)\b|namespace\b|\}\s*//\s*namespace\b|$")
BLOCK_COMMENT = re.compile(r"^[ \t]*/\*.*?\*/[ \t]*", re.S | re.M)

Definition = collections.namedtuple("Definition", "kind name path scope")  # kind: "type", "function" or "typedef"


def files(folder, *suffixes):
    return sorted(path for path in folder.rglob("*") if path.suffix in suffixes)


def code_lines(path):
    text = BLOCK_COMMENT.sub("", path.read_text(encoding="utf-8"))
    return sum(not NOT_CODE.match(line.strip()) for line in text.splitlines())


def lines(paths):
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def definitions(root):
    """Every type and named function of src/."""
    tags = subprocess.run(
        ["ctags", "--languages=C++", "--langmap=C++:.cpp.h.cu.cuh", "--kinds-C++=csgtuf", "--output-format=json",
         "--fields=+Ks", "-f", "-", *map(str, files(root / "src", *CPP))],
        check=True, capture_output=True, text=True).stdout
    found = []
    for tag in map(json.loads, tags.splitlines()):
        if not tag["name"].startswith("__anon"):
            kind = "type" if tag["kind"] in TYPES else tag["kind"]
            path = str(pathlib.Path(tag["path"]).relative_to(root))
            scope = re.sub(r"__anon\w+", "", tag.get("scope", ""))  # whose number follows from the path
            found.append(Definition(kind, tag["name"], path, scope))
    return found


def weigh(root):
    """What tests/structure/weight.txt limits, by its names."""
    kinds = collections.Counter(definition.kind for definition in definitions(root))
    return {
        "code lines": sum(map(code_lines, files(root / "src", *CPP))),
        "types": kinds["type"],
        "functions": kinds["function"],
        "lines of pages": lines(files(root / "src", ".css", ".html", ".js")),
        "lines of python": lines(files(root / "python", ".py")) if (root / "python").is_dir() else 0,
        "lines of environment": lines(files(root / "environment", ".py")),
    }


if __name__ == "__main__":
    for what, weight in weigh(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()).items():
        print(f"{weight:6} {what}")
