#include "base/error.h"
#include "fuzz/fuzz.h"
#include "store/model_spec.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  ModelSpec spec;
  if (!fuzz::accepts<Error>(
          [&] { spec = parse_model_spec(fuzz::text_of(data, size), "model_spec.yaml"); }))
    return 0;
  const std::string yaml = format_model_spec(spec, "2026-01-02T03:04:05.678901+0000");
  fuzz::require(parse_model_spec(yaml, "ours").model_name == spec.model_name);
  return 0;
}
