// What a model knows of its training images beside its weights: `features.safetensors` in its
// directory, with its Likeness (train/features/likeness.h):
//
//   references  float16 [M, P]
//   axes        float16 [D, P]; absent: P = D
//   held_out    float32 [3, n]
//   separation  float32 [1]
//   weights     int64 [1], a hash of the weights that the features were computed with
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset/dataset.h"
#include "model/image_model.h"
#include "store/state_dict_file.h"
#include "train/features/head_fit.h"
#include "train/features/likeness.h"

namespace kiln {

// Tensors of this file and of training_features.safetensors.
inline constexpr const char *kAxesTensor = "axes", *kWeightsTensor = "weights";

// Of the names and contents of all tensors.
std::uint64_t hash_of(const StateDict& weights);

inline constexpr std::int64_t kMostTrained = 50'000;  // training images that are looked at

// The first `count` images of each class in an order drawn from the seed; all, where there are
// fewer.
std::vector<std::uint32_t> some_of_each_class(const SampleTable& samples, std::size_t num_classes,
                                              std::int64_t count, std::uint64_t seed);

// `count` of the images 0 to size - 1, evenly.
std::vector<std::uint32_t> evenly(std::uint32_t size, std::int64_t count);

// Of each row of features, [N, D] on the host, the logarithm of the sum of the exponentials of what
// the model's last layer makes of it: float32 [N] on the host.
at::Tensor log_sums_of(ImageModel& model, const at::Tensor& features);

// Fitted so that the file has at most 4 MB and a tenth of the weights' size. Throws as
// fit_likeness().
Likeness known_likeness(const FeatureSets& features, const at::Tensor& log_sums,
                        const StateDict& weights);

// The contents of the file.
std::string features_file(const Likeness& likeness, const StateDict& weights);

// `bytes`: the contents of the file at `where`, beside weights with this hash. Throws Error
// kInvalidModelDirectory for anything but what features_file() writes for these weights.
Likeness read_features(std::string_view bytes, std::uint64_t weights, std::int64_t num_features,
                       const std::string& where);

// Whether rows of features, projected to these axes unless they are undefined, are of a network
// with so many features.
bool are_of_width(const at::Tensor& rows, const at::Tensor& axes, std::int64_t num_features);

}  // namespace kiln
