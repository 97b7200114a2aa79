#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/output_folder.h"
#include "base/system.h"
#include "base/text.h"
#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "data/split/groups.h"
#include "data/split/split_dataset.h"
#include "data/transform/image_pipeline.h"
#include "model/catalogue.h"
#include "model/image_model.h"
#include "model/weights/fetch_file.h"
#include "model/weights/starting_weights.h"
#include "model/weights/weight_source.h"
#include "predict/job.h"
#include "predict/pictures.h"
#include "predict/shortcuts.h"
#include "record/audit_record.h"
#include "record/vocabulary.h"
#include "report/page/gallery.h"
#include "report/page/page.h"
#include "run/process/versions.h"
#include "tools/audit/image_checks.h"
#include "tools/audit/label_checks.h"
#include "tools/commands.h"
#include "tools/report/report_folder.h"
#include "tools/score/scoring_progress.h"
#include "train/features/head_fit.h"
#include "train/features/likeness.h"
#include "train/task.h"

namespace kiln {
namespace {

struct Backbone {
  std::unique_ptr<ImageModel> model;  // on the device
  TransformSpec pixels;
  Normalization normalization;
  std::optional<SeenImages> seen;
  std::string description;  // "resnet18 with the weights of 'm' (a trained model)"
};

constexpr int kAnyClasses = 1000;

// Throws Error kInvalidModelDirectory or kUserError if the model or its weights cannot be used,
// kInvalidDataset if the image size is too small for the network.
Backbone open_backbone(const AuditConfig& config, const at::Device& device, Log& log) {
  Backbone backbone;
  std::string model_name = config.model_name;
  std::optional<Preprocessing> stored;
  WeightSource source;
  if (config.trained_model_path.empty()) {
    source = read_weight_source(
        resolve_weights(config.weights, config.weights_sha256, model_name, log), model_name);
  } else {
    ModelDirectory directory = read_model(config.trained_model_path);
    model_name = directory.spec.model_name;
    stored = directory.preprocessing;
    source = weights_of(std::move(directory), config.trained_model_path);
  }
  const KnownNetwork& network = known_network(model_name);
  // Weights that do not say how to normalize most likely use ImageNet's values, like nearly all
  // published ones.
  backbone.normalization = source.normalization.value_or(kImagenetNormalization);
  const int size = config.image_size > 0 ? config.image_size : network.side();
  backbone.pixels = {.output = {size, size}, .short_side = usual_short_side(size)};
  if (stored) {
    backbone.normalization = stored->normalization;
    if (config.image_size == 0) backbone.pixels = pixels_of(*stored, config.trained_model_path);
    backbone.pixels.exif = stored->exif;
    backbone.pixels.fit = stored->fit;
    backbone.pixels.fill = stored->fill;
  }
  network.require_size(backbone.pixels.output.height, backbone.pixels.output.width,
                       "give another --image-size");
  backbone.description =
      model_name + " with the weights of '" + source.where + "' (" + source.kind + ")";
  backbone.seen = std::move(source.seen);
  // The last layer is not used, so any number of classes will do.
  backbone.model = make_image_model({.model_name = model_name, .num_classes = kAnyClasses});
  load_weights(*backbone.model, model_name, {}, std::move(source));
  backbone.model->prepare(device);
  backbone.model->fold_batch_norm();
  return backbone;
}

// The features of all images that can be decoded, in order. Bad and damaged images are logged and
// added to `records`. Throws Error kInvalidDataset if more images are bad than allowed, or all are.
LabeledFeatures compute_features(const Backbone& backbone, PredictionJob& job,
                                 std::vector<ImageFaultRecord>& records) {
  const auto num_images = static_cast<long long>(job.images.samples.size());
  ImageFeed feed(job, backbone.pixels, backbone.normalization);
  const std::unique_ptr<BatchLoader> loader = feed.open(job.images);
  FeaturePass pass(*backbone.model, *loader, feed.uploader(), job.precision.precision, num_images);
  PredictionFaults faults(job.config.max_bad_images, job.log);
  ScoringProgress progress(num_images, job.log);
  while (pass.step()) {
    for (const BadImage& image : loader->take_faults()) {
      const std::string file(job.images.samples.file_name(image.sample));
      faults.add(file, image.fault, !image.damaged);
      records.push_back({"images", file, image.fault, image.damaged});
    }
    faults.check(num_images);
    progress.show(pass.images_done() + faults.num_bad);
  }
  faults.require_any_good(num_images);
  return pass.take();
}

namespace fs = std::filesystem;

constexpr const char* kPageName = "audit.html";
constexpr const char* kDoubtfulName = "doubtful.csv";
constexpr const char* kDuplicatesName = "duplicates.csv";
constexpr std::size_t kNamed = 5;

// Refuses a folder whose doubtful.csv a person has edited, so that the edits are not overwritten.
OutputFolder open_output(const std::string& path) {
  OutputFolder output = open_report_folder(path, kAuditFileName);
  const fs::path doubtful = output.path() / kDoubtfulName, audit = output.path() / kAuditFileName;
  if (is_there(doubtful) && is_there(audit) && was_edited(read_file(doubtful), read_file(audit)))
    throw Error(
        ErrorCode::kFailedToWriteOutputs,
        "--output-path " + quoted_path(path) + " holds an audit whose " + kDoubtfulName +
            " has been edited and would be overwritten. Choose another folder, or move that file.");
  return output;
}

// Those of an earlier audit, which has had others.
std::vector<fs::path> earlier_pictures(const fs::path& folder) {
  static const std::regex kOwn("(doubtful|copies|flawed)-[0-9]+[ab]\\.jpg");
  std::vector<fs::path> pictures;
  for (const std::string& name : names_in(folder / kPictureFolder))
    if (std::regex_match(name, kOwn)) pictures.push_back(fs::path(kPictureFolder) / name);
  return pictures;
}

std::vector<std::string> classes_with(const Dataset& set, bool (*is_meant)(long long images)) {
  const std::vector<long long> counts = counts_by_class(set, set.classes.size());
  std::vector<std::string> names;
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (is_meant(counts[c])) names.push_back(set.classes[c]);
  return names;
}

// Applies --labels, and notes what came of it.
LabelChanges apply_decisions(const AuditConfig& config, Dataset& set) {
  if (config.labels.empty()) return {};
  const std::string name = "--labels " + quoted_path(config.labels);
  LabelChanges changes = apply_labels(read_image_rows(config.labels, name), name, set,
                                      /*may_name_others=*/true);
  if (!changes.unknown.empty())
    set.notes.push_back(name + " decides on " +
                        plural(std::ssize(changes.unknown), "path", "paths") +
                        " of no image here: " + quoted_names(changes.unknown, kNamed));
  return changes;
}

// Throws Error kInvalidDataset if all images are of a single class, and what apply_labels() does.
Dataset read_images(const AuditConfig& config, LabelChanges& decided) {
  // One list may have both sets.
  const RecordOptions& records = config.prediction.records;
  Dataset set =
      read_labeled_dataset(config.data_path, "Images",
                           config.valid_data_path.empty() ? records : of_sets(records, {"train"}));
  decided = apply_decisions(config, set);
  const auto present = classes_with(set, [](long long images) { return images > 0; });
  if (present.size() < 2 && set.labels.sets.size() < 2)
    throw Error(ErrorCode::kInvalidDataset,
                "Images '" + config.data_path + "': all belong to " +
                    (present.empty() ? "no class" : "the class '" + present.front() + "'") +
                    ". An audit needs at least two classes: give a folder that has them.");
  check_pattern(config.group_by, set);
  return set;
}

// Images far from all others by the features of the network: from the nearest few of up to 10,000,
// beyond the outer fence of the distances (Tukey, "Exploratory Data Analysis", 1977).
std::vector<std::pair<std::uint32_t, FoundFlaw>> outliers_of(const LabeledFeatures& features) {
  constexpr std::int64_t kFewest = 100, kMostCompared = 10'000;
  constexpr double kFence = 3, kLeastSpread = 0.01;  // in quartile ranges; of 1 minus a cosine
  if (features.size() < kFewest) return {};
  const std::int64_t step = (features.size() + kMostCompared - 1) / kMostCompared;
  const Likeness others{
      .axes = {}, .references = unit_rows(features.rows.slice(0, 0, {}, step)), .held_out = {}};
  const at::Tensor found = others.distances(features.rows).to(at::kDouble).contiguous();
  const std::vector<double> distances(found.const_data_ptr<double>(),
                                      found.const_data_ptr<double>() + found.numel());
  std::vector<double> sorted = distances;
  std::ranges::sort(sorted);
  const auto quartile = [&](std::size_t which) { return sorted[which * (sorted.size() - 1) / 4]; };
  const double spread = std::max(quartile(3) - quartile(1), kLeastSpread);
  const double fence = quartile(3) + kFence * spread;
  std::vector<std::pair<std::uint32_t, FoundFlaw>> outliers;
  for (std::size_t i = 0; i < distances.size(); ++i)
    if (distances[i] > fence)
      outliers.emplace_back(features.samples[i],
                            FoundFlaw{Flaw::kOutlier, distances[i] / fence,
                                      formatted("its nearest images are at a distance of %.2f; "
                                                "%.2f is typical",
                                                distances[i], quartile(2))});
  return outliers;
}

Folds divide(const AuditConfig& config, const LabeledFeatures& features,
             const std::vector<std::uint32_t>& groups) {
  std::vector<std::uint32_t> of_rows;
  for (const std::uint32_t image : features.samples) of_rows.push_back(groups[image]);
  Folds folds = divided_into_folds(features.labels, of_rows, config.folds, config.random_seed);
  // The model that judges a fold does not know a label that lies within that fold.
  std::map<std::int32_t, std::set<int>> folds_of;  // by label
  for (std::size_t i = 0; i < folds.of.size(); ++i)
    folds_of[features.labels[i]].insert(folds.of[i]);
  const auto num_judged =
      std::ranges::count_if(folds_of, [](const auto& label) { return label.second.size() > 1; });
  if (folds.count >= 2 && num_judged > 1) return folds;
  throw Error(ErrorCode::kInvalidDataset,
              "Images '" + config.data_path +
                  "' cannot be split into folds: those that can be decoded have only one class, or "
                  "all images of a class belong together" +
                  (config.group_by.empty() ? " as copies" : ", by --group-by or as duplicates") +
                  ". Give more images" + (config.group_by.empty() ? "." : ", or another pattern."));
}

// One thread.
class Audit {
 public:
  // Opens what the command reads and writes. Throws all problems together.
  Audit(const AuditConfig& config, Log& log) : config_(config), job_(config.prediction, log) {
    Problems problems;
    problems.collect(
        [&] { backbone_.emplace(open_backbone(config, torch_device(job_.device), log)); });
    problems.collect([&] { job_.images = read_images(config, decided_); });
    if (!config.valid_data_path.empty())
      problems.collect([&] {
        valid_ = read_labeled_dataset(config.valid_data_path, "Validation images",
                                      of_sets(config.prediction.records, {"valid"}));
      });
    problems.collect([&] { output_.emplace(open_output(config.output_path)); });
    problems.throw_if_any();
    // A trained model says how it sees images, for the search for copies too.
    if (config.trained_model_path.empty()) backbone_->pixels.exif = job_.images.exif;
    job_.images.exif = backbone_->pixels.exif;
    if (valid_) {
      valid_->exif = job_.images.exif;
      sets_.push_back(&*valid_);
    }
    job_.images.add_note(note_of_unused(config.prediction.records, sets_));
  }

