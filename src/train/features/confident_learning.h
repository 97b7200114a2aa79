// Confident learning: finds labels that are probably wrong, and estimates how many there are in
// each class. Northcutt, Jiang and Chuang, "Confident learning: estimating uncertainty in dataset
// labels", arXiv:1911.00068: counting by thresholds (section 3.1), pruning by noise rate (section
// 3.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kiln {

// Out-of-sample predictions: for each image, those of a model that has not seen it.
struct JudgedLabels {
  std::span<const float> probabilities;  // [N, C], row by row; each row adds up to 1
  std::span<const std::int32_t> labels;  // [N], the given labels, from 0 to C - 1
  std::size_t num_classes = 0;

  std::span<const float> row(std::size_t i) const {
    return probabilities.subspan(i * num_classes, num_classes);
  }
  // The probability of the given label.
  float self_confidence(std::size_t i) const { return row(i)[labels[i]]; }
  // The most probable class; the first one on ties.
  std::int32_t best(std::size_t i) const;
  // The number of images whose label is that class.
  std::int64_t num_agreed() const;
};

// The joint distribution of given and true labels, as counts of images.
struct LabelNoise {
  std::size_t num_classes = 0;
  std::vector<double> thresholds;    // by class: the mean self-confidence of its images
  std::vector<std::int64_t> counts;  // [given * C + true]; a row adds up to the class's images

  std::int64_t at(std::size_t given, std::size_t truth) const {
    return counts[given * num_classes + truth];
  }
  // The number of images with this label.
  std::int64_t images(std::size_t label) const;
  // How many of those belong to another class.
  std::int64_t wrong(std::size_t label) const { return images(label) - at(label, label); }
  // The number of images of this class that have another label.
  std::int64_t missing(std::size_t label) const;
};

// An image counts for the class whose threshold its probability reaches; if it reaches several
// thresholds, for its most probable class; otherwise for none. Rows are then scaled to the number
// of images of each class. Takes memory for C * C numbers.
LabelNoise estimate_label_noise(const JudgedLabels& judged);

// The images to review, in order of increasing self-confidence: for each pair of classes as many as
// `noise` estimates, those where the probability of the other class exceeds that of the label by
// the largest margin. Leaves out images whose label is the most probable class, and the only image
// of a class. Ties are in the order of the images.
std::vector<std::uint32_t> probably_wrong(const JudgedLabels& judged, const LabelNoise& noise);

}  // namespace kiln
