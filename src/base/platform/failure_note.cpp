#include "base/platform/failure_note.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/platform/sagemaker.h"
#include "base/text.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxBytes = 1024;

}  // namespace

void leave_failure_note(const std::string& text) {
  const std::string note = cut_to_bytes(text, kMaxBytes);
  std::error_code absent;
  const std::filesystem::path termination_log = "/dev/termination-log";
  const std::filesystem::path output = sagemaker_folder() / "output";
  if (std::filesystem::exists(termination_log, absent)) std::ofstream(termination_log) << note;
  if (std::filesystem::is_directory(output, absent)) std::ofstream(output / "failure") << note;
}

void remove_failure_note() {
  std::error_code failure;
  std::filesystem::remove(sagemaker_folder() / "output/failure", failure);
}

std::string failure_note() {
  std::ifstream file(sagemaker_folder() / "output/failure");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace kiln
