"""`kiln export`, run by the libraries that its files are for (timm among them), beside what `kiln score` answers.

    export_parity.py KILN            all but MLflow
    export_parity.py KILN mlflow     MLflow's models alone

ONNX: onnx.checker, and ONNX Runtime on photos of any size and on normalized pixels. By day one network of each kind and every
24th photo; with KILN_NIGHTLY=1 all of them. Exit code 77: no onnxruntime, or no MLflow (environment/install.sh).
"""
import base64
import contextlib
import csv
import io
import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile

import torch_packages

PACKAGES = os.environ.get("KILN_ONNX_PACKAGES") or os.path.join(torch_packages.ROOT, ".deps", "onnx")
if not os.path.isdir(os.path.join(PACKAGES, "onnxruntime")):
    print(f"skipped: no onnxruntime in {PACKAGES}; run environment/install.sh")
    sys.exit(77)
sys.path.append(PACKAGES)
MLFLOW_PACKAGES = os.path.join(torch_packages.ROOT, ".deps", "mlflow")

import numpy  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import timm  # noqa: E402
import timm.data  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from PIL import Image, PngImagePlugin  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

PREDICT = runpy.run_path(str(pathlib.Path(__file__).resolve().parents[2] / "examples/predict.py"))
SHARED = pathlib.Path(os.environ.get("KILN_SHARED", pathlib.Path(torch_packages.ROOT).parent / "shared"))
MODELS = ["resnet18", "densenet121"]
# Of pixels alone: random ones amplify what a resized photo is rounded by.
OF_PIXELS = ["mobilenet_v3_large", "efficientnet_b0", "efficientnet_v2_s", "convnext_tiny"]
TRAINED = ["efficientnet_v2_s"]  # of a random one all answers are rounding, PyTorch's too
OTHERS = ["resnet34", "resnet50", "resnext50_32x4d", "resnet101", "resnet152", "resnext101_32x8d", "wide_resnet50_2",
          "wide_resnet101_2", "densenet161", "densenet169", "densenet201"]
OTHERS_OF_PIXELS = ["convnext_small", "convnext_base", "mobilenet_v3_small", "efficientnet_b2", "efficientnet_b3"]
FAMILIES = {"densenet": "DenseNet", "mobilenet": "MobileNetV3", "efficientnet": "EfficientNet", "convnext": "ConvNeXt", "vit": "ViT"}
LABELS = ["ant", "bee, wild", "cät", "dog", "eel"]
SIZE, SHORT = 64, 73
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
NIGHTLY = bool(os.environ.get("KILN_NIGHTLY"))
# Resizing may round one value in a thousand to the next level, and float16 rounds every weight, which these random networks
# amplify more than trained ones, the deepest ones most.
FROM_PHOTOS, FROM_PIXELS, FROM_HALF, CLEAR = 1e-2, 1e-4, 0.1, 0.01
TIMM_LOGITS = 1e-5
FROM_PIXELS_OF_ALL = 5e-3  # of two photos in 284 PyTorch's float32 is 1e-3 from its float64 with a random EfficientNet


SPEC = """flavor: {{name: pytorch, serialization_method: state_dict}}
model_file: model
time_created: 2026-01-01T00:00:00.000000+0000
flavor_extras:
  module: azureml.designer.modules.dl.pytorch.initialize_models.vision.classification.{module}
  class: {family}
  is_cuda: false
  init_params:
    model_name: {name}
    pretrained: {pretrained}
    num_classes: {classes}
task_type: MultiClassification
label_map_file: index_to_label.csv
"""


