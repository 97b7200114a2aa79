#include "run/kept_model.h"

#include <malloc.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "model/weights/starting_weights.h"
#include "predict/explanations.h"
#include "predict/inference.h"
#include "record/run_json.h"
#include "record/run_summary.h"
#include "run/checkpoint/image_hashes.h"
#include "run/label_judgment.h"
#include "store/model_directory.h"

namespace kiln {
namespace {

constexpr std::size_t kMostWrong = 16;
constexpr std::size_t kSamples = 8;

// A new folder below $TMPDIR or /tmp; empty if it cannot be made.
std::filesystem::path new_temporary_folder() {
  std::error_code fault;
  std::string name = (std::filesystem::temp_directory_path(fault) / "kiln-model-XXXXXX").string();
  return fault || ::mkdtemp(name.data()) == nullptr ? "" : name;
}

bool can_keep(const std::vector<OutputFile>& files, const std::filesystem::path& place) try {
  if (place.empty()) return false;
  write_directory(prepare_model_output(place), files);
  return true;
} catch (const Error&) {
  std::error_code fault;
  std::filesystem::remove(place, fault);  // if it is empty
  return false;
}

// Where the model was written instead, as a sentence.
std::string keep_elsewhere(const std::string& log_path, const std::vector<OutputFile>& files) {
  std::filesystem::path place = std::filesystem::path(log_path) / "kept_model";
  if (!can_keep(files, place) && !can_keep(files, place = new_temporary_folder()))
    return "Neither the log folder nor the temporary folder could take the model.";
  return "The model is kept in " + quoted_path(place) + ": copy it to where it belongs.";
}

void write_model(const OutputFolder& folder, const std::string& log_path,
                 const std::vector<OutputFile>& files) {
  std::string fault;
  try {
    return write_directory(folder, files);
  } catch (const Error& failure) {
    fault = failure.what();
  } catch (const std::filesystem::filesystem_error& failure) {  // the folder is gone
    fault = "The model cannot be written: " + std::string(failure.what()) + ".";
  }
  throw Error(ErrorCode::kFailedToWriteOutputs, fault + " " + keep_elsewhere(log_path, files));
}

ConfusionMatrix sum_confusion(World& world, const std::vector<Prediction>& predictions,
                              std::size_t num_classes) {
  if (num_classes > kMaxConfusionClasses) return {};
  std::vector<double> counts(num_classes * num_classes);
  for (const Prediction& prediction : predictions)
    counts[static_cast<std::size_t>(prediction.label) * num_classes +
           static_cast<std::size_t>(prediction.predicted)] += 1;
  const std::vector<double> sums = world.sum(counts);
  ConfusionMatrix matrix{static_cast<int>(num_classes), {}};
  matrix.counts.assign(sums.begin(), sums.end());
  return matrix;
}

std::vector<Prediction> most_confidently_wrong(std::vector<Prediction> predictions) {
  std::erase_if(predictions, [](const Prediction& prediction) {
    return prediction.predicted == prediction.label;
  });
  const std::size_t count = std::min(kMostWrong, predictions.size());
  std::partial_sort(predictions.begin(), predictions.begin() + static_cast<std::ptrdiff_t>(count),
                    predictions.end(), [](const Prediction& a, const Prediction& b) {
                      return std::pair(-a.confidence, a.sample) <
                             std::pair(-b.confidence, b.sample);
                    });
  predictions.resize(count);
  return predictions;
}

std::vector<Prediction> evenly_taken(const std::vector<Prediction>& predictions,
                                     std::size_t count) {
  count = std::min(count, predictions.size());
  std::vector<Prediction> taken;
  for (std::size_t i = 0; i < count; ++i)
    taken.push_back(predictions[i * predictions.size() / count]);
  return taken;
}

// A collective. Each rank rereads its own images.
std::vector<JudgedImage> show(World& world, const std::vector<Prediction>& predictions,
                              const Dataset& valid, const TransformSpec& pixels) {
  std::vector<JudgedImage> mine, all;
  for (const Prediction& prediction : predictions)
    mine.push_back({std::string(valid.samples.file_name(prediction.sample)), prediction.label,
                    prediction.predicted, prediction.confidence,
                    thumbnail_of(valid, prediction.sample, pixels)});
  for (std::vector<JudgedImage>& theirs : world.gather_on_rank_0(mine))
    std::move(theirs.begin(), theirs.end(), std::back_inserter(all));
  return all;
}

// Those of this rank's answers that can be among the most confident of all ranks. A collective.
std::vector<Prediction> most_of_all(World& world, std::vector<Prediction> mine) {
  std::vector<float> confidences, all;
  for (const Prediction& answer : mine) confidences.push_back(answer.confidence);
  for (const std::vector<float>& theirs : world.gather(confidences))
    all.insert(all.end(), theirs.begin(), theirs.end());
  if (all.size() <= kMostWrong) return mine;
  std::ranges::nth_element(all, all.begin() + (kMostWrong - 1), std::greater<>());
  std::erase_if(mine, [least = all[kMostWrong - 1]](const Prediction& answer) {
    return answer.confidence < least;
  });
  return mine;
}

// The details of a validation pass; complete on rank 0 only.
ValidationDetails judge(World& world, const std::vector<Prediction>& predictions,
                        const Dataset& valid, const TransformSpec& pixels, int epoch) {
  ValidationDetails details;
  details.epoch = epoch;
  details.confusion = sum_confusion(world, predictions, valid.classes.size());
  details.most_wrong =
      show(world, most_of_all(world, most_confidently_wrong(predictions)), valid, pixels);
  std::stable_sort(
      details.most_wrong.begin(), details.most_wrong.end(),
      [](const JudgedImage& a, const JudgedImage& b) { return a.confidence > b.confidence; });
  if (details.most_wrong.size() > kMostWrong) details.most_wrong.resize(kMostWrong);
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::size_t share = static_cast<std::size_t>(world.rank()) < kSamples
                                ? std::max<std::size_t>(1, kSamples / ranks)
                                : 0;
  details.samples = show(world, evenly_taken(predictions, share), valid, pixels);
  if (details.samples.size() > kSamples) details.samples.resize(kSamples);
  return details;
}

// Looks images up by file name: in a resumed run, the record is all that is left of the mistakes,
// and it has only names.
std::vector<Prediction> answers_of(const Run& run, const std::vector<JudgedImage>& wrong) {
  const SampleTable& samples = run.sources.valid.samples;
  const auto num_classes = static_cast<int>(run.sources.train.classes.size());
  std::vector<Prediction> answers;
  for (const JudgedImage& image : wrong) {
    std::size_t i = 0;
    while (i < samples.size() && samples.file_name(i) != image.file) ++i;
    if (i < samples.size() && image.guess >= 0 && image.guess < num_classes)
      answers.push_back({.sample = static_cast<std::uint32_t>(i),
                         .predicted = image.guess,
                         .confidence = static_cast<float>(image.confidence)});
    else
      run.console.warning("No heat map for '" + printable(image.file) +
                          "': rank 0 does not have the image.");
  }
  return answers;
}

// Writes heat maps of validation images that the saved model got wrong to the run's outputs. Call
// on rank 0 once the model directory, from which the model is read, is written. Only warns about
// images that are in another host's shard, and about failures, since the model is complete without
// the pictures.
void explain_mistakes(Run& run, const std::vector<JudgedImage>& wrong) {
  const OutputConfig& output = run.plan.output;
  try {
    const at::Device device = torch_device(run.machine.device);
    Predictor predictor(output.trained_model_path, device, run.machine.precision.precision);
    const std::vector<Prediction> answers = answers_of(run, wrong);
    const Explained explained = run.outputs.explanations->add(
        predictor, device, run.plan.pixels.valid, run.sources.valid, answers);
    for (const std::string& note : explained.notes) run.console.warning(note);
    run.outputs.explanations->commit();
    run.console.info("heat maps of " + plural(explained.num_drawn, "mistake", "mistakes") + ": '" +
                     output.explain + "'");
  } catch (const std::exception& failure) {
    run.console.warning(
        std::string("The model is saved, but the heat maps of its mistakes failed: ") +
        failure.what());
  }
}

}  // namespace

bool keep_if_best(Run& run, const EpochRecord& record) {
  const KeepRule& rule = run.plan.keep;
  BestEpoch& best = run.state->progress.best;
  // Otherwise there is no best epoch yet or, with --auto, it is the one that fitted the head, with
  // which is_better_than_head() has already compared this one.
  const bool has_trained_rival = best.epoch > run.plan.stop.length.first_epochs;
  if (has_trained_rival && rule.save == SaveChoice::kBest &&
      !is_better(judged(record, rule.best_by), {best.valid, best.mean}, rule.best_by))
    return false;
  best = {.epoch = record.epoch,
          .valid = record.valid,
          .mean = judged(record, rule.best_by).mean,
          .calibration = {},
          .weights = {}};
  if (run.world.leads()) best.weights = copied_weights(*run.state->model);
  return true;
}

Calibration calibrate(World& world, const HostLogits& logits) {
  const LabeledLogits images = logits.view();
  // MPI does not guarantee that a sum is bit-identical on all ranks, and they must all take the
  // same number of passes.
  const auto sum_over_ranks = [&](const std::array<double, 3>& mine) {
    const std::vector<double> sums = world.sum({mine[0], mine[1], mine[2]});
    return world.broadcast(std::array<double, 3>{sums[0], sums[1], sums[2]});
  };
  Calibration calibration{fit_temperature(images, sum_over_ranks), empty_answer_bins()};
  std::vector<AnswerBin>& answers = calibration.answers;
  count_answers(images, calibration.temperature, answers);
  std::vector<double> counts;
  for (const AnswerBin& bin : answers) {
    counts.push_back(static_cast<double>(bin.images));
    counts.push_back(static_cast<double>(bin.right));
  }
  counts = world.sum(counts);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    answers[i].images = static_cast<std::int64_t>(counts[2 * i]);
    answers[i].right = static_cast<std::int64_t>(counts[2 * i + 1]);
  }
  std::erase_if(answers, [](const AnswerBin& bin) { return bin.images == 0; });
  return calibration;
}

