// The model that a run replaces, and the logs of the run that wrote it: what is known of them, and
// where they are kept. On platforms that collect the folders of a job, and where nothing can be
// written beside them, they are replaced without.
#pragma once

#include <cmath>
#include <filesystem>
#include <string>

#include "base/log.h"
#include "cli/run_config.h"

namespace kiln {

// Whether the model directory holds the model of the run that began at this time.
bool holds_model_of(const std::string& model_directory, double started);

// Moves LOGS/best out of the way: all that is left of a run that was killed, if another one than
// that which began at `resumed`, and this run is about to write its own.
void set_best_aside(const std::string& log_path, double resumed, Log& log);

// What a training.json says of its model.
struct ModelFacts {
  double started = 0;          // 0: it was written by another program, or an earlier version
  std::string figure, images;  // by which the model is judged, on which validation images
  double value = NAN;

  bool is_comparable(const ModelFacts& other) const {
    return !images.empty() && images == other.images && figure == other.figure;
  }
};

// On rank 0; on others, nothing is replaced. One thread.
class Predecessor {
 public:
  Predecessor() = default;
  // Decides what is kept. Finishes a model that a killed run was saving. `resumed`: when the run
  // that is resumed began, whose own model is no other's; 0: none is.
  Predecessor(const TrainConfig& config, double resumed);

  // What the first lines say of it; empty: there is none.
  const std::string& news() const { return news_; }

  // Keeps its logs, once the run that began at `started` has finished an epoch. Warns of failures.
  void keep_logs(double started, Log& log) const;
  // Keeps the model; call before it is replaced. Warns of failures.
  void keep_model(Log& log) const;

  // What the last lines say of it, beside the model whose training.json is given; empty: nothing.
  std::string beside(const std::string& training_json) const;

 private:
  // Where the model is kept as of now, or why it is not, as a sentence.
  std::string decide(const TrainConfig& config);

  std::filesystem::path model_, logs_;
  std::filesystem::path model_before_, logs_before_;  // empty: not kept
  ModelFacts facts_;                                  // of the model that is replaced
  std::string news_, place_;
};

}  // namespace kiln
