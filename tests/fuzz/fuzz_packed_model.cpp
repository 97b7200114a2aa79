// A model of someone else in one file, as --weights takes it: a tar, compressed or not. Bytes that
// are neither are read as a state dict.
#include "base/error.h"
#include "fuzz/fuzz.h"
#include "model/weights/weight_source.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  const auto file = fuzz::put("model.tar.gz", fuzz::text_of(data, size));
  fuzz::accepts<Error>([&] { fingerprint_of(read_weight_source(file)); });
  return 0;
}
