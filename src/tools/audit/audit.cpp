#include <c10/core/Device.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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
#include "data/transform/image_pipeline.h"
#include "model/catalogue.h"
#include "model/image_model.h"
#include "model/weights/fetch_file.h"
#include "model/weights/starting_weights.h"
#include "model/weights/weight_source.h"
#include "predict/explanations.h"
#include "predict/inference.h"
#include "record/audit_record.h"
#include "record/vocabulary.h"
#include "report/page/page.h"
#include "run/process/versions.h"
#include "tools/audit/image_checks.h"
#include "tools/audit/label_checks.h"
#include "tools/commands.h"
#include "tools/report/report_folder.h"
#include "tools/score/scoring_progress.h"
#include "train/features/head_fit.h"
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

constexpr int kUsualSize = 224, kAnyClasses = 1000;

TransformSpec pixels_of_size(int size) {
  return {.output = {size, size}, .short_side = usual_short_side(size)};
}

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
  backbone.pixels = pixels_of_size(config.image_size > 0 ? config.image_size : kUsualSize);
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
// added to `faults`. Throws Error kInvalidDataset if more images are bad than allowed, or all are.
LabeledFeatures compute_features(const Backbone& backbone, Dataset& set, const AuditConfig& config,
                                 const Inference& inference, Log& log,
                                 std::vector<ImageFaultRecord>& faults) {
  const auto num_images = static_cast<long long>(set.samples.size());
  ImageFeed feed(inference, backbone.pixels, backbone.normalization, log);
  BatchLoader loader = feed.open(set);
  FeaturePass pass(*backbone.model, loader, feed.uploader(), inference.precision(), num_images);
  PredictionFaults told(config.prediction.max_bad_images, log);
  ScoringProgress progress(num_images, log);
  while (pass.step()) {
    for (const BadImage& image : loader.take_faults()) {
      const std::string file(set.samples.file_name(image.sample));
      told.note(file, image.fault, !image.damaged);
      faults.push_back({"images", file, image.fault, image.damaged});
    }
    told.check(num_images);
    progress.show(pass.images_done() + told.num_bad);
  }
  told.require_any_good(num_images);
  return pass.take();
}

// What was found about the images of `set`, to fill in a record's lists, its classes, and its
// counts of images and of agreements. At most `num_shown` entries of each list have thumbnails.
struct AuditFindings {
  const Dataset& set;
  const Dataset* valid;  // nullptr: none
  const ImageLooks& looks;
  // Includes the images of `valid`, which are numbered after those of `set`.
  const std::vector<ImageCopy>& copies;
  // One row for each judged image; `images` gives the image of each row.
  const CheckedLabels& checked;
  std::span<const std::uint32_t> images;
  TransformSpec pixels;  // for thumbnails
  AuditRecord& record;

  void add_all() {
    add_labels();
    add_copies();
    add_flawed();
  }

  void add_labels() {
    record.num_images = static_cast<std::int64_t>(set.samples.size());
    record.num_bad = record.num_images - std::ssize(images);
    record.has_several_labels = !set.labels.sets.empty();
    record.num_judged = checked.num_judged;
    record.num_agreed = checked.num_agreed;
    record.classes = checked.classes;
    for (const LabelDoubt& doubt : checked.doubts) {
      const std::uint32_t image = images[doubt.row];
      record.doubtful.push_back({audited(image, record.doubtful.size()), doubt.suggested,
                                 doubt.confidence, doubt.self_confidence});
      set.for_each_class(set.samples.label(image), [&](int id) {
        ++record.classes[static_cast<std::size_t>(id)].num_doubtful;
      });
    }
  }

  void add_copies() {
    for (const ImageCopy& copy : copies) {
      const std::size_t place = record.copies.size();
      record.copies.push_back(
          {audited(copy.first, place), audited(copy.other, place), copy.is_exact});
    }
  }

  void add_flawed() {
    const UsualImage usual = usual_image(looks.measures);
    std::vector<std::pair<std::uint32_t, FoundFlaw>> flawed;
    for (std::uint32_t i = 0; i < looks.measures.size(); ++i)
      for (FoundFlaw& flaw : flaws_of(looks.measures[i], usual))
        flawed.emplace_back(i, std::move(flaw));
    std::ranges::stable_sort(flawed, [](const auto& a, const auto& b) {
      return std::tuple(a.second.flaw, -a.second.extent) <
             std::tuple(b.second.flaw, -b.second.extent);
    });
    for (const auto& [image, flaw] : flawed)
      record.flawed.push_back(
          {audited(image, record.flawed.size()), flaw_name(flaw.flaw), flaw.reason, flaw.extent});
  }

