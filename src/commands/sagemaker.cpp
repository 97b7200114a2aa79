#include "commands/sagemaker.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/sagemaker_folder.h"
#include "parallel/nvidia_driver.h"

namespace kiln {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text = "kiln";
  for (const std::string& word : words) text += " " + word;
  return text;
}

// kiln with these arguments; its exit code.
int run_kiln(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"kiln"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t child = -1;
  int status = 0;
  if (::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, pointers.data(), environ) != 0 ||
      ::waitpid(child, &status, 0) != child)
    throw Error(ErrorCode::kFailedToCompleteOperation,
                "The system has no process left in which to make the untrained model.");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

SageMakerJob open_sagemaker_job(const std::vector<std::string>& arguments, Log& log) {
  const SageMakerJob job =
      sagemaker_job(sagemaker_folder(), arguments, ask_nvidia_driver().num_devices);
  const char* name = std::getenv("TRAINING_JOB_NAME");
  log.info("SageMaker job" + std::string(name == nullptr ? "" : " ") +
           (name == nullptr ? "" : name) + ", host " + job.current_host + " of " +
           std::to_string(job.hosts.size()));
  if (!job.preparation.empty()) log.info("as: " + joined(job.preparation));
  log.info("as: " + joined(job.command));
  return job;
}

int prepare_sagemaker_model(const SageMakerJob& job) {
  return job.preparation.empty() ? 0 : run_kiln(job.preparation);
}

}  // namespace kiln
