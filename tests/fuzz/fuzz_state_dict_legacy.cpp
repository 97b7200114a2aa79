#include "fuzz/fuzz.h"
#include "store/state_dict_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  const std::string bytes = fuzz::text_of(data, size);
  begins_like_torch_legacy(bytes);
  StateDictParts parts;
  fuzz::accepts<FormatFault>([&] { read_torch_legacy(bytes, parts); });
  return 0;
}
