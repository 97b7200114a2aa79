#include "base/error.h"
#include "fuzz/fuzz.h"
#include "store/model_directory.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  const std::string bytes = fuzz::text_of(data, size);
  SeenImages read;
  if (!fuzz::accepts<Error>([&] { read = parse_seen_images(bytes, "seen_images.bin"); })) return 0;
  fuzz::require(pack_seen_images(read) == bytes);
  return 0;
}
