// An ImageDirectory: `_meta.yaml`, `_schema.json` and images.lst, with a line "--" between them.
#include "base/error.h"
#include "data/dataset/dataset.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  std::string files = fuzz::text_of(data, size);
  for (const char* image : {"a.jpg", "cat/b.jpg"}) fuzz::put(image, "image");
  for (const char* name : {"_meta.yaml", "_schema.json", "images.lst"})
    fuzz::put(name, fuzz::take_part(files));
  fuzz::accepts<Error>([&] {
    const Dataset set = read_labeled_dataset(fuzz::folder(), "Training dataset");
    counts_by_class(set, set.classes.size());
  });
  return 0;
}
