#include "report/failure_note.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/sagemaker_folder.h"

namespace kiln {
namespace {

constexpr std::size_t kMostBytes = 1024;

// Not in the middle of a character.
std::string cut(const std::string& text) {
  std::size_t size = text.size();
  if (size > kMostBytes)
    for (size = kMostBytes; size > 0 && (text[size] & 0xC0) == 0x80;) --size;
  return text.substr(0, size);
}

}  // namespace

void leave_failure_note(const std::string& text) {
  std::error_code absent;
  const std::filesystem::path termination_log = "/dev/termination-log";
  const std::filesystem::path output = sagemaker_folder() / "output";
  if (std::filesystem::exists(termination_log, absent)) std::ofstream(termination_log) << cut(text);
  if (std::filesystem::is_directory(output, absent)) std::ofstream(output / "failure") << cut(text);
}

std::string failure_note() {
  std::ifstream file(sagemaker_folder() / "output/failure");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace kiln
