// argv -> Command. One table (options.cpp) lists every option with type, range, default, unit and
// help; parsing, range checks, `--help` and the README's tables come from it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/run_config.h"

namespace kiln {

// The faults of a `train` command line, and what could be read of it: values at fault are 0, paths
// at fault empty. So the inputs can be checked as well and all be told together.
class TrainCommandFaults : public Problems {
 public:
  TrainCommandFaults(Problems faults, TrainConfig config)
      : Problems(std::move(faults)), config_(std::move(config)) {}
  const TrainConfig& config() const { return config_; }

 private:
  TrainConfig config_;
};

// `arguments` without the program's name. Throws Problems (of `train`: TrainCommandFaults): all
// faults of the command line together, errors of exit 2 (kParameterParsing) before range errors.
// `log_path` receives what --log-path says even when other arguments are at fault, so that
// error_info.json can be written.
Command parse_command_line(const std::vector<std::string>& arguments, std::string* log_path);

// Such a log folder would make of the output something else than a ModelDirectory.
bool log_lies_in_output(const TrainConfig& config);

// Error kParameterParsing where the short side that is resized to is smaller than the centre that
// is cut. 0: not given.
void check_eval_size(int short_side, int crop);

}  // namespace kiln
