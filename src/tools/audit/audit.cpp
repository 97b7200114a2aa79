#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/softmax.h>

#include "base/error.h"
#include "base/files.h"
#include "base/output_folder.h"
#include "base/system.h"
#include "base/text.h"
#include "data/split/groups.h"
#include "parallel/processors/compute_threads.h"
#include "record/audit_record.h"
#include "report/page/audit_page.h"
#include "run/process/versions.h"
#include "tools/audit/audit_backbone.h"
#include "tools/audit/audit_copies.h"
#include "tools/audit/audit_record.h"
#include "tools/audit/audit_scan.h"
#include "tools/commands.h"
#include "tools/report/report_folder.h"
#include "train/features/folds.h"
#include "train/features/head_fit.h"
#include "train/precision.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPageName = "audit.html";
constexpr const char* kDoubtfulName = "doubtful.csv";
constexpr const char* kDuplicatesName = "duplicates.csv";
constexpr std::size_t kNamed = 5;

// What the command reads and writes.
struct Parts {
  Device device;
  PrecisionChoice precision;
  std::optional<Backbone> backbone;
  Dataset set;
  std::optional<Dataset> valid;  // only searched for copies
  std::optional<OutputFolder> output;
};

// Refuses a folder whose doubtful.csv a person has edited, so that the edits are not overwritten.
OutputFolder open_output(const std::string& path) {
  OutputFolder output = open_report_folder(path, kAuditFileName, "an audit");
  const fs::path doubtful = output.path() / kDoubtfulName, audit = output.path() / kAuditFileName;
  std::error_code failure;
  if (fs::exists(doubtful, failure) && fs::exists(audit, failure) &&
      was_edited(read_file(doubtful), read_file(audit)))
    throw Error(
        ErrorCode::kFailedToWriteOutputs,
        "--output-path " + quoted_path(path) + " holds an audit whose " + kDoubtfulName +
            " has been edited and would be overwritten. Choose another folder, or move that file.");
  return output;
}

// Throws Error kInvalidDataset if all images are of a single class.
Dataset read_images(const AuditConfig& config) {
  Dataset set = read_labeled_dataset(config.data_path, "Images", config.prediction.records);
  const std::vector<long long> counts = counts_by_class(set, set.classes.size());
  std::vector<std::string> present;
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (counts[c] > 0) present.push_back(set.classes[c]);
  if (present.size() < 2)
    throw Error(ErrorCode::kInvalidDataset,
                "Images '" + config.data_path + "': all belong to the class '" + present.front() +
                    "'. An audit needs at least two classes: give a folder that has them.");
  return set;
}

// Throws all problems together.
void open_parts(const AuditConfig& config, Parts& parts, Log& log) {
  parts.device = choose_device(config.prediction.device);
  parts.precision = choose_precision(config.prediction.precision, units_of(parts.device));
  Problems problems;
  problems.collect(
      [&] { parts.backbone.emplace(open_backbone(config, torch_device(parts.device), log)); });
  problems.collect([&] { parts.set = read_images(config); });
  if (!config.valid_data_path.empty())
    problems.collect([&] {
      parts.valid = read_labeled_dataset(config.valid_data_path, "Validation images",
                                         config.prediction.records);
    });
  problems.collect([&] { parts.output.emplace(open_output(config.output_path)); });
  problems.throw_if_any();
  // A trained model says how it sees images, for the search for copies too.
  if (config.trained_model_path.empty()) parts.backbone->pixels.exif = parts.set.exif;
  parts.set.exif = parts.backbone->pixels.exif;
  if (parts.valid) parts.valid->exif = parts.set.exif;
}

