#include "base/error.h"
#include "fuzz/fuzz.h"
#include "store/model_directory.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  Calibration read;
  if (!fuzz::accepts<Error>(
          [&] { read = parse_calibration(fuzz::text_of(data, size), "calibration.json"); }))
    return 0;
  fuzz::require(parse_calibration(format_calibration(read), "ours") == read);
  return 0;
}
