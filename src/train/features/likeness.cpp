#include "train/features/likeness.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace kiln {
namespace {

constexpr std::int64_t kMostAxes = 512, kFewestAxes = 64;
constexpr std::int64_t kBytes = 2;  // of a float16
constexpr std::int64_t kRowsAtATime = 1024, kLookedAt = 32;

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorCode::kFailedToCompleteOperation, reason);
}

at::Tensor fifth_distance(const at::Tensor& similarities) {
  return 1 - std::get<0>(similarities.topk(kNearest, 1)).select(1, kNearest - 1);
}

at::Tensor sorted(const at::Tensor& values) {
  return std::get<0>(values.sort()).contiguous();
}

// Of each image the larger of its places, from 0 on: of `a` among all `a`, of `b` among all `b`.
at::Tensor larger_place(const at::Tensor& all_a, const at::Tensor& all_b, const at::Tensor& a,
                        const at::Tensor& b) {
  return at::searchsorted(all_a, a.contiguous())
      .maximum(at::searchsorted(all_b, b.contiguous()))
      .to(at::kFloat);
}

at::Tensor rounded(const at::Tensor& values) {
  return values.to(at::kHalf).to(at::kFloat);
}

at::Tensor classes_of(const std::vector<std::int32_t>& labels) {
  return at::tensor(std::vector<std::int64_t>(labels.begin(), labels.end()));
}

// The rows of `most` images of each class, evenly from all of it.
at::Tensor some_of_classes(const std::vector<std::int32_t>& labels, std::int64_t most) {
  std::map<std::int32_t, std::int64_t> sizes, places;
  for (const std::int32_t label : labels) ++sizes[label];
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::int64_t size = sizes[labels[i]], kept = std::min(most, size);
    const std::int64_t place = places[labels[i]]++;
    if ((place + 1) * kept / size > place * kept / size) rows.push_back(i);
  }
  return at::tensor(rows);
}

struct Shape {
  std::int64_t num_axes, of_class;
};

// As many axes of `num_features`, and images of each class, as there may be numbers.
Shape shape_for(std::int64_t num_images, std::int64_t num_features, std::int64_t most_numbers,
                std::int64_t num_classes) {
  const auto left_for_images = [&](std::int64_t num_axes) {
    return most_numbers / num_axes - (num_axes < num_features ? num_features : 0);
  };
  std::int64_t num_axes = std::min(kMostAxes, num_features);
  while (left_for_images(num_axes) < num_images && num_axes / 2 >= kFewestAxes) num_axes /= 2;
  if (left_for_images(num_axes) >= num_images) return {num_axes, kMostOfClass};
  const std::int64_t of_class = left_for_images(num_axes) / num_classes;
  if (of_class < kFewestOfClass) refuse("they would take too much space beside the weights");
  return {num_axes, std::min(of_class, kMostOfClass)};
}

// Held-out images and what is near them.
struct Neighborhood {
  at::Tensor classes;       // [n], of the images
  at::Tensor nearness, of;  // [n, K]: the nearest references, nearest first, and their classes
  at::Tensor without_own;   // [n]: the distance without references of the image's own class
};

// Likeness::separation. Of the images of other classes, a class that is left out is passed over
// among the K nearest.
double separation_of(const Neighborhood& held_out) {
  double sum = 0;
  int num_classes = 0;
  for (std::int64_t c = 0; c <= held_out.classes.max().item<std::int64_t>(); ++c) {
    const at::Tensor is_own = held_out.classes == c;
    const at::Tensor is_left = held_out.of != c;
    const at::Tensor counts = is_left.logical_and(is_left.cumsum(1) <= kNearest);
    const at::Tensor fifth = held_out.nearness.masked_fill(counts.logical_not(), 1).amin(1);
    const at::Tensor others = sorted((1 - fifth).masked_select(is_own.logical_not()));
    const at::Tensor own = held_out.without_own.masked_select(is_own).contiguous();
    if (own.size(0) == 0 || others.size(0) == 0) continue;
    sum += at::searchsorted(others, own).to(at::kDouble).mean().item<double>() /
           static_cast<double>(others.size(0));
    ++num_classes;
  }
  return num_classes == 0 ? 0 : sum / num_classes;
}

}  // namespace

