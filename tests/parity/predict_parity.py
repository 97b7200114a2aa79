"""From folders through train, score and evaluate, beside torchvision on the same weights (examples/predict.py): for a model from
fresh weights, one fine-tuned with torchvision's last layer and one with the designer's, each image's probabilities, and the loss
and top-1 that kiln reported. Then every kind of image file.
predict_parity.py KILN. Exit code 77: no torchvision beside LibTorch.
"""
import contextlib
import csv
import io
import json
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch_packages  # noqa: F401, before torch

import decode_parity
import torch
import torchvision

SCRIPT = Path(__file__).resolve().parents[2] / "examples/predict.py"
FRESH = []
# Images of 48x48 are resized to 40 and cut to 32.
PRETRAINED = ["--image-size", 32, "--eval-resize", 40, "--eval-crop", 32]


def check(kiln, folder, data, name, weights, options, by_name=False):
    def run(*arguments):
        subprocess.run([kiln, *map(str, arguments)], check=True, capture_output=True, cwd=folder)
    if by_name:
        network = ["--model-name", name, *weights]
    else:
        run("init-model", name, "--untrained-model-path", "untrained", *weights)
        network = ["--untrained-model-path", "untrained"]
    run("train", *network, "--train-data-path", data / "train", "--valid-data-path", data / "val",
        "--trained-model-path", "model", "--epochs", 2, "--learning-rate", 0.01, "--save", "last", *options)
    photos = sorted(str(path) for path in (data / "val").rglob("*.*") if path.suffix in (".jpg", ".png"))
    told = json.loads((folder / "model/training.json").read_text())["epochs"][-1]
    predict = runpy.run_path(str(SCRIPT))
    how = json.loads((folder / "model/preprocessing.json").read_text())
    if by_name:  # README's lines
        state = torch.load(folder / "model/model", weights_only=True)
        network = torchvision.models.get_model(name, weights=None, num_classes=3)
        network.load_state_dict({key.removeprefix("model."): value for key, value in state.items()})
    with torch.inference_mode():
        logits = predict["load_network"](folder / "model")(torch.stack([predict["prepare"](photo, how) for photo in photos]))
    classes = sorted({Path(photo).parent.name for photo in photos})
    truth = torch.tensor([classes.index(Path(photo).parent.name) for photo in photos])
    loss = torch.nn.functional.cross_entropy(logits, truth).item()
    # Pixels may differ by 1 of 255 where they are resized.
    assert abs(loss - told["valid_loss"]) < 0.001 * told["valid_loss"], f"{name}: {loss}, but kiln reported {told['valid_loss']}"

    # Where nothing is resized, only the order of sums differs: kiln folds BatchNorm into the convolutions.
    close = 1e-5 if options == FRESH else 0.01
    run("score", "--trained-model-path", "model", "--data-path", data / "val", "--output-path", "scores.csv", "--raw",
        "--all-classes")
    with open(folder / "scores.csv", newline="") as file:
        scores = {str(data / "val" / row["path"]): row for row in csv.DictReader(file)}
    assert set(scores) == set(photos)
    rows = torch.tensor([[float(scores[photo]["probability_" + label]) for label in classes] for photo in photos])
    worst = (rows - logits.softmax(1)).abs().max().item()
    assert worst < close, f"{name}: a probability is {worst} from torchvision's"
    run("score", "--trained-model-path", "model", "--data-path", data / "val", "--output-path", "calibrated.csv")
    with open(folder / "calibrated.csv", newline="") as file:
        calibrated = {str(data / "val" / row["path"]): row for row in csv.DictReader(file)}
    run("evaluate", "--trained-model-path", "model", "--data-path", data / "val", "--output-path", "evaluation")
    evaluated = json.loads((folder / "evaluation/evaluation.json").read_text())["models"][0]
    assert evaluated["top1"] == told["top1"], f"{name}: evaluate says {evaluated['top1']}, train said {told['top1']}"

    said = io.StringIO()
    sys.argv = [str(SCRIPT), str(folder / "model"), *photos]
    with contextlib.redirect_stdout(said):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    answers = [line.rsplit(": ", 1)[1].split()[0] for line in said.getvalue().splitlines()]
    assert len(answers) == len(photos) > 10, said.getvalue()
    for line in said.getvalue().splitlines():
        photo, answer = line.rsplit(": ", 1)
        confidence = float(answer.split(", ")[0].split()[1].rstrip("%")) / 100
        assert abs(confidence - float(calibrated[photo]["confidence"])) < close + 0.0006, f"{line}: {calibrated[photo]}"
    right = sum(answer == Path(photo).parent.name for answer, photo in zip(answers, photos))
    assert right == round(told["top1"] * len(photos)), f"{name}: {right} of {len(photos)} are right, not {told['top1']}"
    if by_name:
        check_bad_photos(folder, photos[0])
    if options == PRETRAINED or by_name:
        if by_name:  # a model that takes images as stored, of an input that is not square
            how["input_size"] = [40, 24]
            (folder / "model/preprocessing.json").write_text(json.dumps(how))
        network = predict["load_network"](folder / "model")
        with torch.inference_mode():
            check_kinds(kiln, folder, lambda path: network(predict["prepare"](path, how)[None])[0].softmax(0).tolist())
    kind = "given weights" if weights else "fresh weights"
    print(f"{name}, {kind}: loss {loss:.6f} and {told['valid_loss']:.6f}, {right} of {len(photos)} right, "
          f"probabilities within {worst:.1e}")


