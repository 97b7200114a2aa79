// An index that comes with the data: what follows its header, whose checksum is made right.
#include "base/error.h"
#include "base/files.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/image_index.h"
#include "data/image/image.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  const std::string body = fuzz::text_of(data, size);
  const std::uint64_t hash = fnv1a(body);
  const auto file = fuzz::put(
      "index", "kiln-ixE" + std::string(reinterpret_cast<const char*>(&hash), sizeof hash) + body);
  for (const char* image : {"cat/a.pgm", "dog/b.pgm"})
    fuzz::put(std::string("data/") + image, "P5 1 1 9 x");
  fuzz::accepts<Error>([&] {
    const Dataset set =
        read_indexed_dataset(fuzz::folder() / "data", "data", {.file = file, .with_sizes = true});
    counts_by_class(set, set.classes.size());
    std::string bytes;
    for (std::size_t i = 0; i < set.samples.size(); ++i)
      fuzz::accepts<ImageFault>([&] { read_image_bytes(set, i, bytes); });
  });
  return 0;
}
