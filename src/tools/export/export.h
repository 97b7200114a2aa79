// `kiln export`: a trained model in a form that other programs run. A format is a file and a row of
// the table in export.cpp.
#pragma once

#include <string>
#include <vector>

#include "cli/run_config.h"
#include "predict/predictor.h"
#include "store/model_directory.h"

namespace kiln {

// What the formats write.
struct ExportedModel {
  const ExportConfig& config;
  Predictor& model;  // on the CPU, in float32
};

// Each returns the files to write, the one that makes the rest valid last. Their names are what
// follows --output-path: "" is the path itself, "/README.md" a file in a folder. Throws Error.
using FormatWriter = std::vector<OutputFile>(const ExportedModel& exported);
FormatWriter onnx_files;
FormatWriter torchvision_files;
FormatWriter timm_files;
FormatWriter mlflow_files;

// The ONNX file.
std::string onnx_model(const ExportedModel& exported);

// As JSON, which is Python, too: a text, and a list of texts.
std::string quoted(const std::string& text);
std::string quoted_list(const std::vector<std::string>& texts);

// Whether the caller turns pictures upright as their EXIF orientation says.
bool is_turned(const ExportedModel& exported);

// Python: a function `read_photo(file)`, whose result has the pixels that this program decodes, by
// numpy and by Image and ImageOps of Pillow.
std::string python_to_read_photo(const ExportedModel& exported);

// What it does and prints the answer for, with a package whose lines `loading` make `network`.
std::string python_to_answer(const ExportedModel& exported, const std::string& package,
                             const std::string& loading);

// The tensors of the network, `model.…`, with one last layer, and with the positions of a
// transformer for images of this size.
StateDict plain_state(const ExportedModel& exported, ImageSize size);

// For people, in Markdown: what the model was trained on, how good it is, and its limits. `use`:
// how its files are used. Throws Error kInvalidModelDirectory for a damaged training.json.
std::string model_card(const ExportedModel& exported, const std::string& use);

}  // namespace kiln