class Model:
    """A ModelDirectory of a random network whose answers on `photos` differ."""

    def __init__(self, folder, name, photos, with_output_layer=False, **preprocessing):
        self.folder, self.name = folder, name
        folder.mkdir()
        self.how = {"version": 1, "exif": "apply", "resize_short_side": SHORT, "keep_exact_size": True,
                    "input_size": [SIZE, SIZE], "mean": MEAN, "std": STD, **preprocessing}
        torch.manual_seed(len(name))
        network = torchvision.models.get_model(name, weights=None, num_classes=1000 if with_output_layer else len(LABELS))
        with torch.no_grad():
            for module in network.modules():
                if isinstance(module, torch.nn.BatchNorm2d):
                    module.weight.uniform_(0.5, 1.0)
                    module.bias.uniform_(-0.2, 0.2)
                    module.running_mean.uniform_(-0.2, 0.2)
                    module.running_var.uniform_(0.8, 1.5)
                elif isinstance(module, torch.nn.Linear):  # fresh ones may be so small that answers differ by rounding alone
                    module.weight.normal_(0, module.in_features ** -0.5)
            for key, value in network.named_parameters():
                if key.endswith("layer_scale"):
                    value.uniform_(0.5, 1.0)
            if name in TRAINED:
                train(network, torch.stack([PREDICT["prepare"](photo, self.how) for photo in photos[:16]]))
            if name in OF_PIXELS:  # statistics of images, or else all answers are the same but for rounding
                network.train()(torch.stack([PREDICT["prepare"](photo, self.how) for photo in photos[:32]]))
                for module in network.modules():
                    if isinstance(module, torch.nn.BatchNorm2d):
                        module.momentum = None  # the mean of all batches
                        module.reset_running_stats()
                network(torch.stack([PREDICT["prepare"](photo, self.how) for photo in photos[:32]]))
                network.eval()
        state = {"model." + key: value for key, value in network.state_dict().items()}
        if with_output_layer:
            state["out_linear_model.weight"] = torch.randn(len(LABELS), 1000) / 30
            state["out_linear_model.bias"] = torch.randn(len(LABELS)) / 30
        last = list(state)[-2:]
        (folder / "preprocessing.json").write_text(json.dumps(self.how))
        family = next((family for start, family in FAMILIES.items() if name.startswith(start)), "ResNet")
        (folder / "model_spec.yaml").write_text(SPEC.format(
            module=family.lower(), family=family, name=name, pretrained=str(with_output_layer).lower(), classes=len(LABELS)))
        # Of a random network all answers are nearly the same: without their mean, and as far apart as a trained one's.
        with torch.inference_mode():
            logits = self.network(state)(torch.stack([PREDICT["prepare"](photo, self.how) for photo in photos[:32]]))
        scale = 1 / logits.std(0).mean()
        state[last[0]] *= scale
        state[last[1]] = (state[last[1]] - logits.mean(0)) * scale
        self.state = state
        save_file(state, folder / "model")
        (folder / "_meta.yaml").write_text("type: ModelDirectory\nextension: {}\nmodel: model_spec.yaml\n")
        (folder / "index_to_label.csv").write_text(
            ",label\n" + "".join(f'{i},"{label}"\n' for i, label in enumerate(LABELS)))
        (folder / "calibration.json").write_text(json.dumps({"version": 1, "temperature": 1.5, "answers": []}))

    def network(self, state):
        """torchvision's, with this state; a transformer for images of one size."""
        if self.name.startswith("vit"):
            network = torchvision.models.get_model(self.name, num_classes=len(LABELS), image_size=SIZE)
            own = {key.removeprefix("model."): value for key, value in state.items()}
            first, others = own["encoder.pos_embedding"].split([1, 14 * 14], 1)
            others = torch.nn.functional.interpolate(others.reshape(1, 14, 14, -1).permute(0, 3, 1, 2), (SIZE // 16, SIZE // 16),
                                                     mode="bicubic", antialias=True)
            own["encoder.pos_embedding"] = torch.cat([first, others.flatten(2).permute(0, 2, 1)], 1)
            network.load_state_dict(own)
            return network.eval()
        torch.save(state, self.folder / "model")
        return PREDICT["load_network"](self.folder)

    def score(self, kiln, photos):
        """Path -> label and probabilities, as the program says."""
        output = self.folder.with_suffix(".csv")
        run(kiln, "score", "--trained-model-path", self.folder, "--data-path", photos, "--output-path", output, "--all-classes")
        with open(output, newline="") as file:
            return {row["path"]: (row["label"], [float(row["probability_" + label]) for label in LABELS])
                    for row in csv.DictReader(file)}

    def export(self, kiln, suffix, *words):
        output = self.folder.with_suffix(suffix)
        run(kiln, "export", "--trained-model-path", self.folder, "--output-path", output, *words)
        return output


@torch.enable_grad()
def train(network, images):
    """Some steps, until the answers to the images differ."""
    optimizer, labels = torch.optim.AdamW(network.parameters(), 1e-3), torch.arange(len(images)) % len(LABELS)
    for _ in range(12):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network.train()(images), labels).backward()
        optimizer.step()


