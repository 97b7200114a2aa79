// Record files as a dataset: the first byte says whether the rest is RecordIO, or the data of a
// TFRecord, or both of a TFRecord and an index for RecordIO.
#include "base/error.h"
#include "base/tfrecord.h"
#include "data/archive/record_reader.h"
#include "data/dataset/dataset.h"
#include "data/dataset/image_bytes.h"
#include "data/image/image.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  std::string rest = fuzz::text_of(data, size);
  const bool is_recordio = !rest.empty() && rest[0] == 'R';
  rest.erase(0, 1);
  const std::string index = fuzz::take_part(rest);
  std::error_code none;
  std::filesystem::remove(fuzz::folder() / "a.idx", none);
  if (is_recordio && !rest.empty()) fuzz::put("a.idx", index);
  const auto file = is_recordio ? fuzz::put("a.rec", rest.empty() ? index : rest)
                                : fuzz::put("a.tfrecord", tfrecord(index) + tfrecord(rest));
  fuzz::accepts<Error>([&] {
    const Dataset set = read_dataset(file, "Training dataset");
    std::string bytes;
    for (std::size_t i = 0; i < set.samples.size(); ++i)
      fuzz::accepts<ImageFault>([&] { read_image_bytes(set, i, bytes); });
  });
  return 0;
}
