#include "run/process/memory_shortage.h"

#include <unistd.h>
#include <exception>
#include <new>
#include <string_view>

#include "base/error.h"

namespace kiln {
namespace {

std::terminate_handler former_handler = nullptr;

void end_of_unhandled() {
  try {
    if (const std::exception_ptr fault = std::current_exception()) std::rethrow_exception(fault);
  } catch (const std::bad_alloc&) {
    end_without_memory();
  } catch (...) {
  }
  former_handler();
}

void handle_early_faults() {
  former_handler = std::set_terminate(end_of_unhandled);
}

// The loader calls this before the initializers of all libraries, of which LibTorch's take much
// memory.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kAtFirst)() = handle_early_faults;

}  // namespace

void end_without_memory() {
  constexpr std::string_view kSentence = "error: Out of memory.\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kSentence.data(), kSentence.size());
  ::_exit(exit_code(ErrorCode::kModuleOutOfMemory));
}

}  // namespace kiln