def run(*words):
    result = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{words}: {result.stdout}{result.stderr}"
    return result.stdout


def compared(what, answers, scores, limit):
    """The largest difference of `answers` (path -> probabilities) from the scores; labels are the same where they are clear."""
    assert set(answers) == set(scores), set(answers) ^ set(scores)
    worst = 0
    for path, probabilities in answers.items():
        label, expected = scores[path]
        worst = max(worst, max(abs(a - b) for a, b in zip(probabilities, expected)))
        second, first = sorted(expected)[-2:]
        is_clear = first - second > max(CLEAR, 2 * limit)
        assert not is_clear or LABELS[int(numpy.argmax(probabilities))] == label, f"{what}: {path}: {probabilities}"
    apart = numpy.ptp([probabilities for _, probabilities in scores.values()], axis=0).max()
    assert apart > 0.05 or len({label for label, _ in scores.values()}) > 1, f"{what}: all answers are {next(iter(scores.values()))}"
    assert worst <= limit, f"{what}: a probability is {worst:.2g} from the program's"
    return worst


def open_onnx(path):
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["probabilities", "logits"]
    return session


def from_photo(session, path, how):
    image = numpy.asarray(PREDICT["read_photo"](path, how["exif"]))
    return session.run(["probabilities"], {"image": image[None]})[0][0].tolist()


def check_onnx(kiln, model, photos, crops):
    """The largest differences: from photos, with float16 weights, and from pixels."""
    session = open_onnx(model.export(kiln, ".onnx"))
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["labels"]) == LABELS
    assert json.loads(facts["preprocessing"]) == model.how
    assert facts["exif_orientation"] == "apply"
    scores = model.score(kiln, photos)
    answers = {name: from_photo(session, photos / name, model.how) for name in scores}
    worst = [compared(f"{model.name} from photos", answers, scores, FROM_PHOTOS)]

    half_path = model.export(kiln, ".half.onnx", "--half")
    assert half_path.stat().st_size < 0.6 * model.folder.with_suffix(".onnx").stat().st_size
    half = open_onnx(half_path)
    answers = {name: from_photo(half, photos / name, model.how) for name in scores}
    worst.append(compared(f"{model.name}, float16", answers, scores, FROM_HALF))

    return [*worst, check_pixels(kiln, model, crops)]


def check_pixels(kiln, model, crops, limit=FROM_PIXELS):
    pixels = open_onnx(model.export(kiln, ".pixels.onnx", "--input", "pixels"))
    scores = model.score(kiln, crops)
    batch = numpy.stack([PREDICT["prepare"](crops / name, model.how).numpy() for name in scores])
    rows, logits = pixels.run(None, {"pixels": batch})
    assert logits.shape == (len(scores), len(LABELS))
    return compared(f"{model.name} from pixels", dict(zip(scores, rows.tolist())), scores, limit)


