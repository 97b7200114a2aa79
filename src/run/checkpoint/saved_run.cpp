#include "run/checkpoint/saved_run.h"

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "record/run_json.h"
#include "record/run_summary.h"

namespace kiln {

KILN_FIELDS(DatasetFingerprint, images, classes, hash)

KILN_FIELDS(EpochTimes, seconds, data_wait_seconds, parts, communication)

void visit_fields(Is<SavedEpoch> auto& epoch, auto&& field) {
  fields(field, "steps", epoch.steps, "has_joined", epoch.statistics_averaged, "totals",
         epoch.totals, "images", epoch.images, "weighted_seconds", epoch.weighted_seconds,
         "weighted_rate", epoch.weighted_rate, "spent", epoch.spent);
}

static Json as_json(const ImageFaults& faults) {
  return {{"samples", faults.samples},
          {"records", as_json(faults.records)},
          {"num_bad", faults.num_bad}};
}
static void from_json(const Json& json, ImageFaults& faults) {
  faults.samples = json.at("samples").get<std::set<std::uint32_t>>();
  from_json(json.at("records"), faults.records);
  faults.num_bad = json.at("num_bad").get<int>();
}

void visit_fields(Is<SavedRank> auto& rank, auto&& field) {
  fields(field, "epoch", rank.epoch, "bad_training_images", rank.bad_train, "bad_validation_images",
         rank.bad_valid, "training_data", rank.train, "validation_data", rank.valid);
}

KILN_FIELDS(SavedMachine, version, instructions, device, num_ranks, num_threads)

void visit_fields(Is<BestEpoch> auto& best, auto&& field) {
  fields(field, "epoch", best.epoch, "totals", best.valid, "macro_recall", best.mean, "calibration",
         best.calibration);
}

KILN_FIELDS(EarlyStopping, patience, strikes, previous_loss)

KILN_FIELDS(LossScale, scale, steps_since_overflow, skipped_steps)

KILN_FIELDS(TimePlan, epochs, epoch_seconds, end_seconds, is_over, steps)

KILN_FIELDS(AutomaticProgress, found, frozen_mean, tuned_mean)

void visit_fields(Is<AutomaticSize> auto& chosen, auto&& field) {
  fields(field, "height", chosen.size.height, "width", chosen.size.width, "is_stored",
         chosen.is_stored);
}

KILN_FIELDS(Progress, epochs_done, best, early_stopping, time_plan, automatic)

void visit_fields(Is<SavedRun> auto& record, auto&& field) {
  KILN_EACH(time, started, finished, machine, options, options_in_effect, precision, exif, fit,
            mean, std, image_size, model)
  field("model_print", record.model_fingerprint);
  KILN_EACH(transforms, global_batch, peak_learning_rate, head_rate, loss_scale, averaged_steps)
  visit_fields(record.progress, field);
}

DatasetFingerprint fingerprint_of(const Dataset& set) {
  std::uint64_t hash = fnv1a({});
  const auto add = [&](std::string_view bytes) { hash = fnv1a(bytes, hash); };
  for (const std::string& name : set.classes) add(name + "\n");
  for (const std::vector<int>& ids : set.labels.sets) {
    add("set");
    for (const int id : ids) add(" " + std::to_string(id));
  }
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const ArchiveMember* member = set.samples.member(i);
    add(set.samples.file_name(i));
    add(formatted("\n%d %llu\n", set.samples.label(i),
                  member == nullptr ? 0ULL : static_cast<unsigned long long>(member->size)));
    if (set.samples.has_weights()) add(formatted("%.9g\n", set.samples.weight(i)));
  }
  return {static_cast<long long>(set.samples.size()), set.classes, hex_digits(hash)};
}

std::string fingerprint_of(const ModelDirectory& model) {
  const ModelSpec& spec = model.spec;
  std::uint64_t hash = fnv1a(spec.model_name);
  for (const bool choice : {spec.pretrained, spec.memory_efficient, spec.zero_init_residual})
    hash = fnv1a(choice ? "1" : "0", hash);
  for (const StoredTensor& tensor : model.state)
    if (spec.pretrained) hash = fnv1a(hex_digits(content_hash(tensor.bytes)), hash);
  return spec.model_name + " " + hex_digits(hash);
}

SavedEpoch saved_epoch(const EpochSums& sums) {
  return {sums, sums.metrics.totals()};
}

void load_epoch(const SavedEpoch& saved, EpochSums& sums) {
  static_cast<EpochNumbers&>(sums) = saved;
  sums.metrics.set(saved.totals);
}

std::string SavedRun::position() const {
  return steps() == 0 ? formatted("the end of epoch %d", progress.epochs_done)
                      : formatted("epoch %d, step %d", progress.epochs_done + 1, steps());
}

std::string format_rank(const SavedRank& rank) {
  return json_text(as_json(rank));
}

std::string format_saved_run(const SavedRun& run, const std::vector<std::string>& ranks) {
  Json json = as_json(run);
  json["steps"] = run.steps();
  json["best"]["top1"] = run.progress.best.valid.top1_accuracy();
  Json& list = json["ranks"] = Json::array();
  for (const std::string& rank : ranks) list.push_back(Json::parse(rank));
  return json_text(json) + "\n";
}

SavedRun parse_saved_run(std::string_view text) try {
  const Json json = parse_ordered_json(text);
  SavedRun run;
  from_json(json, run);
  from_json(json.at("ranks"), run.ranks);
  if (run.ranks.empty() || run.ranks.size() != static_cast<std::size_t>(run.machine.num_ranks))
    throw std::invalid_argument("it has the state of a different number of ranks");
  if (run.image_size && !is_plausible(run.image_size->size))
    throw std::invalid_argument("no image can have its image size");
  return run;
} catch (const std::exception& fault) {
  throw Error(ErrorCode::kInvalidDataset,
              std::string("its state.json is not valid: ") + fault.what());
}

}  // namespace kiln
