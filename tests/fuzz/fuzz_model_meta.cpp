// `_meta.yaml` of a model directory.
#include "base/error.h"
#include "fuzz/fuzz.h"
#include "store/model_spec.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  const auto file = fuzz::put("_meta.yaml", fuzz::text_of(data, size));
  fuzz::accepts<Error>([&] { read_directory_meta(file); });
  return 0;
}
