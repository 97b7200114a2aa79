// Which training images a model knows by name, with their features:
// `training_features.safetensors` in its directory, by --keep-features. Its Neighbors
// (train/features/neighbors.h), and
//
//   rows     float16 [N, P]
//   axes     float16 [D, P]; absent: P = D
//   names    uint8 [B], the images as in the data, each ended by a zero byte
//   weights  int64 [1], a hash of the weights that the features were computed with
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "store/state_dict_file.h"
#include "train/features/neighbors.h"

namespace kiln {

// The contents of the file. `names`: as above.
std::string training_features_file(const Neighbors& neighbors, const std::string& names,
                                   const StateDict& weights);

// Immutable, thread-safe.
class TrainingFeatures {
 public:
  // Maps the file, so that only what is used of it takes memory. Throws Error
  // kInvalidModelDirectory for anything but what training_features_file() writes for weights with
  // this hash.
  TrainingFeatures(const std::filesystem::path& path, std::uint64_t weights,
                   std::int64_t num_features);

  // The names of the `count` nearest images, at most all, of each row of `features`, [Q, D].
  std::vector<std::vector<std::string>> nearest(const at::Tensor& features, int count) const;
  // Whether each row is, to rounding, that of a training image: bool [Q].
  at::Tensor are_known(const at::Tensor& features) const;

 private:
  at::Tensor file_;  // its bytes
  Neighbors neighbors_;
  std::vector<std::string_view> names_;
};

}  // namespace kiln
