// `kiln embed`: the features of images by a trained model, as a table; or those that a model keeps.
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/names.h"
#include "base/output_folder.h"
#include "base/text.h"
#include "data/dataset/listing.h"
#include "modules/parquet/module.h"
#include "predict/features/known_features.h"
#include "predict/job.h"
#include "report/scores/score_formats.h"
#include "tools/commands.h"
#include "tools/score/scoring_progress.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kOneOtherIn = 10;  // images that a model was made with: at most
constexpr std::size_t kNamed = 5;
constexpr std::uint64_t kSeed = 1;

// Features, a row for each image, in a file of its own format. Bad images have empty or NaN ones.
class FeatureTable {
 public:
  explicit FeatureTable(const fs::path& path) : path_(path), file_(path) {}
  virtual ~FeatureTable() = default;
  // Before the first row.
  virtual void begin(std::int64_t num_images, std::int64_t num_features) = 0;
  // `row` is empty for a bad image.
  virtual void add(const std::string& name, std::span<const float> row) = 0;
  virtual void commit() { file_.commit(); }

 protected:
  const fs::path path_;
  DurableFile file_;
  std::int64_t num_features_ = 0;
};

std::string column(std::int64_t i) {
  return "feature_" + std::to_string(i);
}

class CsvTable : public FeatureTable {
 public:
  using FeatureTable::FeatureTable;

  void begin(std::int64_t, std::int64_t num_features) override {
    num_features_ = num_features;
    std::vector<ScoreCell> names = {"path"};
    for (std::int64_t i = 0; i < num_features; ++i) names.emplace_back(column(i));
    file_.write(csv_line(names));
  }
  void add(const std::string& name, std::span<const float> row) override {
    std::vector<ScoreCell> cells = {name};
    for (const float value : row) cells.emplace_back(value);
    cells.resize(static_cast<std::size_t>(num_features_) + 1);
    file_.write(csv_line(cells));
  }
};

class ParquetTable : public FeatureTable {
 public:
  using FeatureTable::FeatureTable;

  void begin(std::int64_t, std::int64_t num_features) override {
    num_features_ = num_features;
    std::vector<ParquetColumn> columns = {{"path", ParquetType::kText}};
    for (std::int64_t i = 0; i < num_features; ++i)
      columns.push_back({column(i), ParquetType::kNumber});
    parquet_ = parquet_module("Parquet files need pip's extra kiln-trainer[parquet], or Kiln "
                              "installed again. Or use .csv or .npy.")
                   .create(columns, {}, [this](std::string_view bytes) { file_.write(bytes); });
  }
  void add(const std::string& name, std::span<const float> row) override {
    std::vector<ParquetValue> values = {as_utf8(name)};
    for (const float value : row) values.emplace_back(static_cast<double>(value));
    values.resize(static_cast<std::size_t>(num_features_) + 1);
    parquet_->add(values);
  }
  void commit() override {
    parquet_->close();
    file_.commit();
  }

 private:
  std::unique_ptr<ParquetFile> parquet_;
};

// NumPy's format, version 1.0 (numpy.lib.format), [N, D]; the names in a text file beside it, which
// is complete first.
class NpyTable : public FeatureTable {
 public:
  explicit NpyTable(const fs::path& path)
      : FeatureTable(path), names_(fs::path(path).replace_extension(".names.csv")) {}

