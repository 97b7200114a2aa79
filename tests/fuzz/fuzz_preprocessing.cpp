#include "base/error.h"
#include "fuzz/fuzz.h"
#include "store/model_spec.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  Preprocessing read;
  if (!fuzz::accepts<Error>(
          [&] { read = parse_preprocessing(fuzz::text_of(data, size), "preprocessing.json"); }))
    return 0;
  fuzz::require(parse_preprocessing(format_preprocessing(read), "ours") == read);
  return 0;
}