def check_preparations(kiln, folder, photos, crops):
    """Every way in which a model prepares images, on photos and on images of its own size."""
    ways = [{"resize_short_side": None}, {"resize_short_side": None, "input_size": [48, SIZE]}, {"keep_exact_size": False},
            {"version": 2, "resize_short_side": None, "transforms": [["Resize", 70], ["CenterCrop", SIZE]]},
            {"version": 2, "resize_short_side": None, "transforms": [["Resize", {"size": [80, 90]}]]},
            {"resize_short_side": None, "fit": "stretch"},
            {"resize_short_side": None, "fit": "pad", "fill": [124, 116, 104]},
            {"resize_short_side": None, "fit": "pad", "fill": [90, 110, 130], "input_size": [48, SIZE]}]
    shapes = folder / "shapes"
    shapes.mkdir()
    for number, photo in enumerate(sorted(photos.iterdir())[:10]):
        size = ((128, 96), (40, 160), (160, 40), (1, 900), (900, 1))[number % 5]
        Image.open(photo).convert("RGB").resize(size).save(shapes / f"{number}.png")
    for number, how in enumerate(ways):
        model = Model(folder / f"way{number}", "resnet18", sorted(photos.iterdir()), **how)
        session = open_onnx(model.export(kiln, ".onnx"))
        for images in (photos, crops, shapes):
            scores = model.score(kiln, images)
            answers = {name: from_photo(session, images / name, model.how) for name in scores}
            worst = compared(f"{how}", answers, scores, FROM_PHOTOS)
            print(f"{json.dumps(how)}, {images.name}: probabilities within {worst:.1e}")
        if "fit" in how:
            check_torchvision(kiln, model, shapes)


def run_card(exported, photos, names):
    """What the lines in the model card, as they are, answer for each photo."""
    card = exported / "README.md" if exported.is_dir() else exported.with_name(f"{exported.name}.md")
    code = card.read_text().split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line.strip()]) < 30, code
    code = code.replace(f'"{exported.name}"', f'"{exported}"').replace(f":{exported.name}", f":{exported}")
    answers, cwd = {}, os.getcwd()
    for name in names:
        os.chdir(photos)
        named = {}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code.replace("photo.jpg", name), named)  # noqa: S102
        os.chdir(cwd)
        answers[name] = torch.as_tensor(named["probabilities"]).flatten().tolist()
    assert named["labels"] == LABELS
    return answers


def check_torchvision(kiln, model, photos):
    scores = model.score(kiln, photos)
    answers = run_card(model.export(kiln, ".pth", "--format", "torchvision"), photos, list(scores)[:8])
    worst = compared(f"{model.name} in torchvision", answers, {name: scores[name] for name in answers}, FROM_PHOTOS)
    print(f"{model.name} in torchvision: probabilities within {worst:.1e}")


def check_timm(kiln, model, crops):
    """What timm loads from the folder answers as torchvision's network in float64, and the card's lines as the program."""
    folder = model.export(kiln, ".timm", "--format", "timm")
    theirs = timm.create_model(f"local-dir:{folder}", pretrained=True).eval().double()
    how = timm.data.resolve_model_data_config(theirs)
    assert theirs.pretrained_cfg["label_names"] == LABELS, theirs.pretrained_cfg
    assert [*how["input_size"]] == [3, SIZE, SIZE] and [*how["mean"]] == MEAN and [*how["std"]] == STD, how
    resized = timm.data.create_transform(**how).transforms[0].size
    assert resized == SHORT, resized
    ours = model.network(model.state).double()  # through the model's file
    save_file(model.state, model.folder / "model")
    images = torch.stack([PREDICT["prepare"](path, model.how) for path in sorted(crops.iterdir())[:8]]).double()
    with torch.inference_mode():
        worst = (theirs(images) - ours(images)).abs().max().item()
    assert worst < TIMM_LOGITS, f"{model.name} in timm: a logit is {worst:.2g} from torchvision's"
    scores = model.score(kiln, crops)
    answers = run_card(folder, crops, list(scores)[:8])
    limit = FROM_PIXELS_OF_ALL if NIGHTLY else FROM_PIXELS
    compared(f"{model.name} in timm", answers, {name: scores[name] for name in answers}, limit)
    print(f"{model.name} in timm: logits within {worst:.1e}")


