#include "run/judge.h"

#include <algorithm>
#include <array>
#include <utility>

#include "predict/shown_answers.h"
#include "record/run_json.h"
#include "run/prepare/class_counts.h"

namespace kiln {
namespace {

ConfusionMatrix sum_confusion(World& world, const std::vector<Prediction>& predictions,
                              std::size_t num_classes) {
  if (num_classes > kMaxConfusionClasses) return {};
  std::vector<double> counts(num_classes * num_classes);
  for (const Prediction& prediction : predictions)
    counts[prediction.label * num_classes + prediction.predicted] += 1;
  const std::vector<double> sums = world.sum(counts);
  ConfusionMatrix matrix{static_cast<int>(num_classes), {}};
  matrix.counts.assign(sums.begin(), sums.end());
  return matrix;
}

// Those of the answers of all ranks that a page shows, on rank 0; elsewhere none. A collective, in
// which each rank reads its own images again.
std::vector<JudgedImage> shown_images(const Job& job, const std::vector<Prediction>& predictions) {
  std::vector<Prediction> mine;
  for (const std::size_t i : answers_to_show(predictions)) mine.push_back(predictions[i]);
  const std::vector<std::vector<Prediction>> parts = job.world.gather(mine);
  std::vector<std::size_t> owners;
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    owners.insert(owners.end(), parts[rank].size(), rank);
  const std::vector<Prediction> all = concatenated(parts);
  const std::vector<std::size_t> order = answers_to_show(all);
  std::vector<JudgedImage> read;
  for (std::size_t k = 0; k < order.size(); ++k)
    if (owners[order[k]] == static_cast<std::size_t>(job.world.rank()))
      read.push_back(judged_image(job.sources.valid, all[order[k]], job.plan.pixels.valid,
                                  !job.config.output.no_pictures && k < kMostDrawn));
  std::vector<std::vector<JudgedImage>> gathered = job.world.gather_on_rank_0(read);
  if (!job.world.leads()) return {};
  std::vector<JudgedImage> images;
  std::vector<std::size_t> taken(gathered.size());
  for (const std::size_t i : order)
    images.push_back(std::move(gathered[owners[i]][taken[owners[i]]++]));
  return images;
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
    ValidationDetails details;
    details.confusion = sum_confusion(job.world, predictions, job.sources.num_classes());
    details.calibration = std::move(calibration);
    details.pictures.push_back(gallery_of(shown_images(job, predictions), /*is_calibrated=*/false));
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
