"""Pipeline steps as files of Azure ML and of Kubeflow Pipelines: a command with roles and defaults for its options."""
import json
from types import SimpleNamespace

from option_tables import LOWEST

OUTPUTS = ("model-out", "data-out")
OPTIONAL = ("file-in", "folder-in")

# The component of `kiln train` with weights and one folder of images: option, role, default and help; where one of these is
# missing, that of the command is kept. Options that --auto decides are not shown: a form passes a value for each option that
# it shows, and a given value turns --auto off.
FINE_TUNE_SUMMARY = "Fine-tune pretrained weights on one folder of labeled images, and write a ModelDirectory."
FINE_TUNE = [
    ("data-path", "data-in", "", "Labeled images: an ImageDirectory, class folders, a COCO folder, an archive or a folder of "
     "shards. They are split into training and validation images; duplicates stay on one side."),
    ("weights", "model-file-in", "", "Initial weights: a torchvision or timm state dict (.pth or .safetensors), or SageMaker's "
     "model.tar.gz. Matching tensors are loaded; other classes get a new last layer."),
    ("trained-model-path", "model-out", "", ""),
    ("labels", "file-in", "", "CSV file with columns path and label that corrects labels before the images are split, such as "
     "doubtful.csv from `kiln audit`."),
    ("config", "file-in", "", ""),
    ("ranks", "ranks-of-host", "", ""),
    ("kfp-executor-input", "kubeflow-run", "", ""),
    ("model-name", "parameter", "", "Network architecture of the weights."),
    ("valid-fraction", "parameter", "", ""),
    ("time-limit", "parameter", "30min",
     "Finish within this time (such as 30min; units s, min, h), with the best model so far."),
    ("random-seed", "parameter", "", ""),
    ("class-weights", "parameter", "", ""),
    ("best-by", "parameter", "", ""),
    ("on-bad-image", "parameter", "", ""),
    ("max-bad-images", "parameter", "", ""),
]

# The form passes a value for every option that it shows, even if it is the default.
CONFIG_TEXT = "YAML or JSON file with options that this form does not show. The form overrides the file."
# An output cannot be left out of a form.
CHECKPOINTS_TEXT = ("Folder for checkpoints. Use a separate path, the same in every job: a job that finds checkpoints there "
                    "resumes from the newest.")


def fine_tune(train):
    shown = {name: facts for name, *facts in FINE_TUNE}
    options = []
    for option in train["options"]:
        role, default, text = shown.get(option["name"], ("hidden", "", ""))
        options.append(option | {"canvas": role, "default": default or option["default"], "help": text or option["help"]})
    # Ports come before parameters, as in the commands' own tables.
    options.sort(key=lambda option: option["canvas"] == "parameter")
    return SimpleNamespace(name="fine-tune", command="train", summary=FINE_TUNE_SUMMARY, options=options)


def components(commands):
    """One for each command that has an output on the canvas, called like it, and fine-tune."""
    found = []
    for command in commands:
        options = [option | {"name": option["port_name"] or option["name"]} for option in command["options"]]
        if any(option["canvas"] in OUTPUTS for option in options):
            found.append(SimpleNamespace(name=command["name"], command=command["name"], summary=command["summary"],
                                         options=options))
    return [*found, fine_tune(next(command for command in commands if command["name"] == "train"))]


def quoted(text):
    """JSON strings are valid YAML."""
    return json.dumps(text, ensure_ascii=False)


def canvas_name(name):
    return name.replace("-", "_").replace(" ", "_")


def canvas_default(option):
    """The default, or the first value of a choice without a default."""
    return option["default"] or (option["choices"] or [""])[0]


def form_text(option):
    if option["name"] == "config":
        return CONFIG_TEXT
    if option["canvas"] == "checkpoints":
        return CHECKPOINTS_TEXT
    text = option["help"]
    if option["range"] and option["kind"] not in ("boolean", "switch"):
        text += f" Range: {option['range']}."
    return text + (f" Unit: {option['unit']}." if option["unit"] else "")


# ---- Azure ML: a command component, by the commandComponent schema of its CLI v2 ----

def lines_of(option, facts):
    facts = facts | {"description": quoted(form_text(option))}
    return f"  {canvas_name(option['name'])}:\n" + "".join(f"    {key}: {value}\n" for key, value in facts.items())


def kind_of(option):
    """A number that may be auto is one here, unless that is its default."""
    is_number = option["kind"] == "auto or integer" and option["default"].isdigit()
    return "integer" if is_number else option["kind"]


