"""The table of bench/score.sh: medians with their spread, and what kiln's rate is in terms of each, run by run."""
import csv
import json
import pathlib
import statistics
import sys

folder = pathlib.Path(sys.argv[1])


def column(name, field="images_per_second"):
    """By run."""
    paths = sorted(folder.glob(f"{name}.*.json"), key=lambda path: int(path.name.split(".")[1]))
    return [json.loads(path.read_text())[field] for path in paths]


def spread(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def row(title, values, of=None):
    ratios = "" if of is None else f"  kiln is {spread([mine / one for mine, one in zip(of, values, strict=True)], '.2f')} x this"
    print(f"{title:34}{spread(values, '.1f'):28}{ratios}".rstrip())


def answers(path):
    with open(path, newline="", encoding="utf-8") as file:
        return {line["path"]: (line["label"], float(line["confidence"])) for line in csv.DictReader(file) if line["label"]}


kiln, forward, loader = column("kiln"), column("forward"), column("loader")
peers = [(path.stem, path.read_text().strip()) for path in sorted(folder.glob("peer-*.name"))]
rates = {name: column(stem) for stem, name in peers}
print("images/s, without starting the program")
row("kiln score", kiln)
row("its parts, one after the other", [1 / (1 / one + 1 / other) for one, other in zip(forward, loader, strict=True)], kiln)
row("  forward pass alone", forward)
row("  loader alone", loader)
for name, values in rates.items():
    row(name, values, kiln)
row("the fastest of these in each run", [max(values) for values in zip(*rates.values(), strict=True)], kiln)
print("\nimages/s of the forward pass alone")
row("kiln", forward)
for stem, name in peers:
    if found := column(stem + "-forward"):
        row(name.split(",")[0] + (", channels_last" if "channels_last" in name else ""), found, forward)
print("\nwhole program, s")
seconds = column("kiln", "total_seconds")
row("kiln score", seconds)
for stem, name in peers:
    row(name, column(stem, "total_seconds"), seconds)
print("\nanswers")
mine = answers(folder / "kiln.csv")
for stem, name in peers:
    other = answers(folder / f"{stem}.csv")
    both = mine.keys() & other.keys()
    same = sum(mine[path][0] == other[path][0] for path in both)
    apart = max((abs(mine[path][1] - other[path][1]) for path in both), default=float("nan"))
    print(f"{name:34}{len(mine)} of kiln, {len(other)} of this; {same} of {len(both)} labels are equal, "
          f"confidences differ by {apart:.1e} at most")
