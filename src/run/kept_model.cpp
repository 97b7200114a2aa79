#include "run/kept_model.h"

#include <malloc.h>
#include <exception>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "model/weights/starting_weights.h"
#include "predict/explanations.h"
#include "predict/predictor.h"
#include "predict/shown_answers.h"
#include "record/run_json.h"
#include "record/run_summary.h"
#include "run/checkpoint/image_hashes.h"
#include "run/judge.h"
#include "store/model_directory.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// Writes the model to the log folder or else to a temporary one; returns where. Empty: neither took
// it.
fs::path keep_elsewhere(const std::string& log_path, const std::vector<OutputFile>& files) {
  for (const bool is_temporary : {false, true}) {
    fs::path place;
    try {
      place = is_temporary ? TemporaryFolder("kiln-model").release()
                           : fs::path(log_path) / "kept_model";
      write_directory(prepare_model_output(place), files);
      return place;
    } catch (const std::exception&) {  // Error, or std::system_error
      remove_quietly(place);           // if it is empty
    }
  }
  return {};
}

void write_model(const OutputFolder& folder, const std::string& log_path,
                 const std::vector<OutputFile>& files) {
  std::string fault;
  try {
    return write_directory(folder, files);
  } catch (const Error& failure) {
    fault = failure.what();
  } catch (const fs::filesystem_error& failure) {  // the folder is gone
    fault = "The model cannot be written: " + std::string(failure.what()) + ".";
  }
  const fs::path place = keep_elsewhere(log_path, files);
  throw Error(
      ErrorCode::kFailedToWriteOutputs,
      fault +
          (place.empty()
               ? " Neither the log folder nor the temporary folder could take the model."
               : " The model is kept in " + quoted_path(place) + ": copy it to where it belongs."));
}

// The surest mistakes. Looks images up by file name: in a resumed run, the galleries are all that
// is left of the mistakes, and they have only names.
std::vector<Prediction> mistakes_of(const Job& job, const ValidationDetails& details) {
  constexpr std::size_t kMost = 16;
  const SampleTable& samples = job.sources.valid.samples;
  const auto num_classes = static_cast<int>(job.sources.num_classes());
  std::vector<JudgedImage> wrong;
  for (const PictureList& gallery : details.pictures)
    if (gallery.id == kAnswersGallery)
      std::ranges::copy_if(gallery.images, std::back_inserter(wrong),
                           [](const JudgedImage& image) { return image.truth != image.guess; });
  wrong.resize(std::min(wrong.size(), kMost));
  std::vector<Prediction> answers;
  for (const JudgedImage& image : wrong) {
    std::size_t i = 0;
    while (i < samples.size() && samples.file_name(i) != image.file) ++i;
    if (i < samples.size() && image.guess >= 0 && image.guess < num_classes)
      answers.push_back({.sample = static_cast<std::uint32_t>(i),
                         .predicted = image.guess,
                         .confidence = static_cast<float>(image.confidence)});
    else
      job.console.warning("No heat map for '" + image.file + "': rank 0 does not have the image.");
  }
  return answers;
}

// Writes heat maps of validation images that the saved model got wrong to the run's outputs. Call
// on rank 0 once the model directory, from which the model is read, is written. Only warns about
// images that are in another host's shard, and about failures, since the model is complete without
// the pictures.
void explain_mistakes(Run& run) try {
  Predictor model(run.config.output.trained_model_path, torch_device(run.machine.device),
                  run.plan.precision.precision);
  const std::vector<Prediction> answers = mistakes_of(run, run.log.details());
  run.explanations->add(model, run.plan.pixels.valid, run.sources.valid, answers, run.console);
  run.explanations->commit(run.console);
} catch (const std::exception& failure) {
  run.console.warning(
      std::string("The model is saved, but the heat maps of its mistakes failed: ") +
      failure.what());
}

}  // namespace

bool keep_if_best(Run& run, const EpochRecord& record) {
  const OptimizationConfig& rule = run.config.optimization;
  BestEpoch& best = run.state->progress.best;
  // Otherwise there is no best epoch yet or, with --auto, it is the one that fitted the head, with
  // which holds_against_head() has already compared this one.
  const bool has_trained_rival = best.epoch > run.plan.stop.length.first_epochs;
  if (has_trained_rival && rule.save == SaveChoice::kBest &&
      !is_better(judged(record, rule.best_by), {best.valid, best.mean}, rule.best_by))
    return false;
  best = {.epoch = record.epoch, .valid = record.valid, .mean = judged(record, rule.best_by).mean};
  if (run.world.leads()) best.weights = copied_weights(*run.state->model);
  return true;
}

ValidationDetails judge_best(Run& run, const std::vector<Prediction>& predictions,
                             const HostLogits& logits) {
  BestEpoch& best = run.state->progress.best;
  ValidationDetails details = judge_of(run.sources.valid).details(run, predictions, logits);
  details.epoch = best.epoch;
  details.calibration.out_of_fold = run.config.optimization.folds > 0;
  best.calibration = details.calibration;
  return details;
}

std::vector<OutputFile> model_files(const Run& run, BestEpoch best, std::optional<SeenImages> seen,
                                    std::string features, std::string training_features) {
  const Sources& sources = run.sources;
  TrainedModel model{sources.spec(),
                     to_state_dict(std::move(best.weights)),
                     sources.train.classes,
                     preprocessing_of(run.plan.pixels),
                     best.calibration,
                     sources.train.schema_json,
                     sources.train.samples_json,
                     run.log.training_json(),
                     std::move(seen),
                     std::move(features),
                     std::move(training_features)};
  model.spec.num_classes = static_cast<int>(sources.num_classes());
  model.spec.task = sources.train.labels.task();
  return trained_model_files(model);
}

void save(Run& run, std::string features, std::string training_features) {
  BestEpoch best = std::move(run.state->progress.best);
  std::vector<ImageFaultRecord> faults = std::move(run.state->bad_train.records);
  faults.insert(faults.end(), run.state->bad_valid.records.begin(),
                run.state->bad_valid.records.end());
  if (best.epoch == 0) return run.log.nothing_saved("No epoch was finished");
  run.bad_train.reset();  // and all else that only the steps need
  run.bad_valid.reset();
  run.loaders.reset();
  run.features = {};
  run.state.reset();
  malloc_trim(0);
  const Plan& plan = run.plan;
  std::optional<SeenImages> seen;
  if (!run.config.output.no_hashes) seen = gather_seen_images(run.world, plan, run.sources);
  if (!run.world.leads()) return;
  const std::string seen_valid = seen ? pack_seen_images({{}, seen->valid}) : "";
  run.log.saving(std::move(faults), hex_digits(fnv1a(seen_valid + run.fingerprints.valid.hash)));
  const std::vector<OutputFile> files = model_files(
      run, std::move(best), std::move(seen), std::move(features), std::move(training_features));
  run.predecessor.keep_model(run.console);
  write_model(*run.model_folder, run.config.output.log_path, files);
  remove_temporary_checkpoints(run);
  if (run.explanations) explain_mistakes(run);
  run.log.saved();
}

}  // namespace kiln