at::Tensor unit_rows(const at::Tensor& rows) {
  return rows / rows.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
}

at::Tensor main_axes(const at::Tensor& rows, std::int64_t most) {
  const auto [values, vectors] = at::linalg_eigh(rows.t().mm(rows).to(at::kDouble));
  return vectors.narrow(1, vectors.size(1) - most, most).to(at::kFloat).contiguous();
}

at::Tensor Likeness::projected(const at::Tensor& rows) const {
  return axes.defined() ? rows.mm(axes) : rows;
}

at::Tensor Likeness::distances(const at::Tensor& features) const {
  return fifth_distance(projected(unit_rows(features)).mm(references.t()));
}

at::Tensor Likeness::unlikeness(const at::Tensor& features, const at::Tensor& log_sums) const {
  return larger_place(held_out[0], held_out[1], distances(features), -log_sums);
}

std::vector<double> Likeness::alike(const at::Tensor& features, const at::Tensor& log_sums) const {
  const auto count = static_cast<double>(held_out.size(1));
  const at::Tensor liker = at::searchsorted(held_out[2], unlikeness(features, log_sums));
  std::vector<double> alike;
  for (std::int64_t i = 0; i < liker.size(0); ++i)
    alike.push_back((1 + count - liker[i].item<double>()) / (1 + count));
  return alike;
}

Likeness fit_likeness(const FeatureSets& features, const at::Tensor& log_sums,
                      std::int64_t most_bytes) {
  const auto& [train, valid] = features;
  if (valid.size() < kFewestHeldOut)
    refuse("they need " + std::to_string(kFewestHeldOut) + " validation images");
  if (train.size() < kNearest) refuse("there are too few training images");
  for (const at::Tensor& rows : {train.rows, valid.rows, log_sums})
    if (!rows.isfinite().all().item<bool>()) refuse("they are not finite numbers");
  const at::Tensor rows = unit_rows(train.rows), train_labels = classes_of(train.labels);
  const Shape shape = shape_for(train.size(), rows.size(1), most_bytes / kBytes,
                                train_labels.max().item<std::int64_t>() + 1);
  // Rounded as in the file, so that what is measured here holds for who reads it.
  Likeness likeness;
  if (shape.num_axes < rows.size(1)) likeness.axes = rounded(main_axes(rows, shape.num_axes));
  const at::Tensor chosen = some_of_classes(train.labels, shape.of_class);
  likeness.references = rounded(likeness.projected(rows.index_select(0, chosen)));

  const std::int64_t num_held_out = std::min(kMostHeldOut, valid.size());
  const at::Tensor places = (at::arange(num_held_out) * valid.size()).floor_divide(num_held_out);
  const at::Tensor labels = classes_of(valid.labels).index_select(0, places);
  const at::Tensor reference_labels = train_labels.index_select(0, chosen);
  std::vector<at::Tensor> nearness, classes, without_own;
  for (const at::Tensor& some : places.split(kRowsAtATime)) {
    const at::Tensor all =
        likeness.projected(unit_rows(valid.rows.index_select(0, some))).mm(likeness.references.t());
    const auto [values, references] = all.topk(std::min(kLookedAt, all.size(1)), 1);
    nearness.push_back(values);
    classes.push_back(reference_labels.take(references));
    const at::Tensor is_own = classes_of(valid.labels).index_select(0, some).unsqueeze(1) ==
                              reference_labels.unsqueeze(0);
    without_own.push_back(fifth_distance(all.masked_fill(is_own, -1)));
  }
  const Neighborhood held_out{labels, at::cat(nearness), at::cat(classes), at::cat(without_own)};
  likeness.separation = separation_of(held_out);
  const at::Tensor distances = 1 - held_out.nearness.select(1, kNearest - 1);
  const at::Tensor lacks = -log_sums.index_select(0, places);
  const at::Tensor all_distances = sorted(distances), all_lacks = sorted(lacks);
  likeness.held_out = at::stack(
      {all_distances, all_lacks, sorted(larger_place(all_distances, all_lacks, distances, lacks))});
  return likeness;
}

}  // namespace kiln