ValidationDetails judge_best(Run& run, const std::vector<Prediction>& predictions,
                             const HostLogits& logits) {
  BestEpoch& best = run.state->progress.best;
  if (run.sources.valid.is_multi_label()) {
    ValidationDetails judged =
        judge_labels(run, gather_label_answers(run.world, logits, predictions));
    judged.epoch = best.epoch;
    best.calibration = judged.calibration;
    return judged;
  }
  run.world.agree([&] { best.calibration = calibrate(run.world, logits); });
  ValidationDetails details =
      judge(run.world, predictions, run.sources.valid, run.plan.pixels.valid, best.epoch);
  details.calibration = best.calibration;
  return details;
}

void save(Run& run) {
  BestEpoch best = std::move(run.state->progress.best);
  std::vector<ImageFaultRecord> faults = std::move(run.state->bad_train.records);
  faults.insert(faults.end(), run.state->bad_valid.records.begin(),
                run.state->bad_valid.records.end());
  if (best.epoch == 0) return run.log.nothing_saved("No epoch was finished");
  run.close();
  malloc_trim(0);
  const Plan& plan = run.plan;
  const Sources& sources = run.sources;
  std::optional<SeenImages> seen;
  if (!plan.output.no_hashes) seen = gather_seen_images(run.world, plan, sources);
  if (!run.world.leads()) return;
  run.log.saving(std::move(faults));
  TrainedModel model{sources.spec(),
                     to_state_dict(std::move(best.weights)),
                     sources.train.classes,
                     preprocessing_of(plan.pixels),
                     best.calibration,
                     sources.train.schema_json,
                     sources.train.samples_json,
                     run.log.training_json(),
                     std::move(seen)};
  model.spec.num_classes = static_cast<int>(sources.num_classes());
  model.spec.is_multi_label = sources.train.is_multi_label();
  const std::vector<OutputFile> files = trained_model_files(model);
  model = {};
  write_model(*run.outputs.model, plan.output.log_path, files);
  if (run.outputs.explanations) explain_mistakes(run, run.log.most_wrong());
  run.log.saved();
}

}  // namespace kiln
