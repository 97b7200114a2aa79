// A tf.train.Example.
#include "data/archive/record_reader.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  fuzz::accepts<RecordFault>([&] {
    const RecordContents image =
        image_record(fuzz::text_of(data, size), RecordFormat::kTfRecord, {.image = "i"});
    fuzz::require(image.bytes.size() <= size && image.labels.size() <= size);
    const RecordContents again = image_record(example_of(image, ""), RecordFormat::kTfRecord);
    fuzz::require(again.bytes == image.bytes && again.labels == image.labels &&
                  again.class_text == image.class_text && again.name == image.name);
  });
  return 0;
}