  // The image to show at `place` in its list.
  AuditedImage audited(std::uint32_t image, std::size_t place) const {
    const bool validates = image >= set.samples.size();
    const Dataset& its = validates ? *valid : set;
    const std::size_t i = validates ? image - set.samples.size() : image;
    return {std::string(its.samples.file_name(i)), its.label_text(its.samples.label(i)),
            place < record.num_shown ? thumbnail_of(its, i, pixels) : Thumbnail(), validates};
  }
};

namespace fs = std::filesystem;

constexpr const char* kPageName = "audit.html";
constexpr const char* kDoubtfulName = "doubtful.csv";
constexpr const char* kDuplicatesName = "duplicates.csv";
constexpr std::size_t kNamed = 5;

// What the command reads and writes.
struct Parts {
  explicit Parts(const AuditConfig& config) : inference(config.prediction) {}

  const Inference inference;
  std::optional<Backbone> backbone;
  Dataset set;
  std::optional<Dataset> valid;  // only searched for copies
  std::optional<OutputFolder> output;
};

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

// Throws Error kInvalidDataset if all images are of a single class.
Dataset read_images(const AuditConfig& config) {
  // One list may have both sets.
  const RecordOptions& records = config.prediction.records;
  Dataset set =
      read_labeled_dataset(config.data_path, "Images",
                           config.valid_data_path.empty() ? records : of_sets(records, {"train"}));
  const std::vector<long long> counts = counts_by_class(set, set.classes.size());
  std::vector<std::string> present;
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (counts[c] > 0) present.push_back(set.classes[c]);
  if (present.size() < 2 && set.labels.sets.size() < 2)
    throw Error(ErrorCode::kInvalidDataset,
                "Images '" + config.data_path + "': all belong to " +
                    (present.empty() ? "no class" : "the class '" + present.front() + "'") +
                    ". An audit needs at least two classes: give a folder that has them.");
  check_pattern(config.group_by, set);
  return set;
}

// Throws all problems together.
void open_parts(const AuditConfig& config, Parts& parts, Log& log) {
  Problems problems;
  problems.collect(
      [&] { parts.backbone.emplace(open_backbone(config, parts.inference.torch_device(), log)); });
  problems.collect([&] { parts.set = read_images(config); });
  if (!config.valid_data_path.empty())
    problems.collect([&] {
      parts.valid = read_labeled_dataset(config.valid_data_path, "Validation images",
                                         of_sets(config.prediction.records, {"valid"}));
    });
  problems.collect([&] { parts.output.emplace(open_output(config.output_path)); });
  problems.throw_if_any();
  // A trained model says how it sees images, for the search for copies too.
  if (config.trained_model_path.empty()) parts.backbone->pixels.exif = parts.set.exif;
  parts.set.exif = parts.backbone->pixels.exif;
  std::vector<const Dataset*> sets = {&parts.set};
  if (parts.valid) {
    parts.valid->exif = parts.set.exif;
    sets.push_back(&*parts.valid);
  }
  if (std::string note = note_of_unused(config.prediction.records, sets); !note.empty())
    parts.set.notes.push_back(std::move(note));
}

void log_start(const Parts& parts, Log& log) {
  if (!parts.inference.precision_warning().empty())
    log.warning(parts.inference.precision_warning());
  log.info("backbone:  " + parts.backbone->description);
  log.info("images:    " + grouped(parts.set.samples.size()) + " of " +
           plural(std::ssize(parts.set.classes), "class", "classes") + ", " +
           describe(parts.set.kind));
  for (const std::string& note : parts.set.notes) log.warning(note);
  if (parts.valid) {
    log.info("validate:  " + grouped(parts.valid->samples.size()) + " images, " +
             describe(parts.valid->kind) + ": searched only for duplicates");
    for (const std::string& note : parts.valid->notes) log.warning(note);
  }
  const std::vector<long long> counts = counts_by_class(parts.set, parts.set.classes.size());
  std::vector<std::string> single;
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (counts[c] == 1) single.push_back(parts.set.classes[c]);
  if (!single.empty())
    log.warning("Classes with a single image cannot be judged: " + quoted_names(single, kNamed) +
                ".");
}

// Whether at least two labels have images in more than one fold. The model that judges a fold does
// not know a label that lies within that fold.
bool has_two_judged_labels(const std::vector<std::int32_t>& labels, const Folds& folds) {
  std::map<std::int32_t, std::set<int>> parts;
  for (std::size_t i = 0; i < labels.size(); ++i) parts[labels[i]].insert(folds.of[i]);
  return std::ranges::count_if(parts, [](const auto& part) { return part.second.size() > 1; }) > 1;
}

