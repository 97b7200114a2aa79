// Where a network's first weights may come from: files of anyone, read by the strict readers of
// store/ and data/archive, brought into one form.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/vocabulary.h"
#include "store/model_directory.h"
#include "store/tensor.h"

namespace kiln {

struct WeightSource {
  std::string where;     // the path, for messages
  std::string kind;      // "a state dict", "a trained model", …
  bool trained = false;  // by this program or the designer's: what it continues starts over
  // Names are those of model directories: they begin with `model.` or `out_linear_model.`.
  StateDict state;
  std::vector<std::string> classes;  // by row of the last layer; empty: not known
  // How the images that it was trained on were normalized; empty: not known.
  std::optional<Normalization> normalization;
};

// `path`: a state dict as torchvision, timm or a training program saves it (.pth, .pt), a
// .safetensors file, a model directory of this program or the designer's, model.tar.gz of SageMaker
// or a folder that holds it, a folder of checkpoints or one checkpoint in it. Of a checkpoint the
// best epoch's weights, or else the newest. Throws Error kInvalidModelDirectory or kUserError.
WeightSource read_weight_source(const std::filesystem::path& path);

// A model directory: a folder, model.tar.gz of SageMaker, or a folder that holds it and no other
// model. Errors as of read_model_directory().
ModelDirectory read_model(const std::filesystem::path& path);

// `where`: the path that it was read from.
WeightSource weights_of(ModelDirectory directory, const std::string& where);

// Distinguishes sources, by the names and bytes of their tensors.
std::string print_of(const WeightSource& source);

// Renames tensors as model directories have them: without `module.` and `_orig_mod.`, which
// wrappers of networks put before all names, with `model.`, and with torchvision's present names of
// DenseNet's layers. Throws FormatFault where two tensors get one name.
void to_own_names(StateDict& state);

}  // namespace kiln