  void log_start() const {
    const Dataset& set = job_.images;
    Log& log = job_.log;
    job_.warn_of_precision();
    log.info("backbone:  " + backbone_->description);
    log.info("images:    " + grouped(set.samples.size()) + " of " +
             plural(std::ssize(set.classes), "class", "classes") + ", " + describe(set.kind));
    if (!config_.labels.empty())
      log.info("decisions: " + grouped(decided_.num_decided) + " of '" + config_.labels +
               "': " + grouped(std::ranges::count(decided_.are_right, true)) + " right, " +
               grouped(static_cast<long long>(decided_.num_changed)) + " relabeled, " +
               grouped(std::ssize(decided_.left_out)) + " left out");
    for (const std::string& note : set.notes) log.warning(note);
    if (valid_) {
      log.info("validate:  " + grouped(valid_->samples.size()) + " images, " +
               describe(valid_->kind) + ": searched only for duplicates");
      for (const std::string& note : valid_->notes) log.warning(note);
    }
    if (const auto single = classes_with(set, [](long long images) { return images == 1; });
        !single.empty())
      log.warning("Classes with a single image cannot be judged: " + quoted_names(single, kNamed) +
                  ".");
  }

  // Writes all files under temporary names, and renames them when all are complete.
  const AuditRecord& write_findings() {
    judge();
    const fs::path folder = config_.output_path;
    std::vector<OutputFile> files;
    std::string page = audit_html(record_, folder / kPageName, &files);
    files.push_back({kDoubtfulName, doubtful_csv(record_)});
    files.push_back({kDuplicatesName, duplicates_csv(record_)});
    files.push_back({kPageName, std::move(page)});
    files.push_back({kAuditFileName, audit_json(record_)});
    output_->replace(files, earlier_pictures(folder));
    return record_;
  }

