// Turns a configuration into a run, whose errors are found on all ranks before the first step.
#pragma once

#include <memory>

#include "base/log.h"
#include "cli/run_config.h"
#include "model/image_model.h"
#include "parallel/ranks/world.h"
#include "record/run_record.h"
#include "run/run.h"

namespace kiln {

// Chooses the device, compares the ranks, finds the checkpoint to resume from, reads the sources,
// builds the model and decides how to train it. All errors of a stage (ranks, checkpoint, sources)
// are reported together. Null, with a line in the log, if an earlier process completed this run and
// wrote its model. A collective. The world and the log must outlive the run.
std::unique_ptr<Run> prepare(const TrainConfig& given, World& world, Log& log);

// Sets up what the steps need: communicators, loaders, the state and its record. Every rank starts
// with rank 0's weights or from the checkpoint. A collective.
void begin(Run& run);

// A copy of the network with the same weights, ready to train.
std::unique_ptr<ImageModel> copied_model(const ImageModel& model, const Run& run);

long long bytes_of(const std::vector<NamedTensor>& tensors);

// The host memory, in bytes, that rank 0 needs for the weights of the best epoch and, if
// `writes_checkpoints`, for a checkpoint, which also holds the optimizer's state (AdamW two numbers
// per weight, SGD one) and the averages of --ema.
long long bytes_of_copies(const TrainState& state, bool writes_checkpoints);

// What the record says of the run before its first step (description.cpp). A collective.
RunStart describe_run(const Run& run);

}  // namespace kiln
