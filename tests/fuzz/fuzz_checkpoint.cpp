// The list that makes a checkpoint whole.
#include "fuzz/fuzz.h"
#include "store/checkpoint.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  fuzz::accepts<FormatFault>([&] {
    const CheckpointManifest manifest = parse_manifest(fuzz::text_of(data, size));
    fuzz::require(parse_manifest(format_manifest(manifest)).best_epoch == manifest.best_epoch);
  });
  return 0;
}
