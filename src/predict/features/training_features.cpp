#include "predict/features/training_features.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/from_file.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "model/weights/starting_weights.h"
#include "predict/features/known_features.h"
#include "train/features/likeness.h"

namespace kiln {
namespace {

constexpr const char *kRows = "rows", *kNames = "names";

std::string_view text_of(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()};
}

// The tensor of this name in the file; undefined if there is none.
at::Tensor tensor_in(const std::vector<TensorView>& stored, const char* name, DType dtype,
                     std::size_t dimensions) {
  const auto found = std::ranges::find(stored, name, &TensorView::name);
  if (found == stored.end()) return {};
  if (found->dtype != dtype || found->shape.size() != dimensions)
    throw FormatFault(std::string("its tensor '") + name + "' has another type or shape");
  return view_of(*found);
}

}  // namespace

std::string training_features_file(const Neighbors& neighbors, const std::string& names,
                                   const StateDict& weights) {
  std::vector<NamedTensor> tensors = {
      {kRows, neighbors.rows},
      {kNames, at::from_blob(const_cast<char*>(names.data()),
                             static_cast<std::int64_t>(names.size()), at::kByte)},
      {kWeightsTensor, at::tensor(static_cast<std::int64_t>(hash_of(weights)))}};
  if (neighbors.axes.defined()) tensors.push_back({kAxesTensor, neighbors.axes.to(at::kHalf)});
  return write_safetensors(to_state_dict(std::move(tensors)));
}

TrainingFeatures::TrainingFeatures(const std::filesystem::path& path, std::uint64_t weights,
                                   std::int64_t num_features) try {
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  if (size == 0) throw FormatFault("it is empty");
  file_ = at::from_file(path.string(), /*shared=*/false, size, at::kByte);
  const std::vector<TensorView> stored = views_of_safetensors(text_of(file_));
  const at::Tensor rows = tensor_in(stored, kRows, DType::kFloat16, 2),
                   axes = tensor_in(stored, kAxesTensor, DType::kFloat16, 2),
                   names = tensor_in(stored, kNames, DType::kUInt8, 1),
                   hash = tensor_in(stored, kWeightsTensor, DType::kInt64, 1);
  if (!rows.defined() || !names.defined() || !hash.defined() || hash.size(0) != 1)
    throw FormatFault("it lacks a tensor");
  if (hash.item<std::int64_t>() != static_cast<std::int64_t>(weights))
    throw FormatFault("it is of another model");
  neighbors_.rows = rows;
  if (axes.defined()) neighbors_.axes = axes.to(at::kFloat);
  for (std::string_view rest = text_of(names); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\0'), rest.size() - 1);
    names_.push_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  if (!are_of_width(rows, axes, num_features) || rows.size(0) == 0 ||
      std::ssize(names_) != rows.size(0))
    throw FormatFault("its tensors do not fit each other or the model");
} catch (const std::exception& fault) {  // of the file system, of LibTorch
  throw Error(ErrorCode::kInvalidModelDirectory,
              "'" + path.string() + "' is not usable: " + fault.what() +
                  ". Copy the complete model directory again, or delete this file.");
}

std::vector<std::vector<std::string>> TrainingFeatures::nearest(const at::Tensor& features,
                                                                int count) const {
  const at::Tensor places = neighbors_.nearest(features, count);
  std::vector<std::vector<std::string>> nearest(static_cast<std::size_t>(places.size(0)));
  for (std::int64_t i = 0; i < places.size(0); ++i)
    for (std::int64_t k = 0; k < places.size(1); ++k)
      nearest[i].emplace_back(names_[static_cast<std::size_t>(places[i][k].item<std::int64_t>())]);
  return nearest;
}

at::Tensor TrainingFeatures::are_known(const at::Tensor& features) const {
  const at::Tensor nearest =
      neighbors_.rows.index_select(0, neighbors_.nearest(features, 1).select(1, 0));
  return (unit_rows(nearest.to(at::kFloat)) * neighbors_.projected(features)).sum(1) >
         kSameFeatures;
}

}  // namespace kiln
