// split.csv, and the pattern of --group-by beside it: the part before a line "--".
#include <stdexcept>

#include "base/error.h"
#include "base/path_pattern.h"
#include "data/split/split_dataset.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  static const Dataset kSet = [] {
    Dataset set;
    set.classes = {"cat", "dog"};
    for (const char* name : {"a", "b", "c,d", "e"})
      set.samples.push_back(
          {.file_name = name, .label = name[0] < 'c' ? 0 : 1, .id = 0, .size = {}});
    return set;
  }();
  std::string text = fuzz::text_of(data, size);
  const std::string pattern = fuzz::take_part(text);
  fuzz::accepts<std::invalid_argument>(
      [&] { PathPattern(pattern.substr(0, 40)).group_of("class/patient12_3 (4).jpg"); });
  SplitFile file;
  if (!fuzz::accepts<Error, Problems>([&] { file = parse_split(text, "--split", kSet, {"x"}); }))
    return 0;
  fuzz::require(file.sides.size() == 4);
  const std::string written = format_split(kSet, file.sides, {});
  fuzz::require(parse_split(written, "--split", kSet, {}).sides == file.sides);
  return 0;
}
