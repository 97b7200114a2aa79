#include "base/json.h"
#include "fuzz/fuzz.h"
#include "report/scores/score_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  ScoreProgress read;
  if (!fuzz::accepts<JsonFault>([&] { read = parse_score_progress(fuzz::text_of(data, size)); }))
    return 0;
  fuzz::require(parse_score_progress(format_score_progress(read)) == read);
  return 0;
}