Folds divide(const AuditConfig& config, const LabeledFeatures& features,
             const std::vector<std::uint32_t>& groups) {
  std::vector<std::uint32_t> of_rows;
  for (const std::uint32_t image : features.samples) of_rows.push_back(groups[image]);
  Folds folds = divided_into_folds(features.labels, of_rows, config.folds,
                                   static_cast<std::uint64_t>(config.random_seed));
  if (folds.count >= 2 && has_two_judged_labels(features.labels, folds)) return folds;
  throw Error(ErrorCode::kInvalidDataset,
              "Images '" + config.data_path +
                  "' cannot be split into folds: those that can be decoded have only one class, or "
                  "all images of a class belong together" +
                  (config.group_by.empty() ? " as copies" : ", by --group-by or as duplicates") +
                  ". Give more images" + (config.group_by.empty() ? "." : ", or another pattern."));
}

// `pairs` are the copies among the images that are judged.
std::vector<ImageCopy> all_copies(Parts& parts, const ImageLooks& looks,
                                  const DuplicatePairs& pairs, int num_threads, Log& log) {
  if (!parts.valid) return copies_of({&parts.set}, pairs);
  const ScannedImages of_valid = look_at_images(*parts.valid, num_threads).scanned;
  ScannedImages both = looks.scanned;
  both.hashes.insert(both.hashes.end(), of_valid.hashes.begin(), of_valid.hashes.end());
  both.looks.insert(both.looks.end(), of_valid.looks.begin(), of_valid.looks.end());
  return copies_of({&parts.set, &*parts.valid}, copies_in(both, log));
}

AuditRecord judge(const AuditConfig& config, Parts& parts, Log& log) {
  AuditRecord record;
  record.time = unix_seconds();
  record.data_path = config.data_path;
  record.valid_data_path = config.valid_data_path;
  record.options = config.settings.texts();
  record.versions = versions(parts.inference.device().is_cuda);
  record.device = parts.inference.device().description;
  record.precision = precision_name(parts.inference.precision());
  record.backbone = parts.backbone->description;
  record.num_shown = static_cast<std::size_t>(config.top);
  const int threads =
      config.prediction.loader_threads > 0 ? config.prediction.loader_threads : usable_cpus();
  const ImageLooks looks = look_at_images(parts.set, threads);
  const DuplicatePairs pairs = copies_in(looks.scanned, log);
  const std::vector<ImageCopy> copies = all_copies(parts, looks, pairs, threads, log);
  const LabeledFeatures features =
      compute_features(*parts.backbone, parts.set, config, parts.inference, log, record.faults);
  if (const std::optional<SeenImages>& seen = parts.backbone->seen)
    for (const std::uint32_t image : features.samples)
      record.num_seen += seen->was_trained_on(looks.scanned.hashes[image]);
  // Copies and images of the same --group-by group share a fold, so the model that judges them has
  // seen none of them.
  const Folds folds = divide(config, features, groups_of(parts.set, pairs, config.group_by));
  record.num_folds = folds.count;
  const auto task = task_of(parts.set.labels.sets, parts.set.classes.size());
  const HeadFit head = fit_head(features, static_cast<int>(parts.set.classes.size()), folds,
                                /*class_weights=*/{}, {[] { return false; }}, *task);
  const CheckedLabels checked = check_labels(head.out_of_fold_logits, features.labels, parts.set);
  AuditFindings{parts.set,
                parts.valid ? &*parts.valid : nullptr,
                looks,
                copies,
                checked,
                features.samples,
                parts.backbone->pixels,
                record}
      .add_all();
  return record;
}

// Writes all files under temporary names, and renames them when all are complete.
void write_files(const AuditRecord& record, const OutputFolder& output) {
  output.replace({{kDoubtfulName, doubtful_csv(record)},
                  {kDuplicatesName, duplicates_csv(record)},
                  {kPageName, audit_html(record)},
                  {kAuditFileName, audit_json(record)}});
}

void log_end(const AuditConfig& config, const AuditRecord& record, Log& log) {
  log.info("");
  log.info("labels:    " + audit_verdict(record).text);
  log.info("copies:    " + grouped(record.copies.size()) +
           (record.valid_data_path.empty()
                ? ""
                : ", " + grouped(num_copies_across_sets(record)) + " across the two sets"));
  log.info("flawed:    " + grouped(record.flawed.size()) + " dark, bright, blurred, empty or odd");
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
  Parts parts(config);
  open_parts(config, parts, log);
  log_start(parts, log);
  const AuditRecord record = judge(config, parts, log);
  write_files(record, *parts.output);
  log_end(config, record, log);
  return 0;
}

}  // namespace kiln
