#include "tools/commands.h"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <variant>

#include "base/platform/installation.h"
#include "base/platform/launch_environment.h"
#include "base/platform/sagemaker.h"
#include "base/system.h"
#include "base/url.h"
#include "data/bucket/bucket_copy.h"
#include "report/error_info.h"
#include "run/process/versions.h"
#include "tools/describe/describe.h"
#include "tools/launch/mpirun_job.h"
#include "tools/sagemaker/sagemaker_job.h"

namespace kiln {
namespace {

int run(const VersionRequest&, Process&) {
  for (const auto& [name, version] : versions(/*with_cuda=*/true))
    std::printf("%-9s %s\n", name.c_str(), version.c_str());
  return 0;
}

template <typename... Kinds>
bool is_one_of(const Command& command) {
  return (std::holds_alternative<Kinds>(command) || ...);
}

// Whether the command prints only how it went, and writes its result elsewhere.
bool prints_news_only(const Command& command) {
  const auto* score = std::get_if<ScoreConfig>(&command);
  const auto* split = std::get_if<SplitImagesConfig>(&command);
  return (score != nullptr && !score->output_path.empty()) ||
         (split != nullptr && !split->check_leaks) ||
         is_one_of<TrainConfig, EvaluateConfig, EmbedConfig, SelectConfig, ServeConfig,
                   ExportConfig, LaunchConfig, TuneConfig, InitModelConfig, ConvertConfig,
                   TransformInitConfig, TransformApplyConfig, PackConfig>(command);
}

// Whether the command's result goes to standard output as JSON.
bool prints_json(const Command& command) {
  return std::visit(
      [](const auto& config) {
        if constexpr (requires { config.json; })
          return config.json;
        else
          return false;
      },
      command);
}

}  // namespace

void require_faultless(const Invocation& invocation, Process& process) {
  process.error_info = place_of_error_info(invocation);
  invocation.problems.throw_if_any();
}

int dispatch(const Invocation& invocation, Process& process) {
  require_faultless(invocation, process);
  bool prints_result = !prints_news_only(invocation.command);
  if (!prints_result) {  // nobody has to read the messages
    survive_broken_pipes();
    process.log.never_hold();
  }
  if (prints_json(invocation.command)) {
    process.log.use_standard_error();
    prints_result = true;
  }
  const auto* inspect = std::get_if<InspectConfig>(&invocation.command);
  const bool lists = inspect != nullptr && is_bucket(inspect->path) && !inspect->check &&
                     inspect->valid_data_path.empty();
  if (!invocation.buckets.empty() && !lists) {
    if (launched_local_rank() > 0) process.log.speak_for_rank(launched_rank());
    BucketFolders paths;
    std::vector<BucketCopy> copies;
    for (const std::string& url : invocation.buckets) {
      if (paths.contains(url)) continue;
      copies.push_back(copy_bucket(url, invocation.cache_path, process.log));
      paths[url] = copies.back().path.string();
    }
    return dispatch(parse_command_line(invocation.arguments, paths), process);
  }
  std::string lost;  // what ends with the container
  if (launched_rank() == 0 && !collects_outputs())
    for (const std::string& path : invocation.unasked_outputs)
      if (is_lost_with_container(path)) lost += (lost.empty() ? "'" : " and '") + path + "'";
  const auto warn = [&] {
    if (!lost.empty())
      process.log.warning(lost +
                          " will be lost with this container: give `docker run` the options "
                          "-v \"$PWD:/data\" -w /data, which keep it in the current folder.");
  };
  warn();
  const int code = std::visit(
      [&](const auto& config) {
        if constexpr (requires { answer(config); })
          return answer(config);
        else
          return run(config, process);
      },
      invocation.command);
  warn();
  if (prints_result) require_printed_result();
  return code;
}

int run_program(const std::vector<std::string>& arguments, Process& process) {
  use_own_open_mpi();
  return is_sagemaker_start(arguments, sagemaker_folder())
             ? run_in_sagemaker(arguments, process)
             : dispatch(parse_command_line(arguments), process);
}

}  // namespace kiln

// The library's main(): runs the command, catches what it throws, returns the exit code.
extern "C" int kiln_main(int argc, char** argv) try {
  kiln::end_lack_of_memory();
  kiln::install_checkpoint_requests();
  // Process 1 of a container has no default action for signals and would go on until it is killed.
  if (::getpid() == 1) kiln::end_on_stop_signals();
  kiln::Process process;
  int code = 0;
  try {
    code = kiln::run_program({argv + 1, argv + argc}, process);
    if (process.error_info && process.world.leads())
      kiln::write_error_info(*process.error_info, kiln::error_info_of_success(), process.log);
  } catch (...) {
    code = kiln::report_exception(std::current_exception(), process);
  }
  return process.world.leave(code);
} catch (const std::exception&) {  // no memory, not even for a report
  kiln::end_without_memory();
}

extern "C" const char* kiln_version() {
  return kiln::program_version().data();
}
