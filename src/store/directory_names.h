// The names of files in model directories.
#pragma once

#include <array>
#include <string_view>

namespace kiln {

inline constexpr std::string_view kMetaFile = "_meta.yaml";
inline constexpr std::string_view kSpecFile = "model_spec.yaml";
inline constexpr std::string_view kLabelMapFile = "index_to_label.csv";
inline constexpr std::string_view kPreprocessingFile = "preprocessing.json";

// What this program writes beside `_meta.yaml`.
inline constexpr std::array<std::string_view, 8> kOwnFiles{
    kSpecFile,          "model",        "model.safetensors", kLabelMapFile,
    kPreprocessingFile, "_schema.json", "_samples.json",     "training.json"};
// What the designer's own program writes besides.
inline constexpr std::array<std::string_view, 2> kDesignerFiles{"conda_env.yaml", "score.py"};

// Dot names (leftovers among them) and lost+found say nothing about a directory.
inline bool is_ignored_name(std::string_view name) {
  return name.starts_with('.') || name == "lost+found";
}

}  // namespace kiln
