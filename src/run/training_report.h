// What a training run says on the console and in the driver log: the plan, the progress, the
// closing block.
#pragma once

#include <string>

#include "base/log.h"
#include "base/training_record.h"
#include "report/run_reporter.h"
#include "run/image_fault_ledger.h"
#include "run/training_inputs.h"

namespace kiln {

struct PlanFacts {
  std::string device;
  std::string ranks;  // describe_ranks()
  int rank = 0, num_ranks = 1;
  int threads = 0, loader_threads = 0;
  long long num_parameters = 0;
  std::string cache;  // CacheChoice::reason
  long long most_loader_bytes = 0;
};

void report_plan(const TrainConfig& config, const TrainingInputs& inputs, const PlanFacts& facts,
                 Log& log);

struct ClosingFacts {
  const ImageFaultLedger& train_faults;
  const ImageFaultLedger& valid_faults;
};

void report_closing(const TrainConfig& config, const RunReporter& reporter,
                    const ClosingFacts& facts, Log& log);

}  // namespace kiln
