#include "run/checkpoint/saved_run.h"

#include <sys/stat.h>
#include <filesystem>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "record/run_json.h"
#include "record/run_summary.h"

namespace kiln {

void visit_fields(Is<DatasetFingerprint> auto& print, auto&& field) {
  field("images", print.images);
  field("classes", print.classes);
  field("hash", print.hash);
}

void visit_fields(Is<EpochTimes> auto& times, auto&& field) {
  field("seconds", times.seconds);
  field("data_wait_seconds", times.data_wait_seconds);
  field("parts", times.parts);
  field("communication", times.communication);
}

void visit_fields(Is<SavedEpoch> auto& epoch, auto&& field) {
  field("steps", epoch.steps);
  field("has_joined", epoch.statistics_averaged);
  field("totals", epoch.totals);
  field("images", epoch.images);
  field("weighted_seconds", epoch.weighted_seconds);
  field("weighted_rate", epoch.weighted_rate);
  field("spent", epoch.spent);
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
  field("epoch", rank.epoch);
  field("bad_training_images", rank.bad_train);
  field("bad_validation_images", rank.bad_valid);
  field("training_data", rank.train);
  field("validation_data", rank.valid);
}

void visit_fields(Is<SavedMachine> auto& machine, auto&& field) {
  field("version", machine.version);
  field("instructions", machine.instructions);
  field("device", machine.device);
  field("num_ranks", machine.num_ranks);
  field("num_threads", machine.num_threads);
}

void visit_fields(Is<BestEpoch> auto& best, auto&& field) {
  field("epoch", best.epoch);
  field("totals", best.valid);
  field("macro_recall", best.mean);
  field("calibration", best.calibration);
}

void visit_fields(Is<EarlyStopping> auto& stopping, auto&& field) {
  field("patience", stopping.patience);
  field("strikes", stopping.strikes);
  field("previous_loss", stopping.previous_loss);
}

void visit_fields(Is<LossScale> auto& scale, auto&& field) {
  field("scale", scale.scale);
  field("steps_since_overflow", scale.steps_since_overflow);
  field("skipped_steps", scale.skipped_steps);
}

void visit_fields(Is<TimePlan> auto& plan, auto&& field) {
  field("epochs", plan.epochs);
  field("epoch_seconds", plan.epoch_seconds);
  field("end_seconds", plan.end_seconds);
  field("is_over", plan.is_over);
  field("steps", plan.steps);
}

void visit_fields(Is<AutomaticProgress> auto& progress, auto&& field) {
  field("found", progress.found);
  field("frozen_mean", progress.frozen_mean);
  field("tuned_mean", progress.tuned_mean);
}

void visit_fields(Is<SavedRun> auto& run, auto&& field) {
  field("time", run.time);
  field("started", run.started);
  field("finished", run.finished);
  field("machine", run.machine);
  field("options", run.options);
  field("precision", run.precision);
  field("exif", run.exif);
  field("model", run.model);
  field("model_print", run.model_fingerprint);
  field("transforms", run.transforms);
  field("global_batch", run.global_batch);
  field("peak_learning_rate", run.peak_learning_rate);
  field("loss_scale", run.loss_scale);
  field("averaged_steps", run.averaged_steps);
  field("epochs_done", run.progress.epochs_done);
  field("best", run.progress.best);
  field("early_stopping", run.progress.early_stopping);
  field("time_plan", run.progress.time_plan);
  field("automatic", run.progress.automatic);
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
    if (set.samples.has_weights())
      add(formatted("%.9g\n", static_cast<double>(set.samples.weight(i))));
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
  return {sums.steps,  sums.statistics_averaged, sums.metrics.totals(),
          sums.images, sums.weighted_seconds,    sums.weighted_rate,
          sums.spent};
}

void load_epoch(const SavedEpoch& saved, EpochSums& sums) {
  sums.steps = saved.steps;
  sums.statistics_averaged = saved.statistics_averaged;
  sums.metrics.set(saved.totals);
  sums.images = saved.images;
  sums.weighted_seconds = saved.weighted_seconds;
  sums.weighted_rate = saved.weighted_rate;
  sums.spent = saved.spent;
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

SavedRun parse_saved_run(std::string_view text) {
  try {
    const Json json = parse_ordered_json(text);
    SavedRun run;
    from_json(json, run);
    from_json(json.at("ranks"), run.ranks);
    if (run.ranks.empty() || run.ranks.size() != static_cast<std::size_t>(run.machine.num_ranks))
      throw std::invalid_argument("it has the state of a different number of ranks");
    return run;
  } catch (const std::exception& fault) {
    throw Error(ErrorCode::kInvalidDataset,
                std::string("its state.json is not valid: ") + fault.what());
  }
}

bool holds_model_of(const std::string& model_directory, double started) {
  const std::filesystem::path folder = model_directory;
  if (!is_there(folder / kMetaFile)) return false;
  try {
    return parse_ordered_json(read_file(folder / "training.json")).at("started") == started;
  } catch (const std::exception&) {
    return false;  // written by another program or an older version
  }
}

std::string description_of_model(const std::string& model_directory) {
  constexpr std::size_t kShown = 3;
  const std::filesystem::path folder = model_directory;
  struct stat written {};
  if (::stat((folder / kMetaFile).c_str(), &written) != 0) return {};
  std::vector<std::string> parts;
  try {
    const std::vector<std::string> labels =
        parse_label_map(read_file(folder / "index_to_label.csv"));
    parts.push_back(plural(std::ssize(labels), "class", "classes") + " (" +
                    quoted_names(labels, kShown) + ")");
  } catch (const std::exception&) {  // untrained, or written by another program
  }
  try {
    const Json training = parse_ordered_json(read_file(folder / "training.json"));
    for (const Json& epoch : training.at("epochs"))
      if (epoch.at("epoch") == training.at("saved_epoch"))
        parts.push_back("top-1 " + percent(epoch.at("top1").get<double>()));
    parts.push_back("of the run that began " + utc_text(training.at("started").get<double>()));
  } catch (const std::exception&) {
    parts.push_back("written " + utc_text(static_cast<double>(written.st_mtim.tv_sec)));
  }
  return joined(parts, ", ");
}

}  // namespace kiln
