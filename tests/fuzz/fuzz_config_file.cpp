// The file of --config.
#include "cli/command_line.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = kiln::fuzz::put("run.yaml", kiln::fuzz::text_of(data, size));
  kiln::parse_command_line({"train", "--config=" + file.string(), "--epochs=5"});
  return 0;
}
