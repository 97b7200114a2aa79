#include "fuzz/fuzz.h"
#include "store/model_directory.h"
#include "store/state_dict_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  std::vector<std::string> labels;
  if (!fuzz::accepts<FormatFault>([&] { labels = parse_label_map(fuzz::text_of(data, size)); }))
    return 0;
  fuzz::require(parse_label_map(format_label_map(labels)) == labels);
  return 0;
}
