// images.lst.
#include "data/dataset/listing.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  static const DatasetContext kContext{"folder", "Training dataset"};
  static const ListSchema kSchema =
      parse_schema(schema_text({"cat", "d\u00f6g"}), "_schema.json", kContext);
  fuzz::accepts<Error>([&] {
    const ListedImages listed =
        parse_image_list(fuzz::text_of(data, size), "images.lst", kSchema, kContext);
    fuzz::require(listed.lines.size() == listed.samples.size());
    for (const Sample& sample : listed.samples) fuzz::require(sample.label < 2);
  });
  return 0;
}
