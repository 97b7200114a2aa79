// What model directories say about a model (`_meta.yaml`, `model_spec.yaml`), read and written.
// Format: the designer's UntrainedModelDirectory and ModelDirectory.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/vocabulary.h"

namespace kiln {

struct ModelSpec {
  std::string model_name;   // "resnet18", "densenet121", …
  bool pretrained = false;  // keeps the 1000-way head; trained models add a linear layer to it
  bool memory_efficient = false;               // DenseNet only
  bool zero_init_residual = false;             // ResNet only
  std::optional<int> num_classes;              // trained models
  std::optional<Normalization> normalization;  // trained models
  std::string model_file = "model";            // relative to the directory; no path in it
};

// Throws Error kInvalidModelDirectory naming `where` (a path), the key and what was found.
ModelSpec parse_model_spec(std::string_view yaml, const std::string& where);
std::string format_model_spec(const ModelSpec& spec, std::string_view time_created);

}  // namespace kiln
