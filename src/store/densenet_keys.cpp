// torchvision's published DenseNet files name the layers of a dense layer 'norm.1.weight'; the
// module has 'norm1'.
#include <array>
#include <unordered_set>

#include "store/state_dict_file.h"

namespace kiln {
namespace {

constexpr std::array<std::string_view, 3> kLayers{"norm", "relu", "conv"};
constexpr std::array<std::string_view, 4> kTensors{"weight", "bias", "running_mean", "running_var"};

bool is_one_of(std::string_view text, const auto& texts) {
  for (const std::string_view known : texts) {
    if (text == known) return true;
  }
  return false;
}

// Takes the part of `name` behind its last dot away and returns it.
std::string_view take_last_part(std::string_view& name) {
  const std::size_t dot = name.rfind('.');
  const std::string_view part = dot == std::string_view::npos ? name : name.substr(dot + 1);
  name = dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
  return part;
}

bool is_dense_layer(std::string_view part) {
  const std::size_t at = part.rfind("denselayer");
  if (at == std::string_view::npos) return false;
  const std::string_view digits = part.substr(at + std::string_view("denselayer").size());
  return !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
}

// …denselayerN.(norm|relu|conv).(1|2).(weight|bias|running_mean|running_var)
bool is_old_name(std::string_view name) {
  if (!is_one_of(take_last_part(name), kTensors)) return false;
  const std::string_view number = take_last_part(name);
  if (number != "1" && number != "2") return false;
  return is_one_of(take_last_part(name), kLayers) && is_dense_layer(take_last_part(name));
}

}  // namespace

void rename_old_densenet_keys(StateDict& state) {
  for (StoredTensor& tensor : state) {
    if (!is_old_name(tensor.name)) continue;
    tensor.name.erase(tensor.name.rfind('.', tensor.name.rfind('.') - 1), 1);
  }
  std::unordered_set<std::string_view> names;
  for (const StoredTensor& tensor : state) {
    if (names.insert(tensor.name).second) continue;
    throw FormatFault("it holds '" + tensor.name + "' under its old and its new name");
  }
}

}  // namespace kiln