def check_bad_photos(folder, photo):
    """What is no photo costs a line and the exit code, and the rest is answered."""
    said, errors, code = io.StringIO(), io.StringIO(), 0
    sys.argv = [str(SCRIPT), str(folder / "model"), str(folder), str(SCRIPT), photo]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
        try:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        except SystemExit as end:
            code = end.code
    found = (code, len(said.getvalue().splitlines()), len(errors.getvalue().splitlines()))
    assert found == (1, 1, 2), f"{found}: {errors.getvalue()}"


def check_kinds(kiln, folder, probabilities_of):
    """Every kind of file that decode_parity.py makes, and every orientation: score's probabilities are predict.py's."""
    files = decode_parity.Cases(folder / "kinds")
    shutil.rmtree(files.folder, ignore_errors=True)
    files.folder.mkdir()
    rgb = decode_parity.picture()
    for add in (decode_parity.add_jpeg, decode_parity.add_png, decode_parity.add_tiff, decode_parity.add_bmp,
                decode_parity.add_others, decode_parity.add_turned):
        add(files, rgb)
    names = {}
    different = {path.read_bytes(): (name, path) for name, path, *_ in files.list}
    for name, path in different.values():  # the contents tell the format
        path.rename(path.with_suffix(".png"))
        names[path.with_suffix(".png").name] = name
    subprocess.run([kiln, "score", "--trained-model-path", "model", "--data-path", "kinds", "--output-path", "kinds.csv",
                    "--raw", "--all-classes"], check=True, capture_output=True, cwd=folder)
    with open(folder / "kinds.csv", newline="") as file:
        scores = {row["path"]: [float(value) for key, value in row.items() if key.startswith("probability_")]
                  for row in csv.DictReader(file)}
    assert set(scores) == set(names), set(names) - set(scores)
    for file, name in names.items():
        worst = max(abs(a - b) for a, b in zip(scores[file], probabilities_of(files.folder / file)))
        assert worst < 0.01, f"{name}: a probability of score is {worst} from predict.py's"
    print(f"{len(names)} kinds of files have the same probabilities")


def main(kiln):
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        for size in (32, 48):
            subprocess.run([kiln, "demo-data", "--output-path", scratch / str(size), "--images", "90", "--size", str(size)],
                           check=True, capture_output=True)
        torch.manual_seed(1)
        torch.save(torchvision.models.resnet18(weights=None).state_dict(), scratch / "resnet18.pth")
        check(kiln, scratch, scratch / "32", "resnet18", [], FRESH)
        check(kiln, scratch, scratch / "48", "resnet18", ["--weights", "resnet18.pth"], PRETRAINED)
        check(kiln, scratch, scratch / "32", "resnet18", ["--weights", "resnet18.pth"], FRESH, by_name=True)


main(sys.argv[1])