 private:
  void judge() {
    Dataset& set = job_.images;
    record_.time = unix_seconds();
    record_.data_path = config_.data_path;
    record_.valid_data_path = config_.valid_data_path;
    record_.options = config_.settings.texts();
    record_.versions = versions(job_.device.is_cuda);
    record_.device = job_.device.description;
    record_.precision = precision_name(job_.precision.precision);
    record_.backbone = backbone_->description;
    record_.has_measures = pictures_module() != nullptr;
    record_.num_decided = decided_.num_decided;
    const int threads =
        config_.prediction.loader_threads > 0 ? config_.prediction.loader_threads : usable_cpus();
    const ImageLooks looks = look_at_images(set, threads, job_.log);
    const DuplicatePairs pairs = copies_in(looks.scanned, job_.log);
    const std::vector<ImageCopy> copies =
        copies_of(sets_, valid_ ? copies_in(with_valid(looks.scanned, threads), job_.log) : pairs);
    const LabeledFeatures features = compute_features(*backbone_, job_, record_.faults);
    if (const std::optional<SeenImages>& seen = backbone_->seen)
      for (const std::uint32_t image : features.samples)
        record_.num_seen += seen->was_trained_on(looks.scanned.hashes[image]);
    // Copies and images of the same --group-by group share a fold, so the model that judges them
    // has seen none of them.
    const std::vector<std::uint32_t> groups = groups_of(set, pairs, config_.group_by);
    const Folds folds = divide(config_, features, groups);
    record_.num_folds = folds.count;
    const auto task = task_of(set.labels.sets, set.classes.size());
    const HeadFit head = fit_head(features, static_cast<int>(set.classes.size()), folds,
                                  /*class_weights=*/{}, {[] { return false; }}, *task);
    add_labels(head.out_of_fold_logits, features);
    if (!record_.has_several_labels) add_shortcuts(looks.facts, groups);
    for (const ImageCopy& copy : copies) {
      const std::size_t place = record_.copies.size();
      record_.copies.push_back(
          {audited(copy.first, place), audited(copy.other, place), copy.is_exact});
    }
    add_flawed(looks.measures, outliers_of(features));
  }

