#include "base/error.h"
#include "data/dataset/dataset.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  for (const char* image : {"a.jpg", "cat/b.jpg"}) fuzz::put(image, "image");
  fuzz::put("labels.json", fuzz::text_of(data, size));
  for (const TaskKind task : {TaskKind::kAuto, TaskKind::kMultiLabel})
    fuzz::accepts<Error>([&] {
      const Dataset set = read_labeled_dataset(fuzz::folder(), "Training dataset", {.task = task});
      counts_by_class(set, set.classes.size());
    });
  return 0;
}