def parameter(option):
    """Type, default and range. A number that must be greater than 0 has `min: 0`: the format cannot express exclusive bounds,
    and the program checks again."""
    kind, value = kind_of(option), canvas_default(option)
    if kind in ("integer", "number", "number from"):
        bounds = {} if option["minimum"] == LOWEST else {"min": option["minimum"], "max": option["maximum"]}
        return {"type": "integer" if kind == "integer" else "number", "default": value} | bounds
    if kind in ("boolean", "switch"):
        return {"type": "boolean", "default": "true" if value == "True" else "false"}
    choices = {"enum": quoted(option["choices"])} if kind in ("choice", "model name") else {}
    return {"type": "string", "default": quoted(value)} | choices


def azure_input(option):
    role = option["canvas"]
    if role == "parameter":
        return lines_of(option, parameter(option))
    kind = "uri_file" if role in ("file-in", "model-file-in") else "uri_folder"
    return lines_of(option, {"type": kind, "mode": "ro_mount"} | ({"optional": "true"} if role in OPTIONAL else {}))


def azure_words(option, place):
    """Optional options without a default are wrapped in `$[[ ]]`, which Azure drops if the input is omitted."""
    value = "${{" + place + "." + canvas_name(option["name"]) + "}}"
    has_spaces = any(" " in choice for choice in option["choices"])  # the shell would split them
    words = f"--{option['name']} " + (f"'{value}'" if has_spaces else value)
    return "  " + (f"$[[{words}]]" if option["canvas"] in OPTIONAL else words) + "\n"


def azure(component, version, image):
    inputs = outputs = words = ""
    for option in component.options:
        if option["canvas"] in ("model-in", "data-in", "model-file-in", "parameter", *OPTIONAL):
            inputs += azure_input(option)
            words += azure_words(option, "inputs")
        elif option["canvas"] in (*OUTPUTS, "checkpoints"):
            outputs += lines_of(option, {"type": "uri_folder", "mode": "rw_mount"})
            words += azure_words(option, "outputs")
    text = f"""# Made by environment/generate.py.
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
type: command
name: kiln_{canvas_name(component.name)}
version: {quoted(version)}
display_name: {quoted("Kiln: " + component.name)}
description: {quoted(component.summary)}
tags:
  task: image-classification
  license: Apache-2.0
inputs:
{inputs}outputs:
{outputs}command: >-
  kiln {component.command}
{words}environment:
  image: {quoted(image)}
"""
    if any(option["canvas"] == "ranks-of-host" for option in component.options):
        text += """distribution:
  type: mpi
  process_count_per_instance: 1
resources:
  instance_count: 1
  shm_size: 8g
"""
    return text


# ---- Kubeflow Pipelines: its v1 format, which both SDK 1 and SDK 2 load ----

def type_of(option):
    """A type name that versions 1 and 2 of the SDK know; any other name would silently become an untyped artifact."""
    if option["canvas"] in ("model-in", "model-file-in", "model-out"):
        return "Model"
    if option["canvas"] in ("data-in", "data-out"):
        return "Dataset"
    return {"integer": "Integer", "number": "Float", "number from": "Float", "boolean": "Boolean", "switch": "Boolean"}.get(
        kind_of(option), "String")


def port(option):
    default = f"  default: {quoted(canvas_default(option))}\n" if option["canvas"] == "parameter" else ""
    return (f"- name: {canvas_name(option['name'])}\n  type: {type_of(option)}\n{default}"
            f"  description: {quoted(form_text(option))}\n")


def kubeflow(component, version, image):
    """Optional inputs are left out, since SDK 2 back ends pass on their placeholders unsubstituted; and the checkpoints:
    Kubeflow keeps outputs only of steps that succeed."""
    inputs = outputs = arguments = ""
    values = {"parameter": "inputValue", "model-in": "inputPath", "model-file-in": "inputPath", "data-in": "inputPath",
              "model-out": "outputPath", "data-out": "outputPath"}
    for option in component.options:
        role = option["canvas"]
        value = f"{{{values[role]}: {canvas_name(option['name'])}}}" if role in values else ""
        if role in OUTPUTS:
            outputs += port(option)
        elif role in values:
            inputs += port(option)
        elif role == "ranks-of-host":
            value = "auto"
        elif role == "kubeflow-run":
            outputs += '- name: metrics\n  type: Metrics\n  description: "Metrics of the run."\n'
            value = "{executorInput: null}"
        arguments += f"    - --{option['name']}\n    - {value}\n" if value else ""
    return f"""# Made by environment/generate.py.
name: {quoted("Kiln " + component.name)}
description: {quoted(component.summary)}
metadata:
  annotations:
    version: {quoted(version)}
inputs:
{inputs}outputs:
{outputs}implementation:
  container:
    image: {quoted(image)}
    command: [kiln, {component.command.replace(" ", ", ")}]
    args:
{arguments}"""