  // These images, and after them those of the validation set.
  ScannedImages with_valid(ScannedImages both, int num_threads) {
    const ScannedImages of_valid = look_at_images(*valid_, num_threads, job_.log).scanned;
    both.hashes.insert(both.hashes.end(), of_valid.hashes.begin(), of_valid.hashes.end());
    both.looks.insert(both.looks.end(), of_valid.looks.begin(), of_valid.looks.end());
    return both;
  }

  // `logits` are those of models that have not seen the images.
  void add_labels(const at::Tensor& logits, const LabeledFeatures& features) {
    const Dataset& set = job_.images;
    record_.num_images = static_cast<std::int64_t>(set.samples.size());
    record_.num_bad = record_.num_images - features.size();
    record_.has_several_labels = !set.labels.sets.empty();
    const std::vector<std::uint32_t> rows = check_labels(logits, features.labels, set, record_);
    std::vector<DoubtfulLabel> doubted = std::exchange(record_.doubtful, {});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::uint32_t image = features.samples[rows[i]];
      if (is_right(image)) continue;
      doubted[i].image = audited(image, record_.doubtful.size());
      record_.doubtful.push_back(std::move(doubted[i]));
      set.for_each_class(set.samples.label(image),
                         [&](int id) { ++record_.classes[id].num_doubtful; });
    }
  }

