// The list of a dataset that rank 0 sends to the others.
#include "base/error.h"
#include "data/dataset/image_bytes.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  fuzz::accepts<InternalError>([&] {
    const Dataset set = dataset_of(fuzz::text_of(data, size));
    dataset_of(to_bytes(set));
    std::size_t name_bytes = 0;
    for (const Sample& sample : set.samples) name_bytes += sample.file_name.size();
    fuzz::require(name_bytes <= size);
  });
  return 0;
}
