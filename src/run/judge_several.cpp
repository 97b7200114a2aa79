// The row of several labels an image: the metrics need the answers of all ranks.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "predict/shown_answers.h"
#include "record/label_scores.h"
#include "run/judge.h"

namespace kiln {

namespace {

// On rank 0 those of all ranks, elsewhere none. A collective.
template <typename T>
std::vector<T> of_all(World& world, std::span<const T> mine) {
  return concatenated(world.gather_on_rank_0(std::vector<T>(mine.begin(), mine.end())));
}

// The answers of all ranks, on rank 0; elsewhere empty. To make it is a collective.
struct GatheredAnswers {
  GatheredAnswers(World& world, const LabeledLogits& mine)
      : logits(of_all(world, mine.logits)), labels(of_all(world, mine.labels)) {}

  std::vector<float> logits;         // [N, C], row-major
  std::vector<std::int32_t> labels;  // [N]
};

LabelAnswers answers_of(const Job& job, const GatheredAnswers& gathered) {
  return {gathered.logits, gathered.labels, job.sources.valid.labels.sets,
          job.sources.num_classes()};
}

class JudgeOfSeveralLabels final : public Judge {
 public:
  TaskWords words(const Sources& sources) const override {
    return {.task = "multi-label",
            .right = "exact match",
            .for_small_classes = "`--class-weights sqrt` and `--best-by macro-f1`",
            .train_images = std::ssize(sources.train.samples),
            .valid_images = std::ssize(sources.valid.samples)};
  }

  // Rank 0 gathers the answers for all validation images, and each rank has a table of
  // combinations.
  void check(const Sources& sources, bool weighs_head) const override {
    if (weighs_head)
      throw Error(ErrorCode::kUserError,
                  "--class-weights and --task multi-label need training in epochs: use --augment "
                  "flip with --freeze backbone.");
    constexpr double kMost = 1 << 26;
    const std::size_t classes = sources.num_classes(), labels = sources.train.num_labels();
    const std::size_t images = sources.valid.samples.size();
    if (static_cast<double>(std::max(images, labels)) * classes <= kMost) return;
    throw Error(ErrorCode::kUserError,
                formatted("--task multi-label keeps %zu classes of all %zu validation images and "
                          "%zu combinations of labels in memory: use fewer of them.",
                          classes, images, labels));
  }

  std::vector<double> class_weights(ClassWeights choice, const std::vector<long long>& counts,
                                    std::size_t num_images) const override {
    std::vector<double> weights(counts.size(), 1);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto with = static_cast<double>(counts[i]);
      const double without = static_cast<double>(num_images) - with;
      if (with == 0 || without == 0) continue;
      weights[i] = without / with;
      if (choice == ClassWeights::kSqrt) weights[i] = std::sqrt(weights[i]);
    }
    return weights;
  }

  CalibrationSample sample(std::size_t, std::size_t) const override { return {}; }  // all

  std::vector<double> counts(const std::vector<Prediction>&, std::size_t) const override {
    return {};
  }

  void measure(const Job& job, std::span<const double>, const HostLogits& logits,
               EpochRecord& record) const override {
    const GatheredAnswers all(job.world, logits.view());
    const LabelMetrics metrics =
        job.world.from_leader([&] { return metrics_of(answers_of(job, all)); });
    record.figures = figures_of(metrics, record.valid.top1_accuracy());
  }

  ValidationDetails details(const Job& job, const std::vector<Prediction>& predictions,
                            const HostLogits& logits) const override {
    const GatheredAnswers all(job.world, logits.view());
    std::vector<std::uint32_t> mine;  // in the order of the logits
    for (const Prediction& one : predictions) mine.push_back(one.sample);
    const auto samples = of_all<std::uint32_t>(job.world, mine);
    ValidationDetails details;
    job.world.agree([&] {
      if (job.world.leads()) details = details_of(job, all, samples);
    });
    return details;
  }

 private:
  static ValidationDetails details_of(const Job& job, const GatheredAnswers& all,
                                      const std::vector<std::uint32_t>& samples) {
    const LabelAnswers answers = answers_of(job, all);
    const Dataset& valid = job.sources.valid;
    Calibration calibration;
    for (std::size_t c = 0; c < answers.num_classes; ++c)
      calibration.labels.push_back(calibrated(ranked_answers(answers, c)));
    const auto show = [&](const LabelMistake& mistake) {
      return judged_image(valid, prediction_of(mistake, samples[mistake.image]),
                          job.plan.pixels.valid, !job.config.output.no_pictures);
    };
    return label_results(answers, calibration, valid.classes, show).details;
  }
};

}  // namespace

const Judge& judge_of_several_labels() noexcept {
  static const JudgeOfSeveralLabels judge;
  return judge;
}

}  // namespace kiln