def make_odd_photos(folder, image):
    """16 bits of gray, and orientations in EXIF and in XMP, which the program does not read."""
    folder.mkdir()
    rotated = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    bare, turned, text = Image.Exif(), Image.Exif(), PngImagePlugin.PngInfo()
    bare[0x010F], turned[0x0112] = "a camera", 6
    text.add_itxt("XML:com.adobe.xmp", rotated.decode())
    wide = numpy.asarray(image.convert("L")).astype(numpy.uint16) * 257
    for kind in ("png", "tif"):
        Image.fromarray(wide).save(folder / f"gray.{kind}")
    Image.fromarray(wide).save(folder / "white-is-zero.tif", tiffinfo={262: 0})
    image.save(folder / "plain.png")
    image.save(folder / "xmp.png", pnginfo=text)
    image.save(folder / "exif.png", exif=turned)
    image.save(folder / "xmp.tif", tiffinfo={700: rotated})
    image.save(folder / "exif.tif", tiffinfo={0x0112: 6})
    image.save(folder / "xmp.jpg", quality=97, xmp=rotated)
    image.save(folder / "exif-and-xmp.jpg", quality=97, xmp=rotated, exif=bare)
    image.save(folder / "exif.jpg", quality=97, exif=turned)


def check_odd_photos(kiln, folder, photos):
    """All that is exported reads photos as the program does, whether it turns them or not."""
    make_odd_photos(folder / "odd", Image.open(sorted(photos.iterdir())[0]).convert("RGB").resize((90, 70)))
    for exif in ("apply", "ignore"):
        model = Model(folder / f"odd-{exif}", "resnet18", sorted(photos.iterdir()), exif=exif)
        scores = {name: numpy.array(shares) for name, (_, shares) in model.score(kiln, folder / "odd").items()}
        turns = abs(scores["exif.png"] - scores["plain.png"]).max()
        assert (turns > 2 * FROM_PHOTOS) == (exif == "apply"), f"{exif}: {scores}"
        mlflow = model.export(kiln, ".mlflow", "--format", "mlflow")
        classifier = runpy.run_path(str(mlflow / "code/kiln_classifier.py"))["Classifier"](str(mlflow / "data/model.onnx"))
        session = open_onnx(mlflow / "data/model.onnx")
        ways = {"MLflow": {name: classifier.answer((folder / "odd" / name).read_bytes())["probabilities"] for name in scores},
                "predict.py": {name: from_photo(session, folder / "odd" / name, model.how) for name in scores},
                "ONNX": run_card(model.export(kiln, ".onnx"), folder / "odd", scores),
                "torchvision": run_card(model.export(kiln, ".pth", "--format", "torchvision"), folder / "odd", scores)}
        for way, answers in ways.items():
            for name, expected in scores.items():
                worst = abs(expected - answers[name]).max()
                assert worst <= FROM_PHOTOS, f"{way}, exif {exif}: {name}: {worst:.2g} from {expected}"
        print(f"odd photos, exif {exif}: {', '.join(ways)} answer as the program does")


MLFLOW = """
import base64, json, pathlib, sys
import mlflow.pyfunc, pandas
folder, photos, *names = sys.argv[1:]
model = mlflow.pyfunc.load_model(folder)
table = pandas.DataFrame({"image": [pathlib.Path(photos, name).read_bytes() for name in names]})
print(json.dumps(dict(zip(names, model.predict(table)["probabilities"].tolist()))))
"""


