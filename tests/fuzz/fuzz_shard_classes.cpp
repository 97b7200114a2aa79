// classes.txt beside shards, and the class of an image in one, with a line "--" between them.
#include "base/error.h"
#include "data/archive/archive.h"
#include "data/dataset/dataset.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  std::string class_of_image = fuzz::text_of(data, size);
  fuzz::put("classes.txt", fuzz::take_part(class_of_image));
  fuzz::put("shard-000000.tar", tar_member("0.jpg", "image") + tar_member("0.cls", class_of_image) +
                                    tar_member("1.jpg", "image") + tar_member("1.cls", "0") +
                                    tar_end());
  fuzz::accepts<Error>([&] {
    const Dataset set = read_labeled_dataset(fuzz::folder(), "Training dataset");
    counts_by_class(set, set.classes.size());
  });
  return 0;
}
