// Image decoders, one kind a target: KILN_FUZZ_KIND.
#include "data/image/codec.h"
#include "data/image/image.h"
#include "data/image/unread_kind.h"
#include "fuzz/fuzz.h"

namespace {

using namespace kiln;

// A header may promise 178 million pixels, and zeroing them takes too long for a fuzzer. A PNM
// needs bytes for all it promises, so its reader must refuse such a header by itself.
constexpr long long kManyPixels = 1 << 18;

void decode(const std::string& bytes) {
  if (is_heic(bytes)) {
    codec::read_heic_size(bytes);  // decoding is libheif's; tests/flow/test_heic.py damages photos
    return;
  }
  const int orientation = read_orientation(bytes).value_or(1);
  fuzz::require(orientation >= 1 && orientation <= 8);
  const ImageSize size = read_image_size(bytes, Exif::kApply);
  const long long num_pixels = 1LL * size.height * size.width;
  if (num_pixels > kManyPixels && image_kind(bytes) != "PNM") return;
  const DecodedImage decoded = decode_image(bytes, Exif::kApply);
  fuzz::require(decoded.image.size == size);
  fuzz::require(static_cast<long long>(decoded.image.pixels.size()) == 3 * num_pixels);
  const Region middle = {size.height / 3, size.width / 3, {(size.height + 2) / 3, 1}};
  ImagePart part;
  for (const double shrinks_by : {4, 16}) {
    decode_part(
        bytes, Exif::kApply,
        [&](ImageSize) {
          return WantedPart{middle, shrinks_by};
        },
        part);
    fuzz::require(part.whole == size);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes = fuzz::text_of(data, size);
  const std::string_view kind =
      is_heic(bytes) ? "HEIC" : image_kind(bytes);  // also where it cannot be decoded
  if (kind == KILN_FUZZ_KIND) fuzz::accepts<ImageFault>([&] { decode(bytes); });
  if (image_kind(bytes).empty()) fuzz::require(!fault_of_unread(bytes).empty());
  return 0;
}
