// --labels.
#include "base/error.h"
#include "data/split/split_dataset.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  Dataset set;
  set.classes = {"cat", "dog"};
  for (const char* name : {"a", "b", "b", "c,d"})
    set.samples.push_back(
        {.file_name = name, .label = name[0] == 'a' ? 0 : 1, .id = 0, .size = {}});
  const bool taken = fuzz::accepts<Error, Problems>(
      [&] { apply_labels(fuzz::text_of(data, size), "--labels", set); });
  fuzz::require(taken ? !set.samples.empty() : set.samples.size() == 4);
  for (const Sample& sample : set.samples)
    fuzz::require(sample.label >= 0 && sample.label < static_cast<int>(set.classes.size()));
  return 0;
}
