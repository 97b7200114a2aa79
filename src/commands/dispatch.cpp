#include "commands/dispatch.h"

#include <cstdio>
#include <type_traits>

#include "base/error.h"
#include "commands/convert.h"
#include "commands/demo_data.h"
#include "commands/init_model.h"
#include "commands/inspect.h"
#include "commands/train.h"
#include "commands/versions.h"
#include "config/command_line.h"
#include "report/error_info.h"

namespace kiln {
namespace {

int print_versions() {
  for (const auto& [name, version] : versions(/*with_cuda=*/true))
    std::printf("%-9s %s\n", name.c_str(), version.c_str());
  return 0;
}

// A log folder that was asked for must work; the default one only if it can be.
void open_driver_log(const std::string& log_path, bool given, Log& log, RunReport* report) {
  try {
    std::error_code failure;
    std::filesystem::create_directories(log_path, failure);
    log.open_file(std::filesystem::path(log_path) / "70_driver_log_0.txt");
  } catch (const Error& error) {
    if (given) throw;
    log.warning("the folder '" + log_path +
                "' cannot be written here, so there are no log files; --log-path names another");
    report->wanted = false;
  }
}

int train(const TrainConfig& config, Log& log, RunReport* report) {
  open_driver_log(config.log_path, config.log_path_given, log, report);
  log.info(program_version() + ", train");
  return run_train(config, log);
}

}  // namespace

int dispatch(const std::vector<std::string>& arguments, Log& log, RunReport* report) {
  std::string log_path = "logs";
  report->wanted = !arguments.empty() && arguments.front() == "train";
  Command command;
  try {
    command = parse_command_line(arguments, &log_path);
  } catch (...) {
    report->path = error_info_path(log_path);
    throw;
  }
  report->path = error_info_path(log_path);
  return std::visit(
      [&](const auto& config) -> int {
        using Config = std::decay_t<decltype(config)>;
        if constexpr (std::is_same_v<Config, TrainConfig>) return train(config, log, report);
        if constexpr (std::is_same_v<Config, InitModelConfig>) return run_init_model(config, log);
        if constexpr (std::is_same_v<Config, ConvertConfig>) return run_convert(config, log);
        if constexpr (std::is_same_v<Config, DemoDataConfig>) return run_demo_data(config, log);
        if constexpr (std::is_same_v<Config, InspectConfig>) return run_inspect(config, log);
        report->wanted = false;
        if constexpr (std::is_same_v<Config, VersionRequest>) return print_versions();
        if constexpr (std::is_same_v<Config, HelpRequest>) std::fputs(config.text.c_str(), stdout);
        return 0;
      },
      command);
}

}  // namespace kiln
