// `kiln embed`: the features of images by a trained model, as a table; or those that a model keeps.
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/names.h"
#include "base/output_folder.h"
#include "base/text.h"
#include "data/dataset/dataset.h"
#include "predict/features/known_features.h"
#include "predict/job.h"
#include "report/scores/feature_table.h"
#include "tools/commands.h"
#include "tools/score/scoring_progress.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kOneOtherIn = 10;  // images that a model was made with: at most
constexpr std::size_t kUnknownNamed = 5;
constexpr std::uint64_t kSeed = 1;

// Calls `use` with each image of a set and its features, in order; the latter are empty for a bad
// one. Throws Error kInvalidDataset if more are bad than allowed, or all.
using UseOfFeatures = std::function<void(const AnsweredImage& image, std::span<const float> row)>;
void for_each_feature(PredictionJob& job, Predictions& predictions, Dataset& set,
                      const UseOfFeatures& use) {
  PredictionFaults faults(job.config.max_bad_images, job.log);
  const auto num_images = static_cast<std::int64_t>(set.samples.size());
  ScoringProgress progress(num_images, job.log);
  std::int64_t num_done = 0;
  predictions.for_each(set, [&](AnsweredBatch& batch) {
    const at::Tensor& rows = batch.outputs.features;
    for (const AnsweredImage& image : batch.images) {
      if (!image.score.fault.empty())
        faults.add(image.score.path, image.score.fault, /*is_bad=*/!image.row);
      if (!image.row) {
        use(image, {});
        continue;
      }
      const auto width = static_cast<std::size_t>(rows.size(1));
      use(image, {rows.const_data_ptr<float>() + *image.row * width, width});
    }
    num_done += std::ssize(batch.images);
    progress.show(num_done);
  });
  faults.check(num_images);
  faults.require_any_good(num_images);
}

void write_table(const EmbedConfig& config, PredictionJob& job) {
  std::optional<FeatureTable> table;
  Problems problems;
  problems.collect([&] { job.open_model(config.trained_model_path, ""); });
  problems.collect([&] { job.read_images(config.data_paths); });
  problems.collect([&] { table.emplace(config.output_path); });
  problems.throw_if_any();
  Predictor& model = job.models.front();
  const std::int64_t num_features = model.num_features();
  const auto num_images = static_cast<std::int64_t>(job.images.samples.size());
  job.log.info("model:     " + model.directory.spec.model_name + ", " +
               plural(num_features, "feature", "features") + " of an image");
  table->begin(num_images, num_features);
  Predictions predictions(
      model, job, AnswerPlan{.thresholds = model.rule->thresholds({}, {}), .wants_features = true});
  for_each_feature(job, predictions, job.images,
                   [&](const AnsweredImage& image, std::span<const float> row) {
                     table->add(image.score.path, row);
                   });
  table->commit();
  job.log.info("Wrote the features of " + plural(num_images, "image", "images") + ": '" +
               config.output_path + "'.");
}

// ---- --into ----

// The chosen images, in the order of the set.
Dataset some_of(const Dataset& set, const std::vector<std::uint32_t>& chosen) {
  std::vector<bool> keep(set.samples.size());
  for (const std::uint32_t i : chosen) keep[i] = true;
  return part_of(set, keep);
}

// The features of some images of a set that the model was made with. Throws Error kUserError if it
// says that it was made with others.
LabeledFeatures known_features(PredictionJob& job, Predictions& predictions, Dataset some,
                               bool (SeenImages::*was_seen)(std::uint64_t) const) {
  const Predictor& model = job.models.front();
  const std::optional<SeenImages>& seen = model.directory.seen_images;
  LabeledFeatures features;
  std::vector<float> values;
  std::int64_t num_others = 0;
  for_each_feature(job, predictions, some,
                   [&](const AnsweredImage& image, std::span<const float> row) {
                     if (row.empty()) return;
                     values.insert(values.end(), row.begin(), row.end());
                     features.labels.push_back(some.samples.label(image.index));
                     features.samples.push_back(image.index);
                     num_others += seen && !((*seen).*was_seen)(image.hash);
                   });
  if (num_others * kOneOtherIn > features.size())
    throw Error(ErrorCode::kUserError,
                some.name + " '" + some.root.string() + "': " + grouped(num_others) + " of " +
                    grouped(features.size()) + " images are none that this model was made with (" +
                    std::string(kSeenImagesFile) + "): give those of its training and validation.");
  features.rows = at::tensor(values).view({features.size(), model.num_features()});
  return features;
}

void require_known_classes(const Dataset& set, const std::vector<std::string>& labels) {
  std::vector<std::string> unknown;
  for (const std::string& name : set.classes)
    if (std::ranges::find(labels, name) == labels.end()) unknown.push_back(name);
  if (!unknown.empty())
    throw Error(ErrorCode::kUserError, set.name + " '" + set.root.string() +
                                           "' have classes that the model does not know: " +
                                           quoted_among(unknown, labels, kUnknownNamed) +
                                           ". Give the images that it was trained on.");
}

void add_to_model(const EmbedConfig& config, PredictionJob& job) {
  Dataset train, valid;
  std::optional<OutputFolder> folder;
  Problems problems;
  problems.collect([&] { job.open_model(config.into, "--into"); });
  problems.collect([&] {
    train = read_labeled_dataset(config.data_paths.front(), "Training images",
                                 of_sets(job.config.records, {"train"}));
  });
  problems.collect([&] {
    valid = read_labeled_dataset(config.valid_data_path, "Validation images",
                                 of_sets(job.config.records, {"valid"}));
  });
  problems.collect([&] { folder.emplace(config.into); });
  problems.throw_if_any();
  decide_labels(train, valid, job.config.records.first_label);
  Predictor& model = job.models.front();
  require_known_classes(train, model.directory.labels);
  if (!model.directory.seen_images)
    job.log.warning("The model has no " + std::string(kSeenImagesFile) +
                    ": whether it was made with these images cannot be checked.");
  Predictions predictions(
      model, job, AnswerPlan{.thresholds = model.rule->thresholds({}, {}), .wants_features = true});
  const auto num_classes = static_cast<std::int64_t>(train.classes.size());
  const std::int64_t of_class = std::min(kMostOfClass, kMostTrained / num_classes);
  const auto size = static_cast<std::uint32_t>(valid.samples.size());
  const auto num_valid = std::min<std::int64_t>(size, kMostHeldOut);
  const FeatureSets features{
      known_features(
          job, predictions,
          some_of(train, some_of_each_class(train.samples, train.classes.size(), of_class, kSeed)),
          &SeenImages::was_trained_on),
      known_features(job, predictions, some_of(valid, evenly(size, num_valid)),
                     &SeenImages::was_chosen_on)};
  const ModelDirectory directory = read_model_directory(config.into);
  std::string file;
  try {
    const at::Tensor log_sums = log_sums_of(*model.network, features.valid.rows);
    file = features_file(known_likeness(features, log_sums, directory.state), directory.state);
  } catch (const Error& failure) {
    throw Error(ErrorCode::kUserError, std::string(kFeaturesFile) + " cannot be made of these " +
                                           "images: " + failure.message() + ". Give more images.");
  }
  folder->replace({{std::string(kFeaturesFile), file}});
  job.log.info("Wrote " + quoted_path(folder->path() / kFeaturesFile) + ".");
}

}  // namespace

int run(const EmbedConfig& config, Process& process) {
  end_on_stop_signals();
  PredictionJob job(config.prediction, process.log);
  if (config.into.empty())
    write_table(config, job);
  else
    add_to_model(config, job);
  return 0;
}

}  // namespace kiln