  void add_shortcuts(const std::vector<ImageFacts>& facts,
                     const std::vector<std::uint32_t>& groups) {
    std::vector<std::int32_t> labels;
    for (const Sample& image : job_.images.samples) labels.push_back(image.label);
    std::vector<Shortcut> found = shortcuts_of(facts, labels, groups);
    if (found.empty()) return;
    const double guessing = share_of(found.front().largest, found.front().images);
    record_.shortcuts =
        telling(std::move(found), share_of(record_.num_agreed, record_.num_judged) - guessing);
  }

  void add_flawed(std::span<const ImageMeasures> measures,
                  std::vector<std::pair<std::uint32_t, FoundFlaw>> outliers) {
    const UsualImage usual = usual_image(measures);
    std::vector<std::pair<std::uint32_t, FoundFlaw>> flawed;
    for (std::uint32_t i = 0; i < measures.size(); ++i)
      for (FoundFlaw& flaw : flaws_of(measures[i], usual)) flawed.emplace_back(i, std::move(flaw));
    for (auto& outlier : outliers)  // a dark image is far from others because it is dark
      if (flaws_of(measures[outlier.first], usual).empty()) flawed.push_back(std::move(outlier));
    std::ranges::stable_sort(flawed, [](const auto& a, const auto& b) {
      return std::tuple(a.second.flaw, -a.second.extent) <
             std::tuple(b.second.flaw, -b.second.extent);
    });
    for (const auto& [image, flaw] : flawed)
      record_.flawed.push_back(
          {audited(image, record_.flawed.size()), flaw_name(flaw.flaw), flaw.reason, flaw.extent});
  }

  // The image to show at `place` in its list; those of the validation set are numbered on.
  AuditedImage audited(std::uint32_t image, std::size_t place) const {
    const bool validates = image >= job_.images.samples.size();
    const Dataset& set = *sets_[validates ? 1 : 0];
    const std::size_t i = validates ? image - job_.images.samples.size() : image;
    const bool draws = !config_.no_pictures && place < static_cast<std::size_t>(config_.top);
    return {std::string(set.samples.file_name(i)), set.label_text(set.samples.label(i)),
            draws ? thumbnail_of(set, i, backbone_->pixels) : Thumbnail(), validates,
            is_right(image)};
  }

  bool is_right(std::uint32_t image) const {
    return image < decided_.are_right.size() && decided_.are_right[image];
  }

  const AuditConfig& config_;
  PredictionJob job_;
  std::optional<Backbone> backbone_;
  LabelChanges decided_;          // by --labels
  std::optional<Dataset> valid_;  // only searched for copies
  std::vector<const Dataset*> sets_ = {&job_.images};
  std::optional<OutputFolder> output_;
  AuditRecord record_;
};

void log_end(const AuditConfig& config, const AuditRecord& record, Log& log) {
  log.info("");
  log.info("labels:    " + audit_verdict(record).text);
  log.info("copies:    " + grouped(record.copies.size()) +
           (record.valid_data_path.empty()
                ? ""
                : ", " + grouped(num_copies_across_sets(record)) + " across the two sets"));
  log.info("flawed:    " + grouped(record.flawed.size()) +
           (record.has_measures ? " dark, bright, blurred, empty, odd or outliers" : " outliers"));
  for (const Finding& finding : audit_findings(record))
    if (finding.judged == Judged::kWarning)
      log.warning(finding.text);
    else if (finding.judged == Judged::kNote)
      log.info("           " + finding.text);
  log.info("");
  log.info("Wrote '" + (fs::path(config.output_path) / kPageName).string() + "' and '" +
           (fs::path(config.output_path) / kDoubtfulName).string() + "'.");
}

}  // namespace

int run(const AuditConfig& config, Process& process) {
  Log& log = process.log;
  end_on_stop_signals();
  survive_broken_pipes();
  Audit audit(config, log);
  audit.log_start();
  const AuditRecord& record = audit.write_findings();
  log_end(config, record, log);
  if (config.json) std::fputs(audit_json(record).c_str(), stdout);
  return 0;
}

}  // namespace kiln
