#include "model/weights/model_weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kiln {
namespace {

constexpr std::array<std::pair<DType, at::ScalarType>, 10> kTypes{
    {{DType::kFloat64, at::kDouble},
     {DType::kFloat32, at::kFloat},
     {DType::kFloat16, at::kHalf},
     {DType::kBFloat16, at::kBFloat16},
     {DType::kInt64, at::kLong},
     {DType::kInt32, at::kInt},
     {DType::kInt16, at::kShort},
     {DType::kInt8, at::kChar},
     {DType::kUInt8, at::kByte},
     {DType::kBool, at::kBool}}};

DType stored_type(at::ScalarType type) {
  for (const auto& [stored, own] : kTypes)
    if (own == type) return stored;
  throw InternalError(std::string("a model has a tensor of type ") + c10::toString(type));
}

at::ScalarType torch_type(DType type) {
  for (const auto& [stored, own] : kTypes)
    if (stored == type) return own;
  throw InternalError("unknown tensor type");
}

std::string shape_text(at::IntArrayRef shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

// "; missing: a, b, c, d, e, … (12 in all)"; empty if there are no names.
std::string listing(const std::string& title, const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  if (names.empty()) return "";
  std::string text = "; " + title + ": ";
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > kShown) text += ", … (" + std::to_string(names.size()) + " in all)";
  return text;
}

std::string misfit(const at::Tensor& own, const StoredTensor& stored) {
  if (own.sizes() != at::IntArrayRef(stored.shape))
    return stored.name + " has shape " + shape_text(stored.shape) + " instead of " +
           shape_text(own.sizes());
  const at::ScalarType type = torch_type(stored.dtype);
  if (at::isFloatingType(type) != at::isFloatingType(own.scalar_type()))
    return stored.name + " holds " + c10::toString(type) + " instead of " +
           c10::toString(own.scalar_type());
  return "";
}

bool is_output_layer(const std::string& name) {
  return name.starts_with("out_linear_model.");
}

}  // namespace

StateDict to_state_dict(const ImageModel& model) {
  return to_state_dict(model.state());
}

StateDict to_state_dict(std::vector<NamedTensor> tensors) {
  StateDict state;
  for (NamedTensor& sample : tensors) {
    const at::Tensor plain = sample.tensor.detach().to(at::kCPU).contiguous();
    sample.tensor.reset();
    StoredTensor stored{sample.name, stored_type(plain.scalar_type()), plain.sizes().vec(), {}};
    stored.bytes.assign(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes());
    state.push_back(std::move(stored));
  }
  return state;
}

TensorView view_of(const NamedTensor& item) {
  return {item.name,
          stored_type(item.tensor.scalar_type()),
          item.tensor.sizes().vec(),
          {static_cast<const char*>(item.tensor.const_data_ptr()), item.tensor.nbytes()}};
}

at::Tensor view_of(const StoredTensor& stored) {
  return at::from_blob(const_cast<char*>(stored.bytes.data()), stored.shape,
                       at::TensorOptions().dtype(torch_type(stored.dtype)));
}

std::string head_prefix(const ImageModel& model) {
  const std::string weight = model.head().front().name;
  return weight.substr(0, weight.rfind('.') + 1);
}

std::string differences(const std::vector<NamedTensor>& targets, const StateDict& stored) {
  std::unordered_map<std::string_view, const StoredTensor*> unclaimed;
  for (const StoredTensor& tensor : stored) unclaimed.emplace(tensor.name, &tensor);
  std::vector<std::string> missing, unexpected, misfits;
  for (const NamedTensor& sample : targets) {
    const auto found = unclaimed.find(sample.name);
    if (found == unclaimed.end()) {
      missing.push_back(sample.name);
      continue;
    }
    if (std::string fault = misfit(sample.tensor, *found->second); !fault.empty())
      misfits.push_back(std::move(fault));
    unclaimed.erase(found);
  }
  for (const StoredTensor& tensor : stored)
    if (unclaimed.contains(tensor.name)) unexpected.push_back(tensor.name);
  return listing("missing", missing) + listing("unexpected", unexpected) +
         listing("mismatched shape or type", misfits);
}

void load_tensors(const std::vector<NamedTensor>& targets, const StateDict& stored,
                  const std::string& where) {
  if (const std::string text = differences(targets, stored); !text.empty())
    throw Error(ErrorCode::kInvalidModelDirectory, "The weights in '" + where +
                                                       "' do not match this network" + text +
                                                       ". Give weights of the named model.");
  std::unordered_map<std::string_view, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : stored) by_name.emplace(tensor.name, &tensor);
  const at::NoGradGuard no_grad;
  for (const NamedTensor& target : targets)
    at::Tensor(target.tensor).copy_(view_of(*by_name.at(target.name)));
}

void add_missing_batch_counts(StateDict& stored, const ImageModel& model) {
  std::unordered_set<std::string> names;
  for (const StoredTensor& tensor : stored) names.insert(tensor.name);
  for (const NamedTensor& sample : model.state())
    if (sample.name.ends_with(".num_batches_tracked") && !names.contains(sample.name))
      stored.push_back({sample.name, DType::kInt64, {}, std::string(sizeof(std::int64_t), '\0')});
}

void load_pretrained(ImageModel& model, const StateDict& stored, const std::string& where) {
  StateDict whole;
  std::copy_if(stored.begin(), stored.end(), std::back_inserter(whole),
               [](const StoredTensor& tensor) { return !is_output_layer(tensor.name); });
  for (StoredTensor& fresh : to_state_dict(model))
    if (is_output_layer(fresh.name)) whole.push_back(std::move(fresh));
  load_tensors(model.state(), whole, where);
}

void check_untrained(const ImageModel& model, const StateDict& stored, const std::string& where) {
  const std::string head = head_prefix(model);
  std::map<std::string_view, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : stored) by_name.emplace(tensor.name, &tensor);
  for (const NamedTensor& wanted : model.state()) {
    if (wanted.name.starts_with(head)) continue;
    const auto found = by_name.find(wanted.name);
    const std::string what = found == by_name.end() ? "is missing"
                             : found->second->shape != wanted.tensor.sizes().vec()
                                 ? "has the wrong shape for"
                                 : "";
    if (!what.empty())
      throw Error(ErrorCode::kInvalidModelDirectory,
                  "'" + where + "' " + what + " the tensor '" + wanted.name +
                      "' of the network named in model_spec.yaml: create the directory again with "
                      "`kiln init-model`.");
  }
}

}  // namespace kiln
