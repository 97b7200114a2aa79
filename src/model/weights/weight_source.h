// Sources of a network's initial weights: untrusted files, read by the strict readers of store/ and
// data/archive and converted to one form.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/vocabulary.h"
#include "store/model_directory.h"
#include "store/state_dict_file.h"

namespace kiln {

// How the names of tensors begin in model directories.
inline constexpr std::string_view kModelPrefix = "model.", kOutputLayer = "out_linear_model.";

struct WeightSource {
  std::string where;         // the path, for messages
  std::string kind;          // "a state dict", "a trained model", …
  std::string network = {};  // whose weights they are, as the file says; empty: unknown
  bool trained = false;      // by this program or the designer's; momentum and schedule start over
  // Named as in model directories: names begin with `model.` or `out_linear_model.`.
  StateDict state;
  std::vector<std::string> classes;  // by row of the last layer; empty: unknown
  // How the images it was trained on were normalized; empty if unknown.
  std::optional<Normalization> normalization;
  std::optional<SeenImages> seen = std::nullopt;  // the images it was trained on; empty if unknown
};

// `given`: a state dict as saved by torchvision, timm or a training program (.pth, .pt,
// .safetensors), with #PART to choose one of several, a model directory of this program or
// the designer's, SageMaker's model.tar.gz or a folder that holds it, or a folder of checkpoints or
// one checkpoint in it. From a checkpoint reads the best epoch's weights, or else the latest. The
// files `model` and `model.safetensors` of a model directory have its classes and normalization
// beside them; classes may also be named in a file's metadata, in NAME.classes.txt or config.json
// beside it. `network`: for errors. Throws Error kInvalidModelDirectory or kUserError.
WeightSource read_weight_source(const std::string& given, std::string_view network = {});

// Reads a model directory: a folder, SageMaker's model.tar.gz, or a folder that holds that file and
// no other model. Throws as read_model_directory().
ModelDirectory read_model(const std::filesystem::path& path);

// `where`: the path it was read from.
WeightSource weights_of(ModelDirectory directory, const std::string& where);

// A fingerprint of a source: the names and bytes of its tensors.
std::string fingerprint_of(const WeightSource& source);

// Renames tensors to the names used in model directories: removes what module wrappers add to each
// name, at any place (`module.`, `_orig_mod.`, `model.`, …), and another prefix that the network's
// first layer has, adds `model.`, and uses torchvision's current names where a file has its old
// ones or timm's. Leaves out counters that no network needs, such as `n_averaged`. Of several
// networks below different prefixes takes the one that `parts` wants or that has no prefix, and
// notes in `parts` which one it is. Throws FormatFault if there is none, or naming both if two
// tensors get the same name. Returns what was assumed of timm's network, as a clause for the log;
// it depends on `timm_name`, the network's or the path of its file.
std::string to_own_names(StateDict& state, StateDictParts& parts, std::string_view timm_name = {});

// Matches the rows of a source's last layer to classes.

// For each class of the data, the row of the source's last layer to load, or kFreshRow for none.
inline constexpr std::int64_t kFreshRow = -1;
struct ClassRows {
  std::vector<std::int64_t> rows;
  std::string text;  // a clause for the log

  bool any() const;
};

// `source_classes`: the class of each row of the source's last layer, or empty if unknown. If
// unknown, no row is loaded, unless the classes are ImageNet's folders, in whose order published
// weights are. `num_rows`: of the source's last layer.
ClassRows match_classes(const std::vector<std::string>& classes,
                        const std::vector<std::string>& source_classes, std::int64_t num_rows);

}  // namespace kiln
