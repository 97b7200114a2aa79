// Archives of images, one kind a target: KILN_FUZZ_EXTENSION.
#include "base/error.h"
#include "data/dataset/dataset.h"
#include "data/dataset/image_bytes.h"
#include "data/image/image.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  const auto file = fuzz::put("images." KILN_FUZZ_EXTENSION, fuzz::text_of(data, size));
  fuzz::accepts<Error>([&] {
    const Dataset set = read_dataset(file, "Training dataset");
    std::string bytes;
    for (std::size_t i = 0; i < set.samples.size(); ++i)
      fuzz::accepts<ImageFault>([&] { read_image_bytes(set, i, bytes); });
  });
  return 0;
}
