#include "run/judge.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "predict/explanations.h"
#include "record/run_json.h"
#include "run/prepare/class_counts.h"

namespace kiln {
namespace {

constexpr std::size_t kMostWrong = 16;
constexpr std::size_t kSamples = 8;

ConfusionMatrix sum_confusion(World& world, const std::vector<Prediction>& predictions,
                              std::size_t num_classes) {
  if (num_classes > kMaxConfusionClasses) return {};
  std::vector<double> counts(num_classes * num_classes);
  for (const Prediction& prediction : predictions)
    counts[static_cast<std::size_t>(prediction.label) * num_classes +
           static_cast<std::size_t>(prediction.predicted)] += 1;
  const std::vector<double> sums = world.sum(counts);
  ConfusionMatrix matrix{static_cast<int>(num_classes), {}};
  matrix.counts.assign(sums.begin(), sums.end());
  return matrix;
}

std::vector<Prediction> most_confidently_wrong(std::vector<Prediction> predictions) {
  std::erase_if(predictions, [](const Prediction& prediction) {
    return prediction.predicted == prediction.label;
  });
  const std::size_t count = std::min(kMostWrong, predictions.size());
  std::partial_sort(predictions.begin(), predictions.begin() + static_cast<std::ptrdiff_t>(count),
                    predictions.end(), [](const Prediction& a, const Prediction& b) {
                      return std::pair(-a.confidence, a.sample) <
                             std::pair(-b.confidence, b.sample);
                    });
  predictions.resize(count);
  return predictions;
}

// A collective. Each rank rereads its own images.
std::vector<JudgedImage> show(World& world, const std::vector<Prediction>& predictions,
                              const Dataset& valid, const TransformSpec& pixels) {
  std::vector<JudgedImage> mine;
  for (const Prediction& prediction : predictions)
    mine.push_back({std::string(valid.samples.file_name(prediction.sample)), prediction.label,
                    prediction.predicted, prediction.confidence,
                    thumbnail_of(valid, prediction.sample, pixels)});
  return concatenated(world.gather_on_rank_0(mine));
}

// Those of this rank's answers that can be among the most confident of all ranks. A collective.
std::vector<Prediction> most_of_all(World& world, std::vector<Prediction> mine) {
  std::vector<float> confidences;
  for (const Prediction& answer : mine) confidences.push_back(answer.confidence);
  std::vector<float> all = concatenated(world.gather(confidences));
  if (all.size() <= kMostWrong) return mine;
  std::ranges::nth_element(all, all.begin() + (kMostWrong - 1), std::greater<>());
  std::erase_if(mine, [least = all[kMostWrong - 1]](const Prediction& answer) {
    return answer.confidence < least;
  });
  return mine;
}

// The details of a validation pass; complete on rank 0 only.
ValidationDetails judge(World& world, const std::vector<Prediction>& predictions,
                        const Dataset& valid, const TransformSpec& pixels) {
  ValidationDetails details;
  details.confusion = sum_confusion(world, predictions, valid.classes.size());
  details.most_wrong =
      show(world, most_of_all(world, most_confidently_wrong(predictions)), valid, pixels);
  std::stable_sort(
      details.most_wrong.begin(), details.most_wrong.end(),
      [](const JudgedImage& a, const JudgedImage& b) { return a.confidence > b.confidence; });
  if (details.most_wrong.size() > kMostWrong) details.most_wrong.resize(kMostWrong);
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::size_t share = static_cast<std::size_t>(world.rank()) < kSamples
                                ? std::max<std::size_t>(1, kSamples / ranks)
                                : 0;
  const std::size_t count = std::min(share, predictions.size());
  std::vector<Prediction> samples;  // spread evenly
  for (std::size_t i = 0; i < count; ++i)
    samples.push_back(predictions[i * predictions.size() / count]);
  details.samples = show(world, samples, valid, pixels);
  if (details.samples.size() > kSamples) details.samples.resize(kSamples);
  return details;
}

class JudgeOfOneLabel final : public Judge {
 public:
  TaskWords words(const Sources&) const override { return {}; }
  void check(const Sources&, bool) const override {}

  std::vector<double> class_weights(ClassWeights choice, const std::vector<long long>& counts,
                                    std::size_t) const override {
    return weights_of_classes(choice, counts);
  }

  CalibrationSample sample(std::size_t num_images, std::size_t num_classes) const override {
    return {num_images, static_cast<int>(num_classes)};
  }

  std::vector<double> counts(const std::vector<Prediction>& predictions,
                             std::size_t num_classes) const override {
    return class_counts(predictions, num_classes);
  }

  void measure(const Job&, std::span<const double> counts, const HostLogits&,
               EpochRecord& record) const override {
    record.macro = macro_scores(counts);
  }

  ValidationDetails details(const Job& job, const std::vector<Prediction>& predictions,
                            const HostLogits& logits) const override {
    Calibration calibration;
    job.world.agree([&] { calibration = calibrate(job.world, logits); });
    ValidationDetails details =
        judge(job.world, predictions, job.sources.valid, job.plan.pixels.valid);
    details.calibration = std::move(calibration);
    return details;
  }
};

}  // namespace

Calibration calibrate(World& world, const HostLogits& logits) {
  const LabeledLogits images = logits.view();
  // MPI does not guarantee that a sum is bit-identical on all ranks, and they must all take the
  // same number of passes.
  const auto sum_over_ranks = [&](const std::array<double, 3>& mine) {
    const std::vector<double> sums = world.sum({mine[0], mine[1], mine[2]});
    return world.broadcast(std::array<double, 3>{sums[0], sums[1], sums[2]});
  };
  Calibration calibration{fit_temperature(images, sum_over_ranks), empty_answer_bins()};
  std::vector<AnswerBin>& answers = calibration.answers;
  count_answers(images, calibration.temperature, answers);
  std::vector<double> counts;
  for (const AnswerBin& bin : answers) {
    counts.push_back(static_cast<double>(bin.images));
    counts.push_back(static_cast<double>(bin.right));
  }
  counts = world.sum(counts);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    answers[i].images = static_cast<std::int64_t>(counts[2 * i]);
    answers[i].right = static_cast<std::int64_t>(counts[2 * i + 1]);
  }
  std::erase_if(answers, [](const AnswerBin& bin) { return bin.images == 0; });
  return calibration;
}

const Judge& judge_of(const Dataset& set) noexcept {
  static const JudgeOfOneLabel of_one;
  return set.labels.sets.empty() ? of_one : judge_of_several_labels();
}

}  // namespace kiln