def check_mlflow(kiln, model, photos):
    """pyfunc.load_model and `mlflow models predict` on photos."""
    folder = model.export(kiln, ".mlflow", "--format", "mlflow")
    scores = model.score(kiln, photos)
    names = list(scores)[:8]
    scores = {name: scores[name] for name in names}
    paths = os.pathsep.join([MLFLOW_PACKAGES, torch_packages.PACKAGES, PACKAGES])
    settings = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}

    def python(*words):
        result = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, env=settings,
                                cwd=folder.parent, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout
    answers = json.loads(python("-c", MLFLOW, folder, photos, *names).splitlines()[-1])
    worst = compared(f"{model.name} in MLflow", answers, scores, FROM_PHOTOS)
    request, answer = folder.parent / "request.json", folder.parent / "answer.json"
    request.write_text(json.dumps({"dataframe_records": [
        {"image": base64.b64encode((photos / name).read_bytes()).decode()} for name in names]}))
    python("-m", "mlflow", "models", "predict", "--model-uri", folder, "--input-path", request, "--output-path", answer,
           "--content-type", "json", "--env-manager", "local")
    rows = json.loads(answer.read_text())["predictions"]
    compared(f"{model.name}, mlflow models predict", dict(zip(names, (row["probabilities"] for row in rows))), scores,
             FROM_PHOTOS)
    print(f"{model.name} in MLflow: probabilities within {worst:.1e}")


def take_photos(kiln, folder):
    """`photos` of many sizes, and `crops` of the models' input size; PNG, as JPEG decoders differ by a level."""
    source = SHARED / "data/photos"
    if not source.is_dir():
        source = folder / "demo"
        run(kiln, "demo-data", "--output-path", source, "--images", 120, "--size", 96)
    photos, crops = folder / "photos", folder / "crops"
    photos.mkdir()
    crops.mkdir()
    files = sorted(path for path in source.rglob("*") if path.suffix in (".jpg", ".JPEG", ".png"))
    for number, path in enumerate(files if NIGHTLY else files[::24]):
        image = PREDICT["read_photo"](path, "apply")
        image.save(photos / f"{number:03}.png")
        image.resize((SIZE, SIZE)).save(crops / f"{number:03}.png")
    return photos, crops


def main(kiln, *what):
    if what == ("mlflow",) and not os.path.isdir(MLFLOW_PACKAGES):
        print(f"skipped: no {MLFLOW_PACKAGES}; run environment/install.sh")
        sys.exit(77)
    print(f"onnx {onnx.__version__}, ONNX Runtime {onnxruntime.__version__}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        photos, crops = take_photos(kiln, folder)
        if what == ("mlflow",):
            check_mlflow(kiln, Model(folder / MODELS[0], MODELS[0], sorted(photos.iterdir()), with_output_layer=True), photos)
            return
        for name in OF_PIXELS + (OTHERS_OF_PIXELS if NIGHTLY else []):
            model = Model(folder / name, name, sorted(crops.iterdir()))
            worst = check_pixels(kiln, model, crops, FROM_PIXELS_OF_ALL if NIGHTLY else FROM_PIXELS)
            check_timm(kiln, model, crops)
            print(f"{name}: probabilities from pixels within {worst:.1e}")
        transformer = Model(folder / "vit_b_16", "vit_b_16", sorted(crops.iterdir()))
        check_timm(kiln, transformer, crops)
        check_torchvision(kiln, transformer, crops)
        check_preparations(kiln, folder, photos, crops)
        check_odd_photos(kiln, folder, photos)
        for name in MODELS + (OTHERS if NIGHTLY else []):
            model = Model(folder / name, name, sorted(photos.iterdir()), with_output_layer=name == "resnet18")
            if name in MODELS:
                check_timm(kiln, model, crops)
                check_torchvision(kiln, model, photos)
            worst = check_onnx(kiln, model, photos, crops)
            print(f"{name}, {len(list(photos.iterdir()))} photos: probabilities within {worst[0]:.1e} of score's, with float16 "
                  f"weights {worst[1]:.1e}, from pixels {worst[2]:.1e}")


main(*sys.argv[1:])
