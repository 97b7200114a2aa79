// The predictions that ranks send to rank 0.
#include <vector>

#include "base/bytes.h"
#include "fuzz/fuzz.h"
#include "record/run_json.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  fuzz::accepts<InternalError>(
      [&] { to_bytes(from_bytes<std::vector<JudgedImage>>(fuzz::text_of(data, size))); });
  return 0;
}
