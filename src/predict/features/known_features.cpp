#include "predict/features/known_features.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/random.h"
#include "model/weights/starting_weights.h"

namespace kiln {
namespace {

constexpr std::size_t kMostBytes = 4 << 20;
constexpr int kShareOfWeights = 10;
constexpr const char *kReferences = "references", *kHeldOut = "held_out",
                     *kSeparation = "separation";

}  // namespace

bool are_of_width(const at::Tensor& rows, const at::Tensor& axes, std::int64_t num_features) {
  return axes.defined() ? axes.size(0) == num_features && axes.size(1) == rows.size(1)
                        : rows.size(1) == num_features;
}

std::uint64_t hash_of(const StateDict& weights) {
  ContentHash hash(0);
  for (const StoredTensor& tensor : weights) {
    hash.add(tensor.name + ":");
    hash.add(tensor.bytes);
  }
  return hash.value();
}

std::vector<std::uint32_t> some_of_each_class(const SampleTable& samples, std::size_t num_classes,
                                              std::int64_t count, std::uint64_t seed) {
  constexpr std::uint64_t kPurpose = 0x6665617475726573;  // "features"
  std::vector<std::int64_t> left(num_classes, count);
  std::vector<std::uint32_t> chosen;
  for (const std::uint32_t i : permutation(samples.size(), {kPurpose, seed}))
    if (const std::int32_t label = samples.label(i); label >= 0 && left[label]-- > 0)
      chosen.push_back(i);
  return chosen;
}

std::vector<std::uint32_t> evenly(std::uint32_t size, std::int64_t count) {
  std::vector<std::uint32_t> chosen;
  for (std::int64_t i = 0; i < count; ++i) chosen.push_back(i * size / count);
  return chosen;
}

at::Tensor log_sums_of(ImageModel& model, const at::Tensor& features) {
  constexpr std::int64_t kRowsAtATime = 512;  // whose logits may be of 100,000 classes
  const at::NoGradGuard no_grad;
  const at::Device device = model.head()[0].tensor.device();
  std::vector<at::Tensor> sums;
  for (const at::Tensor& some : features.split(kRowsAtATime))
    sums.push_back(model.logits_of(some.to(device)).to(at::kFloat).logsumexp(1).cpu());
  return at::cat(sums);
}

Likeness known_likeness(const FeatureSets& features, const at::Tensor& log_sums,
                        const StateDict& weights) {
  std::size_t bytes = 0;
  for (const StoredTensor& tensor : weights) bytes += tensor.bytes.size();
  const std::size_t most = std::min(kMostBytes, bytes / kShareOfWeights);
  return fit_likeness(features, log_sums, static_cast<std::int64_t>(most));
}

std::string features_file(const Likeness& likeness, const StateDict& weights) {
  std::vector<NamedTensor> tensors = {
      {kReferences, likeness.references.to(at::kHalf)},
      {kHeldOut, likeness.held_out},
      {kSeparation, at::tensor(likeness.separation, at::kFloat)},
      {kWeightsTensor, at::tensor(static_cast<std::int64_t>(hash_of(weights)))}};
  if (likeness.axes.defined()) tensors.push_back({kAxesTensor, likeness.axes.to(at::kHalf)});
  return write_safetensors(to_state_dict(std::move(tensors)));
}

Likeness read_features(std::string_view bytes, std::uint64_t weights, std::int64_t num_features,
                       const std::string& where) try {
  const StateDict stored = read_safetensors(bytes);
  require_finite(stored);
  const auto find = [&](const char* name, std::size_t dimensions) {
    const auto found = std::ranges::find(stored, name, &StoredTensor::name);
    if (found == stored.end() || found->shape.size() != dimensions)
      throw FormatFault(std::string("it has no tensor '") + name + "' of its shape");
    return view_of(*found).clone();
  };
  const auto has_axes = std::ranges::count(stored, kAxesTensor, &StoredTensor::name) > 0;
  if (find(kWeightsTensor, 1).to(at::kLong)[0].item<std::int64_t>() !=
      static_cast<std::int64_t>(weights))
    throw FormatFault("it is of another model");
  Likeness likeness{has_axes ? find(kAxesTensor, 2).to(at::kFloat) : at::Tensor(),
                    find(kReferences, 2).to(at::kFloat), find(kHeldOut, 2).to(at::kFloat),
                    find(kSeparation, 1)[0].item<double>()};
  const at::Tensor& held_out = likeness.held_out;
  if (!are_of_width(likeness.references, likeness.axes, num_features) ||
      likeness.references.size(0) < kNearest || held_out.size(0) != 3 ||
      held_out.size(1) < kFewestHeldOut || !(held_out.diff() >= 0).all().item<bool>())
    throw FormatFault("its tensors do not fit each other or the model");
  return likeness;
} catch (const FormatFault& fault) {
  throw Error(ErrorCode::kInvalidModelDirectory,
              "'" + where + "' is not usable: " + fault.what() +
                  ". Delete this file and make it anew with `kiln embed --into`, or copy the "
                  "complete model directory again.");
}

}  // namespace kiln