void log_start(const Parts& parts, Log& log) {
  if (!parts.precision.warning.empty()) log.warning(parts.precision.warning);
  log.info("backbone:  " + printable(parts.backbone->description));
  log.info("images:    " + grouped(static_cast<long long>(parts.set.samples.size())) + " of " +
           grouped(static_cast<long long>(parts.set.classes.size())) + " classes, " +
           describe(parts.set.kind));
  for (const std::string& note : parts.set.notes) log.warning(note);
  if (parts.valid) {
    log.info("validate:  " + grouped(static_cast<long long>(parts.valid->samples.size())) +
             " images, " + describe(parts.valid->kind) + ": searched only for duplicates");
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

// Whether at least two classes have images in more than one fold. The model that judges a fold does
// not know a class that lies within that fold.
bool has_two_judged_classes(const std::vector<std::int32_t>& labels, const Folds& folds) {
  std::map<std::int32_t, std::set<int>> parts;
  for (std::size_t i = 0; i < labels.size(); ++i) parts[labels[i]].insert(folds.of[i]);
  return std::count_if(parts.begin(), parts.end(),
                       [](const auto& part) { return part.second.size() > 1; }) > 1;
}

Folds divide(const AuditConfig& config, const LabeledFeatures& features,
             const std::vector<std::uint32_t>& groups) {
  std::vector<std::uint32_t> of_rows;
  for (const std::uint32_t image : features.samples) of_rows.push_back(groups[image]);
  Folds folds = divided_into_folds(features.labels, of_rows, config.folds,
                                   static_cast<std::uint64_t>(config.random_seed));
  if (folds.count >= 2 && has_two_judged_classes(features.labels, folds)) return folds;
  throw Error(ErrorCode::kInvalidDataset,
              "Images '" + config.data_path +
                  "' cannot be split into folds: those that can be decoded have only one class, or "
                  "all images of a class belong together" +
                  (config.group_by.empty() ? " as copies" : ", by --group-by or as duplicates") +
                  ". Give more images" + (config.group_by.empty() ? "." : ", or another pattern."));
}

std::span<const float> numbers_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

// `pairs` are the copies among the images that are judged.
std::vector<ImageCopy> all_copies(Parts& parts, const ImageLooks& looks,
                                  const DuplicatePairs& pairs, int num_threads, Log& log) {
  if (!parts.valid) return copies_of_set(parts.set, pairs);
  const ImageLooks of_valid = look_at_images(*parts.valid, num_threads);
  return copies_of_sets({parts.set, looks.scanned}, {*parts.valid, of_valid.scanned}, log);
}

AuditRecord judge(const AuditConfig& config, Parts& parts, Log& log) {
  AuditRecord record;
  record.time = unix_seconds();
  record.data_path = config.data_path;
  record.valid_data_path = config.valid_data_path;
  record.options = config.effective_options;
  record.versions = versions(parts.device.is_cuda);
  record.device = parts.device.description;
  record.precision = precision_name(parts.precision.precision);
  record.backbone = parts.backbone->description;
  record.num_shown = static_cast<std::size_t>(config.top);
  const int threads =
      config.prediction.loader_threads > 0 ? config.prediction.loader_threads : usable_cpus();
  const ImageLooks looks = look_at_images(parts.set, threads);
  const DuplicatePairs pairs = copies_in(looks.scanned, log);
  const std::vector<ImageCopy> copies = all_copies(parts, looks, pairs, threads, log);
  const LabeledFeatures features =
      compute_features(*parts.backbone, parts.set, config, parts.device, log, record.faults);
  // Copies and images of the same --group-by group share a fold, so the model that judges them has
  // seen none of them.
  const Folds folds = divide(config, features, groups_of(parts.set, pairs, config.group_by));
  record.num_folds = folds.count;
  const std::size_t num_classes = parts.set.classes.size();
  const HeadFit head = fit_head(features, static_cast<int>(num_classes), folds,
                                /*class_weights=*/{}, {[] { return false; }});
  const at::Tensor probabilities = head.out_of_fold_logits.softmax(1).contiguous();
  const at::Tensor rows = features.rows.contiguous();
  const JudgedLabels judged{numbers_of(probabilities), features.labels, num_classes};
  const FeatureRows vectors{numbers_of(rows), features.labels,
                            static_cast<std::size_t>(rows.size(1)), num_classes};
  add_findings({parts.set, parts.valid ? &*parts.valid : nullptr, looks, copies, judged, vectors,
                features.samples, parts.backbone->pixels},
               record);
  return record;
}

// Writes all files under temporary names, and renames them when all are complete.
void write_files(const AuditRecord& record, const OutputFolder& output) {
  std::vector<DurableFile> files;
  const auto add = [&](const char* name, const std::string& bytes) {
    files.emplace_back(output.path() / name).write(bytes);
  };
  add(kDoubtfulName, doubtful_csv(record));
  add(kDuplicatesName, duplicates_csv(record));
  add(kPageName, audit_html(record));
  add(kAuditFileName, audit_json(record));
  output.replace(std::move(files), {});
}

void log_end(const AuditConfig& config, const AuditRecord& record, Log& log) {
  const auto count = [](std::size_t number) { return grouped(static_cast<long long>(number)); };
  log.info("");
  log.info("labels:    " + (can_judge(record)
                                ? formatted("%s of %s are probably wrong; %s images to look at",
                                            grouped(num_probably_wrong(record)).c_str(),
                                            grouped(record.num_judged).c_str(),
                                            count(record.doubtful.size()).c_str())
                                : audit_verdict(record).text));
  log.info("copies:    " + count(record.copies.size()) +
           (record.valid_data_path.empty()
                ? ""
                : ", " + count(num_copies_across_sets(record)) + " across the two sets"));
  log.info("outliers:  " + count(record.outliers.size()));
  log.info("flawed:    " + count(record.flawed.size()) + " dark, bright, blurred, empty or odd");
  for (const Finding& finding : audit_findings(record))
    if (finding.judged == Judged::kWarning) log.warning(finding.text);
  log.info("");
  log.info("Wrote '" + (fs::path(config.output_path) / kPageName).string() + "' and '" +
           (fs::path(config.output_path) / kDoubtfulName).string() + "'.");
}

}  // namespace

int run(const AuditConfig& config, Process& process) {
  Log& log = process.log;
  end_on_stop_signals();
  survive_broken_pipes();
  keep_freed_memory();
  Parts parts;
  open_parts(config, parts, log);
  const int threads = config.prediction.threads;
  use_compute_threads(threads > 0 ? threads : usable_cpus());
  set_tf32(parts.precision.precision);
  log_start(parts, log);
  const AuditRecord record = judge(config, parts, log);
  write_files(record, *parts.output);
  log_end(config, record, log);
  return 0;
}

}  // namespace kiln