  void begin(std::int64_t num_images, std::int64_t num_features) override {
    num_features_ = num_features;
    std::string header = formatted("{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                                   static_cast<long long>(num_images),
                                   static_cast<long long>(num_features));
    constexpr std::size_t kPreamble = 10, kAlignment = 64;
    header.resize((kPreamble + header.size()) / kAlignment * kAlignment + kAlignment - kPreamble - 1,
                  ' ');
    header += '\n';
    std::string preamble("\x93NUMPY\x01\x00", 8);
    append_little_endian(preamble, static_cast<std::uint16_t>(header.size()));
    file_.write(preamble + header);
    names_.write(csv_line({"path"}));
  }
  void add(const std::string& name, std::span<const float> row) override {
    std::vector<float> values(row.begin(), row.end());
    values.resize(static_cast<std::size_t>(num_features_),
                  std::numeric_limits<float>::quiet_NaN());
    file_.write({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    names_.write(csv_line({name}));
  }
  void commit() override {
    names_.commit();
    file_.commit();
  }

 private:
  DurableFile names_;
};

template <typename Table>
std::unique_ptr<FeatureTable> make(const fs::path& path) {
  return std::make_unique<Table>(path);
}

struct TableFormat {
  std::string_view extension;
  std::unique_ptr<FeatureTable> (*make)(const fs::path& path);
};
constexpr std::array<TableFormat, 3> kFormats{
    {{".parquet", make<ParquetTable>}, {".npy", make<NpyTable>}, {".csv", make<CsvTable>}}};

std::unique_ptr<FeatureTable> open_table(const std::string& path) {
  const std::string extension = in_small_letters(fs::path(path).extension().string());
  for (const TableFormat& format : kFormats)
    if (format.extension == extension) return format.make(path);
  throw Error(ErrorCode::kParameterParsing,
              "--output-path is '" + excerpt(path) + "', but must end in .parquet, .npy or .csv.");
}

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
  std::unique_ptr<FeatureTable> table;
  Problems problems;
  problems.collect([&] { job.open_model(config.trained_model_path, ""); });
  problems.collect([&] { job.read_images(config.data_paths); });
  problems.collect([&] { table = open_table(config.output_path); });
  problems.throw_if_any();
  Predictor& model = job.models.front();
  const std::int64_t num_features = model.num_features();
  const auto num_images = static_cast<std::int64_t>(job.images.samples.size());
  job.log.info("model:     " + model.directory.spec.model_name + ", " +
               plural(num_features, "feature", "features") + " of an image");
  table->begin(num_images, num_features);
  Predictions predictions(model, job, AnswerPlan{.thresholds = model.rule->thresholds({}, {}), .wants_features = true});
  for_each_feature(job, predictions, job.images,
                   [&](const AnsweredImage& image, std::span<const float> row) {
                     table->add(image.score.path, row);
                   });
  table->commit();
  job.log.info("Wrote the features of " + plural(num_images, "image", "images") + ": '" +
               config.output_path + "'.");
}

// ---- --into ----

// `count` images of each class, or `count` from all of the set, in the order of the set.
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
                    grouped(features.size()) +
                    " images that were looked at are none that this model was made with (" +
                    std::string(kSeenImagesFile) +
                    "): give the images that it was trained on, and those of its validation.");
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
                                           quoted_among(unknown, labels, kNamed) +
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
  Predictions predictions(model, job, AnswerPlan{.thresholds = model.rule->thresholds({}, {}), .wants_features = true});
  const auto num_classes = static_cast<std::int64_t>(train.classes.size());
  const std::int64_t of_class = std::min(kMostOfClass, kMostTrained / num_classes);
  const auto size = static_cast<std::uint32_t>(valid.samples.size());
  const auto num_valid = std::min<std::int64_t>(size, kMostHeldOut);
  const FeatureSets features{
      known_features(job, predictions,
                     some_of(train, some_of_each_class(train.samples, train.classes.size(),
                                                       of_class, kSeed)),
                     &SeenImages::was_trained_on),
      known_features(job, predictions, some_of(valid, evenly(size, num_valid)),
                     &SeenImages::was_chosen_on)};
  const ModelDirectory directory = read_model_directory(config.into);
  folder->replace({{std::string(kFeaturesFile),
                    features_file(known_likeness(features, directory.state), directory.state)}});
  job.log.info("Wrote " + quoted_path(folder->path() / kFeaturesFile) + ".");
}

}  // namespace

int run(const EmbedConfig& config, Process& process) {
  end_on_stop_signals();
  survive_broken_pipes();
  PredictionJob job(config.prediction, process.log);
  if (config.into.empty())
    write_table(config, job);
  else
    add_to_model(config, job);
  return 0;
}

}  // namespace kiln
