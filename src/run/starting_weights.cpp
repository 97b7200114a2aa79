#include "run/starting_weights.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "run/weights.h"

namespace kiln {
namespace {

bool is_head(const std::string& name) {
  return name.starts_with("model.fc.") || name.starts_with("model.classifier.");
}

bool is_output_layer(const std::string& name) {
  return name.starts_with("out_linear_model.");
}

}  // namespace

void load_pretrained(ImageModel& model, const StateDict& stored, const std::string& where) {
  StateDict whole;
  std::copy_if(stored.begin(), stored.end(), std::back_inserter(whole),
               [](const StoredTensor& tensor) { return !is_output_layer(tensor.name); });
  for (StoredTensor& fresh : to_state_dict(model))
    if (is_output_layer(fresh.name)) whole.push_back(std::move(fresh));
  load_state(model, whole, where);
}

void check_untrained(const ImageModel& model, const StateDict& stored, const std::string& where) {
  std::map<std::string_view, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : stored) by_name.emplace(tensor.name, &tensor);
  for (const NamedTensor& wanted : model.state()) {
    if (is_head(wanted.name)) continue;
    const auto found = by_name.find(wanted.name);
    const std::string what = found == by_name.end() ? "lacks"
                             : found->second->shape != wanted.tensor.sizes().vec()
                                 ? "has another shape for"
                                 : "";
    if (!what.empty())
      throw Error(ErrorCode::kInvalidModelDirectory,
                  "'" + where + "' " + what + " the tensor '" + wanted.name +
                      "' of the network that model_spec.yaml names: make the directory again with "
                      "kiln init-model.");
  }
}

}  // namespace kiln
