#include "run/finish.h"

#include <malloc.h>

#include <utility>

#include "run/model_weights.h"
#include "store/model_directory.h"

namespace kiln {

void save(TrainingJob& job, std::unique_ptr<TrainState> state, RunLogger& log) {
  BestEpoch best = std::move(state->progress.best);
  std::vector<ImageFaultRecord> faults = std::move(state->bad_train.records);
  faults.insert(faults.end(), state->bad_valid.records.begin(), state->bad_valid.records.end());
  if (best.epoch == 0) return log.nothing_saved();
  job.loaders.reset();
  state.reset();
  malloc_trim(0);
  if (!job.world.leads()) return;
  log.saving(std::move(faults));
  const TrainingInputs& inputs = job.inputs;
  TrainedModel model{inputs.untrained.spec,    to_state_dict(std::move(best.weights)),
                     inputs.train.classes,     preprocessing_of(inputs),
                     inputs.train.schema_json, inputs.train.samples_json,
                     log.training_json()};
  model.spec.num_classes = static_cast<int>(inputs.train.classes.size());
  write_directory(job.config.output.trained_model_path, trained_model_files(model));
  log.saved();
}

}  // namespace kiln
