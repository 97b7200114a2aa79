#include "process/bounded_spinning.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstddef>
#include <string_view>

namespace kiln {
namespace {

bool is_set(const char* const* variables, std::string_view name) {
  for (; *variables != nullptr; ++variables) {
    const std::string_view text = *variables;
    if (text.substr(0, text.find('=')) == name) return true;
  }
  return false;
}

}  // namespace

bool wants_bounded_spinning(const char* const* arguments, const char* const* variables) {
  if (arguments[0] == nullptr || arguments[1] == nullptr) return false;
  const std::string_view command = arguments[1];
  return (command == "train" || command == "score") && !is_set(variables, "GOMP_SPINCOUNT") &&
         !is_set(variables, "OMP_WAIT_POLICY");
}

void restart_with_bounded_spinning(int, char** arguments, char** variables) {
  if (!wants_bounded_spinning(arguments, variables)) return;
  // Run as `ld.so kiln`: /proc/self/exe would be the loader.
  if (::getauxval(AT_BASE) == 0) return;
  // The path, since the process would be called "exe" otherwise.
  static std::array<char, PATH_MAX> program;
  const ssize_t length = ::readlink("/proc/self/exe", program.data(), program.size());
  if (length <= 0 || static_cast<std::size_t>(length) == program.size()) return;
  static std::array<char*, 4096> more;
  std::size_t count = 0;
  for (; variables[count] != nullptr; ++count) {
    if (count + 2 == more.size()) return;
    more[count] = variables[count];
  }
  more[count] = const_cast<char*>(kBoundedSpinning);  // which execve does not change
  ::execve(program.data(), arguments, more.data());
}

}  // namespace kiln
