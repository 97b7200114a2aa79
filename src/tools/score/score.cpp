#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "parallel/processors/compute_threads.h"
#include "predict/predictions.h"
#include "tools/commands.h"
#include "tools/score/scoring.h"
#include "train/precision.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

const ScoreFormat* format_of(const std::string& output_path) {
  const std::string extension = fs::path(output_path).extension().string();
  const ScoreFormat* format =
      extension.empty() && !output_path.empty() ? nullptr : find_score_format(extension);
  if (format != nullptr) return format;
  throw Error(ErrorCode::kParameterParsing, "--output-path is '" + excerpt(output_path) +
                                                "', but must end in " + score_extensions() + ".");
}

void open_images(const ScoreConfig& config, ScoreJob& job) {
  if (config.files_from.empty())
    job.set = read_every_image(config.data_path, "Images", config.prediction.records);
  else
    job.list.emplace(config.files_from, config.data_path);
  job.rows = rows_of_job(config, job.set);
}

// Throws all problems together.
void open_job(const ScoreConfig& config, ScoreJob& job) {
  job.device = choose_device(config.prediction.device, config.part ? config.part->local : 0);
  job.precision = choose_precision(config.prediction.precision, units_of(job.device));
  Problems problems;
  problems.collect([&] {
    job.predictor.emplace(config.trained_model_path, torch_device(job.device),
                          job.precision.precision);
  });
  problems.collect([&] { open_images(config, job); });
  problems.collect([&] { job.format = format_of(config.output_path); });
  const bool has_file = !config.output_path.empty() || config.scored_dataset.empty();
  if (job.format != nullptr && has_file)
    problems.collect([&] {
      if (config.part && !job.format->is_lines)
        prepare_folder_of_parts(config.output_path, *config.part);
      job.file.emplace(config.output_path);
    });
  if (!config.explain.empty()) problems.collect([&] { job.explanations.emplace(config.explain); });
  problems.throw_if_any();
}

void log_start(const ScoreConfig& config, const ScoreJob& job, Log& log) {
  const Predictor& predictor = *job.predictor;
  log.info("model:     " + predictor.spec().model_name +
           formatted(", %zu classes, ", predictor.labels().size()) +
           precision_name(job.precision.precision) + ", " + job.device.description);
  log.info("images:    " + (job.list ? "those in '" + config.files_from + "'"
                                     : grouped(static_cast<long long>(job.set.samples.size())) +
                                           ", " + describe(job.set.kind)));
  if (config.part)
    log.info(formatted("part:      %d of %d, ", config.part->number, config.part->count) +
             grouped(job.rows.count()) + " images from number " + grouped(job.rows.begin + 1));
  if (!job.precision.warning.empty()) log.warning(job.precision.warning);
  for (const std::string& note : predictor.notes()) log.warning(note);
  for (const std::string& note : job.set.notes) log.warning(note);
}

void score_images(const ScoreConfig& config, ScoreJob& job, int num_processors, Log& log) {
  Predictions predictions(*job.predictor,
                          {.device = job.device,
                           .batch_size = config.prediction.batch_size,
                           .loader_threads = config.prediction.loader_threads,
                           .num_processors = num_processors,
                           .warn = [&log](const std::string& text) { log.warning(text); }});
  Scoring scoring(config, job, log);
  std::int64_t passed = 0;  // images of earlier portions of the list
  const auto score = [&](Dataset& set) {
    const auto size = static_cast<std::int64_t>(set.samples.size());
    const auto place_of = [&](std::int64_t image) {
      return static_cast<std::uint32_t>(std::clamp<std::int64_t>(image - passed, 0, size));
    };
    const std::uint32_t first = place_of(job.rows.begin + scoring.num_before());
    scoring.pass_over(set, place_of(job.rows.begin), first);
    predictions.for_each(set, [&](const PredictedBatch& batch) { scoring.add(set, batch); },
                         {.first = first, .end = place_of(job.rows.end)});
    passed += size;
  };
  if (!job.list) score(job.set);
  // The first portion tells the size of images if the model does not, so no portion is skipped.
  for (Dataset some; job.list && passed < job.rows.end && job.list->next(kMaxOfList, some);)
    score(some);
  scoring.finish(predictions.pixels());
}

}  // namespace

int run(const ScoreConfig& config, Process& process) {
  Log& log = process.log;
  survive_broken_pipes();
  end_on_stop_signals();
  keep_freed_memory();
  if (config.output_path.empty()) log.use_standard_error();
  ScoreJob job;
  open_job(config, job);
  const int num_processors =
      std::max(1, usable_cpus() / (config.part ? config.part->num_local : 1));
  use_compute_threads(config.prediction.threads > 0 ? config.prediction.threads : num_processors);
  set_tf32(job.precision.precision);
  log_start(config, job, log);
  try {
    score_images(config, job, num_processors, log);
  } catch (const Error& failure) {
    // The user may repair bad images under the same names, and then the saved rows would be wrong.
    if (failure.code() == ErrorCode::kInvalidDataset && job.file) job.file->discard();
    throw;
  }
  return 0;
}

}  // namespace kiln
