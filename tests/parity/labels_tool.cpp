// labels_tool IN: reads as text the numbers of images and classes and the label smoothing; the
// weight of each class; then for each image its logits and, as 0 or 1, its classes. Prints the
// training loss of all images, the exact matches, mAP, micro and macro F1, then the average
// precision of each class.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <vector>

#include "record/label_scores.h"
#include "train/evaluation.h"
#include "train/loss.h"
#include "train/task.h"

int main(int argc, char** argv) {
  std::size_t num_images = 0, num_classes = 0;
  kiln::LossPlan plan;
  std::ifstream in(argc == 2 ? argv[1] : "");
  if (!(in >> num_images >> num_classes >> plan.label_smoothing)) {
    std::cerr << "usage: labels_tool IN\n";
    return 2;
  }
  plan.class_weights.resize(num_classes);
  for (double& weight : plan.class_weights) in >> weight;
  std::vector<float> logits(num_images * num_classes);
  std::vector<std::int32_t> labels;
  std::vector<std::vector<int>> sets;
  std::map<std::vector<int>, std::int32_t> known;
  for (std::size_t i = 0; i < num_images; ++i) {
    std::vector<int> ids;
    for (std::size_t c = 0; c < num_classes; ++c) in >> logits[i * num_classes + c];
    for (std::size_t c = 0; c < num_classes; ++c)
      if (int is_there = 0; in >> is_there && is_there == 1) ids.push_back(static_cast<int>(c));
    const auto [place, is_new] = known.emplace(ids, static_cast<std::int32_t>(known.size()));
    if (is_new) sets.push_back(ids);
    labels.push_back(place->second);
  }
  if (!in) {
    std::cerr << "the file ends early\n";
    return 2;
  }
  const at::Tensor rows = at::from_blob(logits.data(), {static_cast<std::int64_t>(num_images),
                                                        static_cast<std::int64_t>(num_classes)});
  const at::Tensor truth = at::tensor(labels).to(at::kLong);
  const auto task = kiln::task_of(sets, num_classes);
  kiln::MetricSums sums{at::Device(at::kCPU)};
  const at::Tensor loss = kiln::TrainingLoss(plan, at::kCPU, *task)(rows.to(at::kDouble), truth);
  sums.add(rows, truth, loss, 1, *task);
  const kiln::LabelAnswers answers{logits, labels, sets, num_classes};
  const kiln::LabelMetrics metrics = kiln::metrics_of(answers);
  std::printf("%.17g %lld %.17g %.17g %.17g\n", loss.item<double>(),
              static_cast<long long>(sums.totals().top1), metrics.mean_average_precision,
              metrics.micro_f1, metrics.macro_f1);
  for (std::size_t c = 0; c < num_classes; ++c)
    std::printf("%.17g\n", kiln::average_precision(kiln::ranked_answers(answers, c)));
  return 0;
}
