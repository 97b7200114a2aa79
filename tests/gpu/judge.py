"""What the steps of run.sh read from the records of kiln's runs. LOGS is the --log-path of a run.

    judge.py tell LOGS               the last epoch in one line: rates, memory, how busy the GPU was
    judge.py near SHARE LOGS LOGS    the losses of the first steps, all printed, differ by at most this share
    judge.py same LOGS LOGS          every loss of every epoch is the same number
    judge.py rates SHARE LOGS        the steps' average rate and the rate of the whole epoch agree up to this share
    judge.py scores LIMIT CSV CSV    the same labels in the same order, probabilities that differ by at most LIMIT
    judge.py beside FILE LOGS KEY=VALUE…    the run's rate over that of the line of torch_steps.py with these values

Prints a line for the table; exit 1 when what is asked for is not so. Standard library only.
"""
import csv
import json
import pathlib
import sys

STEPS_COMPARED = 2


def events(logs, kind):
    lines = (pathlib.Path(logs) / "metrics.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def epochs(logs):
    found = events(logs, "epoch")
    if not found:
        sys.exit(f"{logs} has no finished epoch")
    return found


def loss(sums):
    return sums["loss_sum"] / sums["images"]


def first_steps(logs):
    steps = [step for step in events(logs, "step") if step["epoch"] == 1]
    compared = min(STEPS_COMPARED, steps[0]["num_steps"])
    if [event["step"] for event in steps[:compared]] != list(range(1, compared + 1)):
        sys.exit(f"{logs} lacks one of the first {compared} steps: --print-freq 1 writes them")
    return [loss(step["batch"]) for step in steps[:compared]]


def tell(logs):
    first, last = epochs(logs)[0], epochs(logs)[-1]
    words = [f"{last['train_images_per_second']:.0f} img/s (epoch 1: {first['train_images_per_second']:.0f})",
             f"{last['valid']['images'] / last['valid_seconds']:.0f} validating",
             f"{100 * last['data_wait_seconds'] / last['train_seconds']:.0f} % waiting for images"]
    if last["cpu_share"]:
        words.append(f"processors {100 * last['cpu_share']:.0f} % busy")
    if last["peak_device_bytes"]:
        words.append(f"{last['peak_device_bytes'] / 1e9:.2f} GB of the GPU")
    if last["gpu"]:
        words.append("GPU " + ", ".join(f"{key} {value:.0f}" for key, value in last["gpu"].items()))
    if sums := last["gradient_sums"]:
        words.append("gradient sums " + ", ".join(f"{key} {value:.2f}" for key, value in sums.items()))
    return ", ".join(words), True


def near(limit, logs, other):
    """BatchNorm of nearly constant channels multiplies a difference by hundreds, so an epoch's loss is only told."""
    ours, theirs = first_steps(logs), first_steps(other)
    share = max(abs(one - two) / abs(two) for one, two in zip(ours, theirs, strict=True))
    ends = [f"{loss(epochs(folder)[0]['train']):.4f}" for folder in (logs, other)]
    return (f"{100 * share:.2g} % apart in {len(ours)} steps, at most {100 * float(limit):g} % allowed; "
            f"first epoch {' and '.join(ends)}"), share <= float(limit)


def same(logs, other):
    values = [[(epoch["train"], epoch["valid"]) for epoch in epochs(folder)] for folder in (logs, other)]
    differing = sum(ours != theirs for ours, theirs in zip(*values, strict=True))
    return f"{differing} of {len(values[0])} epochs differ", differing == 0


def rates(limit, logs):
    ratios = [epoch["average_images_per_second"] / epoch["train_images_per_second"] for epoch in epochs(logs)[1:]]
    worst = max(ratios, key=lambda ratio: abs(ratio - 1))
    return f"steps' rate / epoch's rate: {worst:.3f}", abs(worst - 1) <= float(limit)


def scores(limit, ours, theirs):
    """Labels of which the two most probable classes are closer than LIMIT may differ."""
    with open(ours) as first, open(theirs) as second:
        pairs = list(zip(csv.DictReader(first), csv.DictReader(second), strict=True))
    number, changed, worst = 0, 0, 0.0
    for one, other in pairs:
        probabilities = [key for key in one if key.startswith("probability")]
        if one["path"] != other["path"] or not probabilities:
            return f"the rows {one} and {other} cannot be compared", False
        values = sorted((float(other[key]) for key in probabilities), reverse=True)
        worst = max([worst] + [abs(float(one[key]) - float(other[key])) for key in probabilities])
        clear = values[0] - values[1] > float(limit)
        number, changed = number + 1, changed + (clear and one["label"] != other["label"])
    return (f"{number} images, {changed} other labels, probabilities {worst:.1e} apart",
            number > 0 and not changed and worst <= float(limit))


def beside(file, logs, *wanted):
    settings = dict(pair.split("=") for pair in wanted)
    rows = [json.loads(line) for line in pathlib.Path(file).read_text().splitlines()]
    matching = [row for row in rows if all(str(row[key]) == value for key, value in settings.items())]
    if len(matching) != 1:
        return f"{len(matching)} lines of torch_steps.py match {' '.join(wanted)}", False
    ours = epochs(logs)[-1]["train_images_per_second"]
    if "img_per_s" not in matching[0]:
        return f"{ours:.0f} img/s; PyTorch: {matching[0]['failure']}", True
    theirs = matching[0]["img_per_s"]
    return f"{ours:.0f} / {theirs:.0f} = {ours / theirs:.2f}", True


def main():
    commands = {function.__name__: function for function in (tell, near, same, rates, scores, beside)}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    line, is_so = commands[sys.argv[1]](*sys.argv[2:])
    print(line)
    return 0 if is_so else 1


if __name__ == "__main__":
    sys.exit(main())
