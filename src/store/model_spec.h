// The metadata files of model directories (`_meta.yaml`, `model_spec.yaml`), read and written, and
// the names of their files. Format: the designer's UntrainedModelDirectory and ModelDirectory.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/vocabulary.h"

namespace kiln {

// The names of files in model directories.

inline constexpr std::string_view kMetaFile = "_meta.yaml";
inline constexpr std::string_view kSpecFile = "model_spec.yaml";
inline constexpr std::string_view kModelFile = "model";                    // the weights
inline constexpr std::string_view kSafetensorsFile = "model.safetensors";  // the same weights
inline constexpr std::string_view kLabelMapFile = "index_to_label.csv";
inline constexpr std::string_view kPreprocessingFile = "preprocessing.json";
inline constexpr std::string_view kCalibrationFile = "calibration.json";
inline constexpr std::string_view kSeenImagesFile = "seen_images.bin";

// Written by this program, besides `_meta.yaml`.
inline constexpr std::array<std::string_view, 10> kOwnFiles{
    kSpecFile,        kModelFile,      kSafetensorsFile, kLabelMapFile,   kPreprocessingFile,
    kCalibrationFile, kSeenImagesFile, "_schema.json",   "_samples.json", "training.json"};
// Also written by the designer's program.
inline constexpr std::array<std::string_view, 2> kDesignerFiles{"conda_env.yaml", "score.py"};

// Names that begin with a dot (including leftovers) and lost+found are ignored.
inline bool is_ignored_name(std::string_view name) {
  return name.starts_with('.') || name == "lost+found";
}

// `_meta.yaml`: the type of a directory and the location of its parts.
struct DirectoryMeta {
  std::string type;        // "ModelDirectory", …
  std::string model_spec;  // file name of the model specification
};

// Both throw Error kInvalidModelDirectory naming the file and its fault. `where` is the file's
// path.
DirectoryMeta parse_directory_meta(std::string_view yaml, const std::string& where);
DirectoryMeta read_directory_meta(const std::filesystem::path& meta_path);

// `model_spec.yaml`.
struct ModelSpec {
  std::string model_name;   // "resnet18", "densenet121", …
  bool pretrained = false;  // has a 1000-way head, followed by a linear layer in trained models
  bool memory_efficient = false;               // DenseNet only
  bool zero_init_residual = false;             // ResNet only
  std::optional<int> num_classes;              // trained models
  std::optional<Normalization> normalization;  // trained models
  // As read: a file name in the directory, without any path. Always written as kModelFile.
  std::string model_file{kModelFile};
};

// Throws Error kInvalidModelDirectory naming `where` (a path), the key and what was found.
ModelSpec parse_model_spec(std::string_view yaml, const std::string& where);
std::string format_model_spec(const ModelSpec& spec, std::string_view time_created);

}  // namespace kiln
