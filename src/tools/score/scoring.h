// The work of `kiln score`: writes predictions as rows of a file, and logs a summary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/run_config.h"
#include "data/dataset/image_source.h"
#include "predict/explanations.h"
#include "predict/prediction_faults.h"
#include "predict/predictions.h"
#include "predict/predictor.h"
#include "report/scores/score_file.h"
#include "report/scores/score_formats.h"
#include "report/scores/scored_dataset.h"
#include "tools/score/notable_answers.h"
#include "tools/score/score_resume.h"
#include "tools/score/score_rows.h"
#include "tools/score/scoring_progress.h"
#include "train/precision.h"

namespace kiln {

// What the command reads and writes.
struct ScoreJob {
  Device device;
  PrecisionChoice precision;
  std::optional<Predictor> predictor;
  Dataset set;                   // from --data-path, if there is no list
  std::optional<FileList> list;  // from --files-from
  ScoreRows rows;
  const ScoreFormat* format = nullptr;
  std::optional<ScoreFile> file;
  std::optional<ExplanationFolder> explanations;
};

// Turns predictions into rows, batch by batch in the order of the images. Use from one thread.
class Scoring {
 public:
  // Starts the outputs, or continues those of a killed job. The arguments must outlive the object.
  // Throws Error.
  Scoring(const ScoreConfig& config, ScoreJob& job, Log& log);

  // The number of images, from the first one of this job on, that already have rows.
  std::int64_t num_before() const { return num_before_; }
  // Passes over the next ones of those images: images `first` to `end` - 1 of `set`.
  void pass_over(const Dataset& set, std::uint32_t first, std::uint32_t end);
  // Adds the next batch, whose images belong to `set`. Throws Error kInvalidDataset if too many
  // images are bad.
  void add(const Dataset& set, const PredictedBatch& batch);
  // Call it after the last image. `pixels` is the preprocessing that was used.
  void finish(const TransformSpec& pixels);

 private:
  // On the CPU: probabilities [N, num_classes] with and without temperature, and confidences and
  // ids of the most probable classes, [N, top_k].
  struct Ranked {
    at::Tensor probabilities, plain, confidences, ids;
  };

  void begin_file(ScoreFile& file);
  void warn_of_unknown_labels() const;
  Ranked ranked_classes(const at::Tensor& logits) const;
  void fill(Score& row, const Ranked& ranked, std::size_t at) const;
  void note(const Score& row, bool may_be_right);
  void note_seen(std::uint64_t hash);
  void save_progress();
  void log_result() const;
  void explain(const TransformSpec& pixels);

  const ScoreConfig& config_;
  ScoreJob& job_;
  Log& log_;
  const long long total_;  // 0: unknown, the images come from a growing list
  const TrueLabels true_labels_;
  const double threshold_;
  const ScoreColumns columns_;
  const std::unique_ptr<ScoreEncoder> encoder_;
  std::optional<ScoredDataset> scored_dataset_;
  NotableAnswers notable_;
  PredictionFaults faults_;
  ScoreProgress so_far_;         // its fault counts are those last saved
  NamesHash names_;              // of the first so_far_.num_images images
  std::string part_note_;        // written when the part is complete
  std::int64_t num_before_ = 0;  // images done by the job that this one continues
  bool is_saved_ = false;
  double next_save_ = 0;
  ScoringProgress progress_;
};

}  // namespace kiln
