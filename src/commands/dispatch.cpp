#include "commands/dispatch.h"

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <type_traits>

#include "base/error.h"
#include "base/sagemaker_folder.h"
#include "commands/bench_collective.h"
#include "commands/bench_loader.h"
#include "commands/compare.h"
#include "commands/convert.h"
#include "commands/demo_data.h"
#include "commands/describe.h"
#include "commands/init_model.h"
#include "commands/inspect.h"
#include "commands/launch.h"
#include "commands/pack.h"
#include "commands/report.h"
#include "commands/sagemaker.h"
#include "commands/watch.h"
#include "config/command_line.h"
#include "report/appended_file.h"
#include "report/error_info.h"
#include "report/failure_note.h"
#include "report/run_file.h"
#include "run/training_inputs.h"
#include "run/training_run.h"
#include "run/versions.h"

namespace kiln {
namespace {

int print_versions() {
  for (const auto& [name, version] : versions(/*with_cuda=*/true))
    std::printf("%-9s %s\n", name.c_str(), version.c_str());
  return 0;
}

int print_help(const HelpRequest& help) {
  std::fputs(help.text.c_str(), help.asked_for ? stdout : stderr);
  return help.asked_for ? 0 : 2;
}

// A log folder that was asked for must work; the default one only if it can be.
void open_driver_log(const std::string& log_path, bool given, int rank, Log& log,
                     RunReport* report) {
  try {
    std::error_code failure;
    std::filesystem::create_directories(log_path, failure);
    if (AppendedFile::is_in_use(std::filesystem::path(log_path) / kRunFileName)) {
      report->wanted = false;  // another run's; the sinks will say so
      return;
    }
    log.open_file(std::filesystem::path(log_path) /
                  ("70_driver_log_" + std::to_string(rank) + ".txt"));
  } catch (const Error& error) {
    if (given) throw;
    log.warning("the folder '" + log_path +
                "' cannot be written here, so there are no log files; --log-path names another");
    report->wanted = false;
  }
}

int train(const TrainConfig& config, World& world, Log& log, RunReport* report) {
  world.join({.deadline_s = static_cast<double>(config.ranks.collective_timeout_s),
              .stall_warning_s = static_cast<double>(config.ranks.stall_warning_s)},
             config.ranks.expect_ranks, log);
  if (world.size() > 1) log.speak_for_rank(world.rank());
  if (config.output.plain) log.speak_plainly();
  world.agree([&] {
    open_driver_log(config.output.log_path, config.output.log_path_given, world.rank(), log,
                    report);
  });
  const char* azure_run = std::getenv("AZUREML_RUN_ID");
  log.info(program_version() + ", train" +
           (azure_run == nullptr ? "" : ", Azure ML run " + std::string(azure_run)));
  if (!config.overridden.empty() && world.rank() == 0) log.warning(config.overridden);
  return run_train(config, world, log);
}

// It and its ranks leave error_info.json behind themselves, unless it throws.
int launch(const LaunchConfig& config, Log& log, RunReport* report) {
  const int code = run_launch(config, log);
  report->wanted = false;
  return code;
}

[[noreturn]] void throw_with_input_faults(const TrainCommandFaults& faults) {
  Problems problems = faults;
  const TrainingInputs inputs = read_training_inputs(faults.config(), problems);
  problems.collect([&] { check_batch_size(faults.config(), inputs, /*num_ranks=*/1); });
  throw problems;
}

int run_command(const std::vector<std::string>& arguments, World& world, Log& log,
                RunReport* report) {
  std::string log_path = "logs";
  report->wanted =
      !arguments.empty() && (arguments.front() == "train" || arguments.front() == "launch");
  Command command;
  try {
    command = parse_command_line(arguments, &log_path);
  } catch (const TrainCommandFaults& faults) {
    report->path = error_info_path(log_path);
    report->wanted = !log_lies_in_output(faults.config());
    throw_with_input_faults(faults);
  } catch (...) {
    report->path = error_info_path(log_path);
    throw;
  }
  report->path = error_info_path(log_path);
  return std::visit(
      [&](const auto& config) -> int {
        using Config = std::decay_t<decltype(config)>;
        if constexpr (std::is_same_v<Config, LaunchConfig>) return launch(config, log, report);
        if constexpr (std::is_same_v<Config, TrainConfig>) {
          const std::optional<LaunchConfig> ranks =
              launch_of(config.ranks.launch, {.device = config.ranks.device,
                                              .log_path = config.output.log_path,
                                              .log_path_given = config.output.log_path_given,
                                              .rank_arguments = arguments});
          return ranks ? launch(*ranks, log, report) : train(config, world, log, report);
        }
        if constexpr (std::is_same_v<Config, BenchLoaderConfig>) {
          log.use_standard_error();
          return run_bench_loader(config, log);
        }
        if constexpr (std::is_same_v<Config, BenchCollectiveConfig>) {
          log.use_standard_error();
          const std::optional<LaunchConfig> ranks =
              launch_of(config.ranks, {.device = config.device,
                                       .log_path = config.log_path,
                                       .log_path_given = config.log_path_given,
                                       .rank_arguments = arguments});
          return ranks ? launch(*ranks, log, report) : run_bench_collective(config, world, log);
        }
        if constexpr (std::is_same_v<Config, InitModelConfig>) return run_init_model(config, log);
        if constexpr (std::is_same_v<Config, ConvertConfig>) return run_convert(config, log);
        if constexpr (std::is_same_v<Config, PackConfig>) return run_pack(config, log);
        if constexpr (std::is_same_v<Config, DemoDataConfig>) return run_demo_data(config, log);
        if constexpr (std::is_same_v<Config, InspectConfig>) return run_inspect(config, log);
        if constexpr (std::is_same_v<Config, WatchConfig>) return run_watch(config, log);
        if constexpr (std::is_same_v<Config, DescribeConfig>) return run_describe(config);
        if constexpr (std::is_same_v<Config, ReportConfig>) return run_report(config, log);
        if constexpr (std::is_same_v<Config, CompareConfig>) return run_compare(config, log);
        report->wanted = false;
        if constexpr (std::is_same_v<Config, VersionRequest>) return print_versions();
        if constexpr (std::is_same_v<Config, HelpRequest>) return print_help(config);
        return 0;
      },
      command);
}

// So that no model is made for a run that cannot begin.
void check_commands(const SageMakerJob& job, RunReport* report) {
  if (job.preparation.empty()) return;
  std::string log_path;
  Problems problems;
  problems.collect([&] { parse_command_line(job.preparation, nullptr); });
  problems.collect([&] { parse_command_line(job.command, &log_path); });
  report->path = error_info_path(log_path);
  report->wanted = !problems.empty();
  problems.throw_if_any();
}

int run_in_sagemaker(const std::vector<std::string>& arguments, World& world, Log& log,
                     RunReport* report) {
  const SageMakerJob job = open_sagemaker_job(arguments, log);
  check_commands(job, report);
  if (const int code = prepare_sagemaker_model(job); code != 0) return code;
  if (job.hosts.size() == 1) return run_command(job.command, world, log, report);
  const SshPlace place = open_ssh_place(job);
  if (!job.leads()) return follow_sagemaker_job(job, place, log);
  lead_through_ssh(job, place);
  HeldHosts others(place, {job.hosts.begin() + 1, job.hosts.end()});
  try {
    const int code = run_command(job.command, world, log, report);
    others.tell({code, code == 0 ? "" : failure_note()});
    return code;
  } catch (...) {
    const FailureReport failure = report_failure(std::current_exception());
    others.tell({failure.exit_code, failure.messages.front()});
    throw;
  }
}

}  // namespace

int dispatch(const std::vector<std::string>& arguments, World& world, Log& log, RunReport* report) {
  return is_sagemaker_start(arguments, sagemaker_folder())
             ? run_in_sagemaker(arguments, world, log, report)
             : run_command(arguments, world, log, report);
}

}  // namespace kiln
