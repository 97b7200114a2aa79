// The predictions that ranks send to rank 0.
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "record/run_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  fuzz::accepts<JsonFault, std::invalid_argument, nlohmann::json::exception, Error>(
      [&] { pack_judged_images(unpack_judged_images(fuzz::text_of(data, size))); });
  return 0;
}
