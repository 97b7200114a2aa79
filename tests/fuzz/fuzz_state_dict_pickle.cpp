// The pickle of a state dict in a zip whose checksums are right, which the bytes of a damaged zip
// never reach.
#include "fuzz/fuzz.h"
#include "store/state_dict_file.h"
#include "store/torch_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  ZipWriter zip(4096 + size);
  zip.add("model/data.pkl", fuzz::text_of(data, size));
  zip.add("model/data/0", std::string(64, 'w'));
  zip.add("model/data/1", std::string(600, 'v'));
  zip.add("model/version", "3\n");
  const std::string bytes = std::move(zip).finish();
  for (const char* part : {"", "model"}) {
    StateDictParts parts;
    parts.wanted = part;
    fuzz::accepts<FormatFault>([&] { require_finite(read_state_dict(bytes, parts)); });
  }
  return 0;
}
