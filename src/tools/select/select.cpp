// `kiln select`: which images of an unlabeled folder to label next.
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/system.h"
#include "base/text.h"
#include "predict/explanations.h"
#include "predict/job.h"
#include "predict/pictures.h"
#include "predict/shown_answers.h"
#include "report/page/page.h"
#include "report/scores/score_formats.h"
#include "tools/commands.h"
#include "tools/score/scoring_progress.h"
#include "tools/select/choice.h"

namespace kiln {
namespace {

// A file there may have labels that somebody filled in.
void require_new(const std::string& path) {
  if (is_there(path))
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "--output-path " + quoted_path(path) +
                    " exists, and may hold labels: give another name, or move that file.");
  require_writable(path);
}

// Asks the model about all images. Those that it has seen, and copies of others, are left out; of
// its training images also those with other bytes, if it knows their features.
std::vector<Candidate> choose(const SelectConfig& config, PredictionJob& job,
                              Predictions& predictions) {
  const Predictor& model = job.models.front();
  const std::optional<SeenImages>& seen = model.directory.seen_images;
  const auto num_images = static_cast<long long>(job.images.samples.size());
  LabelingChoice choice(static_cast<std::size_t>(config.number));
  PredictionFaults faults(job.config.max_bad_images, job.log);
  ScoringProgress progress(num_images, job.log);
  std::unordered_set<std::uint64_t> hashes;
  long long num_done = 0, num_seen = 0, num_copies = 0;
  predictions.for_each(job.images, [&](AnsweredBatch& batch) {
    const at::Tensor& features = batch.outputs.features;
    const at::Tensor known =  // undefined if all images are bad
        model.training_features && features.defined() ? model.training_features->are_known(features)
                                                      : at::Tensor();
    std::vector<at::Tensor> labeled;
    for (AnsweredImage& image : batch.images) {
      Score& score = image.score;
      if (!score.fault.empty()) faults.add(score.path, score.fault, score.best.empty());
      const bool is_seen =
          seen && (seen->was_trained_on(image.hash) || seen->was_chosen_on(image.hash));
      if (score.best.empty()) continue;
      const at::Tensor row = features[static_cast<std::int64_t>(*image.row)];
      const bool is_known = is_seen || (known.defined() && known[*image.row].item<bool>());
      if (is_known) labeled.push_back(row);
      if (is_seen)
        ++num_seen;
      else if (is_known || !hashes.insert(image.hash).second)
        ++num_copies;
      else
        choice.add({image.index, image.hash, std::move(score), row});
    }
    if (!labeled.empty()) choice.add_labeled(at::stack(labeled));
    faults.check(num_images);
    progress.show(num_done += std::ssize(batch.images));
  });
  faults.require_any_good(num_images);
  std::vector<Candidate> chosen = choice.take();
  job.log.info("left out:  " + plural(num_seen, "image", "images") +
               " that the model was made with, " + plural(num_copies, "copy", "copies") + ", " +
               plural(faults.num_bad, "bad image", "bad images"));
  if (std::ssize(chosen) < config.number)
    job.log.warning("Only " + grouped(chosen.size()) + " of the " + grouped(config.number) +
                    " images asked for are left, without copies: these are all.");
  return chosen;
}

std::string table_of(const std::vector<Candidate>& chosen, const std::vector<std::string>& labels) {
  std::string text = csv_line({"path", "label", "guess", "confidence", "alike"});
  for (const Candidate& candidate : chosen) {
    const Score& score = candidate.score;
    const RankedClass& best = score.best.front();
    text += csv_line({score.path, "", labels[static_cast<std::size_t>(best.id)], best.confidence,
                      score.alike ? ScoreCell(*score.alike) : ScoreCell()});
  }
  return text;
}

std::string page_of(const SelectConfig& config, const PredictionJob& job,
                    const TransformSpec& pixels, const std::vector<Candidate>& chosen) {
  const Predictor& model = job.models.front();
  SelectionPage page{.time = unix_seconds(),
                     .model = model.directory.spec.model_name,
                     .data_path = config.data_paths.front(),
                     .classes = model.directory.labels};
  for (const Candidate& candidate : chosen) {
    const Score& score = candidate.score;
    JudgedImage& image = page.images.emplace_back();
    image = {.file = score.path,
             .truth = -1,
             .guess = score.best.front().id,
             .confidence = score.best.front().confidence};
    for (const RankedClass& one : score.best) image.best.push_back({one.id, one.confidence});
    if (page.images.size() <= kMostDrawn)
      image.thumbnail = thumbnail_of(job.images, candidate.image, pixels);
  }
  return selection_html(page, config.page);
}

}  // namespace

int run(const SelectConfig& config, Process& process) {
  end_on_stop_signals();
  PredictionJob job(config.prediction, process.log);
  Problems problems;
  problems.collect([&] { job.open_model(config.trained_model_path, "`kiln select`"); });
  problems.collect([&] { job.read_images(config.data_paths); });
  problems.collect([&] { require_new(config.output_path); });
  if (!config.page.empty()) problems.collect([&] { require_writable(config.page); });
  problems.throw_if_any();
  job.warn_of_precision();
  if (!config.page.empty()) warn_without_pictures(job.log);
  Predictor& model = job.models.front();
  for (const std::string& note : model.notes) job.log.warning(note);
  for (const std::string& note : job.images.notes) job.log.warning(note);
  if (!model.directory.seen_images)
    job.log.warning("The model has no " + std::string(kSeenImagesFile) +
                    ": images that it was made with cannot be left out.");
  Predictions predictions(model, job,
                          {.thresholds = model.rule->thresholds({}, {}),
                           .top_k = std::min<int>(2, model.directory.labels.size()),
                           .wants_features = true});
  const std::vector<Candidate> chosen = choose(config, job, predictions);
  if (!config.page.empty())
    write_file_durably(config.page, page_of(config, job, predictions.pixels(), chosen));
  write_file_durably(config.output_path, table_of(chosen, model.directory.labels));
  job.log.info("Wrote " + plural(std::ssize(chosen), "image", "images") + " to label: '" +
               config.output_path + "'.");
  return 0;
}

}  // namespace kiln
