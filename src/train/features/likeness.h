// How like the training images an image is, by the features of a network and its logits: by the
// nearest of some training images (Sun, Ming, Zhu and Li, "Out-of-distribution detection with deep
// nearest neighbors", 2022, arXiv:2204.06507), and by how much speaks for any class at all (Liu,
// Wang, Owens and Li, "Energy-based out-of-distribution detection", 2020, arXiv:2010.03759). An
// image of something that no class has tends to have no near ones, or little that speaks for any
// class, however sure the network is of its answer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "train/features/head_fit.h"

namespace kiln {

// Validation images, by which likeness is measured, and references of a class. Below the fewest
// there is no likeness.
inline constexpr std::int64_t kFewestHeldOut = 100, kMostHeldOut = 5000;
inline constexpr std::int64_t kFewestOfClass = 5, kMostOfClass = 100;
inline constexpr std::int64_t kNearest = 5;  // which reference is meant by near

// Rows of length 1; those of zeros stay.
at::Tensor unit_rows(const at::Tensor& rows);
// The directions along which the rows [N, D] have most of their squares: orthonormal, [D, most].
at::Tensor main_axes(const at::Tensor& rows, std::int64_t most);

// Immutable once fitted. All tensors are on the host. Thread-safe.
struct Likeness {
  // [D, P], orthonormal columns: what features are projected to. Undefined: P = D, and they are
  // not.
  at::Tensor axes;
  at::Tensor references;  // [M, P]: training images' features of length 1, projected
  // [3, n], each row ascending: of validation images the distances, the logarithms of the sums of
  // the exponentials of the logits, negated, and the larger of an image's places in these two rows.
  at::Tensor held_out;
  // How well it tells the validation images of a class from those of the others if no training
  // image of that class is known: the area under the ROC curve, the mean of all classes. 0.5: not
  // at all.
  double separation = 0;

  at::Tensor projected(const at::Tensor& rows) const;
  // 1 minus the cosine to the fifth nearest reference, of each row of `features`, [N, D].
  at::Tensor distances(const at::Tensor& features) const;
  // For each image, the larger of its places among the held-out images, by its features, [N, D],
  // and `log_sums`, [N], of its logits: float32 [N], 0 to n.
  at::Tensor unlikeness(const at::Tensor& features, const at::Tensor& log_sums) const;
  // For each, (1 + the number of held-out images that are no less unlike) / (1 + n): about uniform
  // for images like those, near 0 for others.
  std::vector<double> alike(const at::Tensor& features, const at::Tensor& log_sums) const;
};

// Fits one whose axes and references take at most so many bytes as float16: with fewer axes, and
// then with fewer images of each class. `log_sums`: of the validation images' logits. The classes
// of both sets are the same. Throws Error
// kFailedToCompleteOperation with the end of a sentence if the features are not finite, or there
// are too few images.
Likeness fit_likeness(const FeatureSets& features, const at::Tensor& log_sums,
                      std::int64_t most_bytes);

}  // namespace kiln
