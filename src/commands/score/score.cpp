
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "commands/commands.h"
#include "commands/driver_log.h"
#include "commands/score/scoring.h"
#include "platform/launch_environment.h"
#include "predict/divided_predictions.h"
#include "process/binding.h"
#include "process/compute_threads.h"
#include "run/plan/prepare.h"
#include "run/plan/rank_agreement.h"
#include "run/plan/shared_images.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOfList = 4096;  // images of a list that are processed together

const ScoreFormat* format_of(const std::string& output_path) {
  const std::string extension = fs::path(output_path).extension().string();
  const ScoreFormat* format =
      extension.empty() && !output_path.empty() ? nullptr : find_score_format(extension);
  if (format != nullptr) return format;
  throw Error(ErrorCode::kParameterParsing, "--output-path is '" + excerpt(output_path) +
                                                "', but must end in " + score_extensions() + ".");
}

// Opens what rank 0 reads for all ranks, and the outputs.
void open_of_leader(const ScoreConfig& config, ScoreParts& parts, Problems& problems) {
  problems.collect([&] {
    if (config.files_from.empty())
      parts.set = read_every_image(config.data_path, "Images", config.prediction.records);
    else
      parts.list.emplace(config.files_from, config.data_path);
  });
  problems.collect([&] { parts.format = format_of(config.output_path); });
  const bool has_file = !config.output_path.empty() || config.scored_dataset.empty();
  if (parts.format != nullptr && has_file)
    problems.collect([&] { parts.file.emplace(config.output_path); });
  if (!config.explain.empty())
    problems.collect([&] { parts.explanations.emplace(config.explain); });
}

// Throws all problems together. A collective.
void open_parts(const ScoreConfig& config, World& world, ScoreParts& parts) {
  world.enter("starting", /*patient=*/true);
  world.agree([&] { parts.device = choose_device(config.prediction.device, world.local_rank()); });
  require_one_job(world, config.effective_options, parts.device);
  parts.precision = agreed_precision(world, config.prediction.precision, parts.device);
  world.agree([&] {
    Problems problems;
    problems.collect([&] {
      parts.predictor.emplace(config.trained_model_path, torch_device(parts.device),
                              parts.precision.precision);
    });
    if (world.leads()) open_of_leader(config, parts, problems);
    problems.throw_if_any();
  });
  require_one_model(world, "--trained-model-path '" + config.trained_model_path + "'",
                    parts.predictor->print());
}

void log_start(const ScoreConfig& config, const ScoreParts& parts, const World& world, Log& log) {
  const Predictor& predictor = *parts.predictor;
  log.info("model:     " + predictor.spec().model_name +
           formatted(", %zu classes, ", predictor.labels().size()) +
           precision_name(parts.precision.precision) + ", " + parts.device.description);
  if (world.size() > 1) log.info("ranks:     " + describe_ranks(world));
  log.info("images:    " + (parts.list ? "those in '" + config.files_from + "'"
                                       : grouped(static_cast<long long>(parts.set.samples.size())) +
                                             ", " + describe(parts.set.kind)));
  if (!parts.precision.warning.empty()) log.warning(parts.precision.warning);
  for (const std::string& note : predictor.notes()) log.warning(note);
  for (const std::string& note : parts.set.notes) log.warning(note);
}

// Sets `set` to the next images of the list, on all ranks. Returns false if there are no more. A
// collective.
bool next_images(World& world, ScoreParts& parts, Dataset& set) {
  bool has_more = false;
  world.agree([&] { has_more = parts.list && parts.list->next(kMostOfList, set); });
  has_more = world.broadcast(static_cast<char>(has_more)) != 0;
  if (has_more) share_dataset(world, set);
  return has_more;
}

// Divides the images among the ranks, and collects the predictions on rank 0.
class ScoringJob {
 public:
  ScoringJob(const ScoreConfig& config, World& world, ScoreParts& parts, Log& log)
      : world_(world),
        parts_(parts),
        predictions_(world, *parts.predictor,
                     {.device = parts.device,
                      .batch_size = config.prediction.batch_size,
                      .loader_threads = config.prediction.loader_threads,
                      .num_processors = processors_of_this_rank(world),
                      .warn = [&log](const std::string& text) { log.warning(text); }}) {
    world.agree([&] {
      if (world.leads()) scoring_.emplace(config, parts, log);
    });
    num_before_ = world.broadcast(scoring_ ? scoring_->num_before() : std::int64_t{0});
  }

  void run() {
    world_.enter("scoring", /*patient=*/true);
    const bool is_list = world_.broadcast(static_cast<char>(parts_.list.has_value())) != 0;
    if (!is_list) {
      share_dataset(world_, parts_.set);
      score(parts_.set);
    } else {
      for (Dataset part; next_images(world_, parts_, part);) score(part);
    }
    world_.agree([&] {
      if (scoring_) scoring_->finish(predictions_.pixels());
    });
  }

 private:
  void score(Dataset& set) {
    const auto first = static_cast<std::uint32_t>(
        std::min(num_before_, static_cast<std::int64_t>(set.samples.size())));
    num_before_ -= first;
    if (scoring_) scoring_->pass_over(set, first);
    predictions_.for_each(
        set, [&](const PredictedBatch& batch) { scoring_->add(set, batch); }, first);
  }

  World& world_;
  ScoreParts& parts_;
  DividedPredictions predictions_;
  std::optional<Scoring> scoring_;  // on rank 0
  std::int64_t num_before_ = 0;     // images still to come that already have rows
};

// Joins the ranks of this job, or does nothing if no launcher has started this process.
void join_world(const ScoreConfig& config, Process& process) {
  if (!detect_launch_environment().mpi) return;
  World& world = process.world;
  world.join({.deadline_s = static_cast<double>(config.ranks.collective_timeout_s),
              .stall_warning_s = config.ranks.stall_warning_s()},
             /*expected_size=*/0, process.log);
  if (world.size() == 1) return;
  process.log.speak_for_rank(world.rank());
  world.agree([&] {
    if (config.output_path.empty() && config.scored_dataset.empty())
      throw Error(ErrorCode::kUserError,
                  "With several processes, predictions need a file: give --output-path FILE.");
    open_driver_log(config.log_path, config.log_path_given, process);
  });
}

}  // namespace

int run(const ScoreConfig& config, Process& process) {
  Log& log = process.log;
  survive_broken_pipes();
  if (const auto launch = launch_of(config.ranks, config.log_path, config.log_path_given))
    return run(*launch, process);
  end_on_stop_signals();
  keep_freed_memory();
  if (config.output_path.empty()) log.use_standard_error();
  join_world(config, process);
  ScoreParts parts;
  open_parts(config, process.world, parts);
  bind_to_own_cores(process.world, parts.device.numa_node);
  const int num_processors = processors_of_this_rank(process.world);
  use_compute_threads(config.prediction.threads > 0 ? config.prediction.threads : num_processors);
  set_tf32(parts.precision.precision);
  if (process.world.leads()) log_start(config, parts, process.world, log);
  try {
    ScoringJob(config, process.world, parts, log).run();
  } catch (const Error& failure) {
    // The user may repair bad images under the same names, and then the saved rows would be wrong.
    if (failure.code() == ErrorCode::kInvalidDataset && parts.file) parts.file->discard();
    throw;
  }
  return 0;
}

}  // namespace kiln
