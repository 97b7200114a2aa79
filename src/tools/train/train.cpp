#include "tools/commands.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/platform/installation.h"
#include "base/system.h"
#include "record/run_file.h"
#include "record/run_json.h"
#include "record/run_summary.h"
#include "run/training_run.h"
#include "store/model_spec.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// cuBLAS reads the variable when a GPU is first used. No other thread may run while it is set.
void keep_cublas_deterministic() {
  constexpr const char* kName = "CUBLAS_WORKSPACE_CONFIG";
  ::setenv(kName, ":4096:8", /*overwrite=*/0);
  const std::string value = std::getenv(kName);
  if (value == ":4096:8" || value == ":16:8") return;
  throw Error(ErrorCode::kUserError, "--deterministic cannot be guaranteed while " +
                                         std::string(kName) + " is '" + value +
                                         "': unset it, or set it to :4096:8 or :16:8.");
}

void join_world(const TrainConfig& config, Process& process) {
  World& world = process.world;
  world.init({.deadline_s = static_cast<double>(config.ranks.collective_timeout_s),
              .stall_warning_s = config.ranks.stall_warning_s()},
             config.ranks.expect_ranks, process.log);
  if (world.size() > 1) process.log.speak_for_rank(world.rank());
  world.agree([&] {  // before any rank's log, which may be beside it, is begun
    if (world.leads()) lock_log_folder(config.output.log_path, process);
  });
  world.agree([&] {
    if (!open_driver_log(config.output.log_path, config.settings.is_given(options::kLogPath),
                         process))
      process.error_info.reset();
  });
}

void log_start(const TrainConfig& config, Process& process) {
  const char* azure_run = std::getenv("AZUREML_RUN_ID");
  process.log.info(std::string(program_version()) + ", train" +
                   (azure_run == nullptr ? "" : ", Azure ML run " + std::string(azure_run)));
  if (!process.world.leads()) return;
  const Setting& file = config.settings.of(options::kConfig);
  if (!file.reason.empty())
    process.log.warning("The --config file '" + file.text + "' " + file.reason);
  for (const std::string& line : first_lines(config.settings)) process.log.info(line);
}

// When the model in the folder was written; empty: there is none.
std::optional<double> time_of_model(const fs::path& folder) {
  struct stat info {};
  if (::stat((folder / kMetaFile).c_str(), &info) != 0) return {};
  return info.st_mtim.tv_sec + 1e-9 * info.st_mtim.tv_nsec;
}

bool is_of_this_run(double time) {
  return time >= unix_seconds() - seconds_since_process_start();
}

void print_json(const OutputConfig& output) {
  const fs::path folder = output.trained_model_path;
  const std::optional<double> written = time_of_model(folder);
  Json json = {{"model", nullptr}, {"logs", output.log_path}, {"training", nullptr}};
  if (written && is_of_this_run(*written)) {
    json["model"] = folder.string();
    json["training"] = Json::parse(read_file(folder / "training.json"));
  }
  std::fputs((json_text(json, 1) + "\n").c_str(), stdout);  // mpirun breaks long lines
}

// Makes sure that nobody takes an earlier run's model for that of this run, which has written none.
void log_older_model(const OutputConfig& output, Process& process) {
  const fs::path folder = output.trained_model_path, best = fs::path(output.log_path) / kBestOfRun;
  if (process.world.leads() && is_there(best / kMetaFile))
    process.log.info("The best epoch of a run that did not end is in '" + best.string() + "'.");
  const std::optional<double> written = time_of_model(folder);
  if (!process.world.leads() || !written || is_of_this_run(*written)) return;
  process.log.info("No model was written; '" + folder.string() + "' still holds the model of " +
                   utc_text(*written) + ".");
}

}  // namespace

int run(const TrainConfig& config, Process& process) {
  if (const auto launch = launch_of(config)) return run(*launch, process);
  if (config.ranks.deterministic && config.ranks.device != DeviceChoice::kCpu)
    keep_cublas_deterministic();
  join_world(config, process);
  log_start(config, process);
  try {
    const int code = run_training(config, process);
    if (code != 0) log_older_model(config.output, process);  // stopped by a signal
    if (config.json && process.world.leads()) print_json(config.output);
    return code;
  } catch (...) {
    log_older_model(config.output, process);
    throw;
  }
}

}  // namespace kiln
