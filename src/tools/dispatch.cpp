#include "tools/commands.h"

#include <cstdio>
#include <variant>

#include "base/error.h"
#include "base/platform/sagemaker.h"
#include "base/system.h"
#include "report/error_info.h"
#include "run/process/versions.h"
#include "tools/sagemaker/sagemaker_job.h"

namespace kiln {
namespace {

int run(const VersionRequest&, Process&) {
  for (const auto& [name, version] : versions(/*with_cuda=*/true))
    std::printf("%-9s %s\n", name.c_str(), version.c_str());
  return 0;
}

int run(const HelpRequest& help, Process&) {
  std::fputs(help.text.c_str(), help.asked_for ? stdout : stderr);
  return help.asked_for ? 0 : 2;
}

// Whether the command prints only how it went, and writes its result elsewhere.
bool prints_news_only(const Command& command) {
  const auto* score = std::get_if<ScoreConfig>(&command);
  const auto* split = std::get_if<SplitImagesConfig>(&command);
  return (score != nullptr && !score->output_path.empty()) ||
         (split != nullptr && !split->check_leaks) ||
         std::holds_alternative<TrainConfig>(command) ||
         std::holds_alternative<EvaluateConfig>(command) ||
         std::holds_alternative<LaunchConfig>(command) ||
         std::holds_alternative<TuneConfig>(command) ||
         std::holds_alternative<InitModelConfig>(command) ||
         std::holds_alternative<ConvertConfig>(command) ||
         std::holds_alternative<TransformInitConfig>(command) ||
         std::holds_alternative<TransformApplyConfig>(command) ||
         std::holds_alternative<PackConfig>(command);
}

void require_printed_result() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "The result cannot be written to standard output: redirect it to a writable file or "
              "device with free space.");
}

}  // namespace

void require_faultless(const Invocation& invocation, Process& process) {
  if (!invocation.log_path.empty() &&
      (invocation.problems.empty() || invocation.log_path_given || is_run_of_azure_ml()))
    process.error_info = error_info_path(invocation.log_path);
  invocation.problems.throw_if_any();
}

int dispatch(const Invocation& invocation, Process& process) {
  require_faultless(invocation, process);
  const bool prints_result = !prints_news_only(invocation.command);
  if (!prints_result) {  // nobody has to read the messages
    survive_broken_pipes();
    process.log.never_hold();
  }
  const int code =
      std::visit([&](const auto& config) { return run(config, process); }, invocation.command);
  if (prints_result) require_printed_result();
  return code;
}

int run_program(const std::vector<std::string>& arguments, Process& process) {
  return is_sagemaker_start(arguments, sagemaker_folder())
             ? run_in_sagemaker(arguments, process)
             : dispatch(parse_command_line(arguments), process);
}

}  // namespace kiln
