// State dicts in files: torch.save's zip, its older plain pickle, and safetensors.
//
// The readers are strict and run no code: sizes are bounded by the file, offsets are checked, and
// every pickle opcode or class that state dicts do not need is refused by name. They take bytes, so
// they can be fuzzed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "store/tensor.h"

namespace kiln {

// Why bytes are not a valid state dict: a clause without the file name.
class FormatFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

StateDict read_torch_zip(std::string_view bytes);
StateDict read_torch_legacy(std::string_view bytes);
StateDict read_safetensors(std::string_view bytes);

// Any of the three formats, detected from the bytes.
StateDict read_state_dict(std::string_view bytes);

// The bytes of a file for read_state_dict(), read only where the first of them are those of a state
// dict and there are at most kMaxStateDictBytes. Throws FormatFault; std::system_error where the
// file cannot be read.
constexpr std::uint64_t kMaxStateDictBytes = std::uint64_t{4} << 30;
std::string read_state_dict_file(const std::filesystem::path& path);

// What torch.load(weights_only=True) opens: a stored zip with the inner folder `model/`, an
// OrderedDict of tensors. Equal state dicts give equal bytes.
std::string write_torch_zip(const StateDict& state);
std::string write_safetensors(const StateDict& state);

// What precedes the bytes of the tensors, which follow in order without gaps.
std::string safetensors_header(const std::vector<TensorView>& tensors);

// Renames 'denselayer1.norm.1.weight', as in torchvision's published DenseNet files, to
// 'denselayer1.norm1.weight'.
void rename_old_densenet_keys(StateDict& state);

// Detects torch.save's older format.
bool begins_like_torch_legacy(std::string_view bytes);

}  // namespace kiln
