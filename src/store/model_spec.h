// What model directories say about a model (`_meta.yaml`, `model_spec.yaml`), read and written, and
// the names of their files. Format: the designer's UntrainedModelDirectory and ModelDirectory.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/vocabulary.h"

namespace kiln {

// The names of files in model directories.

inline constexpr std::string_view kMetaFile = "_meta.yaml";
inline constexpr std::string_view kSpecFile = "model_spec.yaml";
inline constexpr std::string_view kModelFile = "model";  // the weights
inline constexpr std::string_view kLabelMapFile = "index_to_label.csv";
inline constexpr std::string_view kPreprocessingFile = "preprocessing.json";

// What this program writes beside `_meta.yaml`.
inline constexpr std::array<std::string_view, 8> kOwnFiles{
    kSpecFile,          kModelFile,     "model.safetensors", kLabelMapFile,
    kPreprocessingFile, "_schema.json", "_samples.json",     "training.json"};
// What the designer's own program writes besides.
inline constexpr std::array<std::string_view, 2> kDesignerFiles{"conda_env.yaml", "score.py"};

// Dot names (leftovers among them) and lost+found say nothing about a directory.
inline bool is_ignored_name(std::string_view name) {
  return name.starts_with('.') || name == "lost+found";
}

// `_meta.yaml`: what kind of directory it is and where its parts are.
struct DirectoryMeta {
  std::string type;        // "ModelDirectory", …
  std::string model_spec;  // file name of the specification
};

// Throws Error kInvalidModelDirectory naming the file and its fault.
DirectoryMeta read_directory_meta(const std::filesystem::path& meta_path);

// What model directories say about a model (`_meta.yaml`, `model_spec.yaml`), read and written.
// Format: the designer's UntrainedModelDirectory and ModelDirectory.
struct ModelSpec {
  std::string model_name;   // "resnet18", "densenet121", …
  bool pretrained = false;  // keeps the 1000-way head; trained models add a linear layer to it
  bool memory_efficient = false;               // DenseNet only
  bool zero_init_residual = false;             // ResNet only
  std::optional<int> num_classes;              // trained models
  std::optional<Normalization> normalization;  // trained models
  // As it was read: relative to the directory, no path in it. What is written is kModelFile.
  std::string model_file{kModelFile};
};

// Throws Error kInvalidModelDirectory naming `where` (a path), the key and what was found.
ModelSpec parse_model_spec(std::string_view yaml, const std::string& where);
std::string format_model_spec(const ModelSpec& spec, std::string_view time_created);

}  // namespace kiln
