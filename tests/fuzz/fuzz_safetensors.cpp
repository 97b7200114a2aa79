#include "fuzz/fuzz.h"
#include "store/state_dict_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  fuzz::accepts<FormatFault>([&] {
    const StateDict state = read_safetensors(fuzz::text_of(data, size));
    fuzz::require(read_safetensors(write_safetensors(state)).size() == state.size());
  });
  return 0;
}
