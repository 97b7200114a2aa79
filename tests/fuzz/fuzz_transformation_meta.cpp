// `_meta.yaml` of a transformation directory.
#include "base/error.h"
#include "fuzz/fuzz.h"
#include "store/transformation_directory.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  const std::string yaml(fuzz::text_of(data, size));
  fuzz::accepts<Error>([&] { check_transformation_meta(yaml, "_meta.yaml"); });
  return 0;
}
