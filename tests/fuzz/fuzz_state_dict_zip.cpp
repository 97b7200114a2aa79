#include "fuzz/fuzz.h"
#include "store/state_dict_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  fuzz::accepts<FormatFault>([&] {
    StateDictParts parts, whole;
    StateDict state = read_torch_zip(fuzz::text_of(data, size), parts);
    fuzz::require(read_torch_zip(write_torch_zip(state), whole).size() == state.size());
    rename_old_densenet_keys(state);
  });
  return 0;
}
