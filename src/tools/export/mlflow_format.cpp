// A model in MLflow's format: https://mlflow.org/docs/latest/ml/model/. Its python_function runs
// the ONNX model, so that the program is not needed.
#include <chrono>
#include <string>
#include <vector>

#include "store/model_directory.h"
#include "tools/export/export.h"

namespace kiln {
namespace {

// Around python_to_read_photo().
constexpr const char* kImports =
    R"PYTHON("""MLflow's python_function of an image classifier.

Files of photos -> labels and probabilities.
The input is a table whose first column holds the bytes of image files.
"""
import io
import json

import numpy
import onnxruntime
import pandas
from PIL import Image, ImageOps


)PYTHON";

constexpr const char* kClassifier = R"PYTHON(

class Classifier:
    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        facts = self.session.get_modelmeta().custom_metadata_map
        self.labels = json.loads(facts["labels"])

    def predict(self, model_input, params=None):
        return pandas.DataFrame([self.answer(photo) for photo in model_input.iloc[:, 0]])

    def answer(self, photo):
        pixels = numpy.asarray(read_photo(io.BytesIO(photo)))
        probabilities = self.session.run(["probabilities"], {"image": pixels[None]})[0][0].tolist()
        best = max(range(len(self.labels)), key=probabilities.__getitem__)
        label = self.labels[best]
        return {"label": label, "confidence": probabilities[best], "probabilities": probabilities}


def _load_pyfunc(path):
    return Classifier(path)
)PYTHON";

constexpr const char* kRequirements = "mlflow\nnumpy\nonnxruntime>=1.17\npandas\npillow\n";

constexpr const char* kConda =
    "name: kiln\nchannels:\n- conda-forge\ndependencies:\n- python>=3.10\n- pip\n- pip:\n"
    "  - mlflow\n  - numpy\n  - onnxruntime>=1.17\n  - pandas\n  - pillow\n";

constexpr const char* kPythonEnvironment =
    "python: '3.11'\nbuild_dependencies:\n- pip\ndependencies:\n- -r requirements.txt\n";

std::string ml_model() {
  return "flavors:\n"
         "  python_function:\n"
         "    code: code\n"
         "    data: data/model.onnx\n"
         "    env:\n"
         "      conda: conda.yaml\n"
         "      virtualenv: python_env.yaml\n"
         "    loader_module: kiln_classifier\n"
         "    python_version: '3.11'\n"
         "signature:\n"
         "  inputs: '[{\"type\": \"binary\", \"name\": \"image\", \"required\": true}]'\n"
         "  outputs: null\n"
         "  params: null\n"
         "utc_time_created: '" +
         time_stamp(std::chrono::system_clock::now()) + "'\n";
}

constexpr const char* kUse =
    "```python\nimport mlflow, pandas\n\nmodel = mlflow.pyfunc.load_model(\".\")  # this folder\n"
    "photo = open(\"photo.jpg\", \"rb\").read()\n"
    "print(model.predict(pandas.DataFrame({\"image\": [photo]})))\n```\n\n"
    "A server is started by `mlflow models serve -m .`; it takes photos as base64: "
    "`{\"dataframe_records\": [{\"image\": \"/9j/4AAQ…\"}]}`.\n";

}  // namespace

std::vector<OutputFile> mlflow_files(const ExportedModel& exported) {
  exported.model.rule->require_one_label("--format mlflow");
  return {{"/data/model.onnx", onnx_model(exported)},
          {"/code/kiln_classifier.py", kImports + python_to_read_photo(exported) + kClassifier},
          {"/requirements.txt", kRequirements},
          {"/conda.yaml", kConda},
          {"/python_env.yaml", kPythonEnvironment},
          {"/README.md", model_card(exported, kUse)},
          {"/MLmodel", ml_model()}};
}

}  // namespace kiln
