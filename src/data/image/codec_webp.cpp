// Decodes lossy and lossless WebP with libwebp. Alpha is dropped. Of an animation, only the first
// frame is decoded.
#include <new>

#include <webp/decode.h>

#include "base/tfrecord.h"
#include "data/image/codec.h"

namespace kiln::codec {
namespace {

const std::uint8_t* data_of(std::string_view bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

[[noreturn]] void fail(VP8StatusCode status) {
  if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status == VP8_STATUS_NOT_ENOUGH_DATA) throw ImageFault("WebP data ends early");
  if (status == VP8_STATUS_UNSUPPORTED_FEATURE) throw ImageFault("unsupported WebP format");
  throw ImageFault("broken WebP data");
}

// `is_whole`: `bytes` are all that there are.
WebPBitstreamFeatures features_of(std::string_view bytes, bool is_whole) {
  WebPBitstreamFeatures features{};
  const VP8StatusCode status = WebPGetFeatures(data_of(bytes), bytes.size(), &features);
  if (status == VP8_STATUS_NOT_ENOUGH_DATA && !is_whole) fail_in_header("WebP");
  if (status != VP8_STATUS_OK) fail(status);
  return features;
}

ImageSize size_of(const WebPBitstreamFeatures& features) {
  return checked_size(static_cast<std::uint64_t>(features.width),
                      static_cast<std::uint64_t>(features.height));
}

struct Frame {
  std::string_view data;
  std::size_t x = 0, y = 0;  // its position on the canvas
};

// Finds the first frame of an animation. A frame is a chunk of "ANMF", length, x / 2, y / 2, w - 1,
// h - 1, duration and flags, and then the image's own chunks.
Frame first_frame(std::string_view bytes) {
  constexpr std::size_t kFrameHeader = 16;
  std::size_t at = 12;
  while (at + 8 <= bytes.size()) {
    const std::size_t length = from_little_endian(bytes.substr(at + 4, 4));
    if (bytes.substr(at, 4) == "ANMF") {
      if (length < kFrameHeader || at + 8 + length > bytes.size()) break;
      return {bytes.substr(at + 8 + kFrameHeader, length - kFrameHeader),
              std::size_t{from_little_endian(bytes.substr(at + 8, 3))} * 2,
              std::size_t{from_little_endian(bytes.substr(at + 11, 3))} * 2};
    }
    at += 8 + length + (length & 1);
  }
  fail(VP8_STATUS_NOT_ENOUGH_DATA);
}

// Throws ImageFault if lossy data end in zeros, which would be decoded as such. Other data may.
void check_end(std::string_view bytes) {
  const std::size_t end = without_zero_tail(bytes).size();
  if (end == bytes.size()) return;
  for (std::size_t at = 12; at + 8 <= end;) {
    const std::size_t length = from_little_endian(bytes.substr(at + 4, 4)),
                      next = at + 8 + length + (length & 1);
    if (bytes.substr(at, 4) == "VP8 " && without_zero_tail(bytes.substr(0, next)).size() < next)
      fail(VP8_STATUS_NOT_ENOUGH_DATA);
    at = next;
  }
}

void decode_into(std::string_view data, std::uint8_t* pixels, std::size_t bytes_left, int stride) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) throw ImageFault("incompatible libwebp version");
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {pixels, stride, bytes_left};
  const VP8StatusCode status = WebPDecode(data_of(data), data.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) fail(status);
}

}  // namespace

void decode_webp(std::string_view bytes, ImagePart& part) {
  const WebPBitstreamFeatures features = features_of(bytes, true);
  const ImageSize size = size_of(features);
  check_end(bytes);
  Frame frame{bytes};
  if (features.has_animation != 0) {
    frame = first_frame(bytes);
    const WebPBitstreamFeatures inner = features_of(frame.data, true);
    if (frame.x + static_cast<std::size_t>(inner.width) > static_cast<std::size_t>(size.width) ||
        frame.y + static_cast<std::size_t>(inner.height) > static_cast<std::size_t>(size.height)) {
      throw ImageFault("broken WebP: frame outside the canvas");
    }
  }
  const auto pixels = begin_whole(size, part);
  const std::size_t stride = static_cast<std::size_t>(size.width) * 3;
  const std::size_t offset = frame.y * stride + frame.x * 3;
  decode_into(frame.data, pixels.data() + offset, pixels.size() - offset, static_cast<int>(stride));
}

ImageSize read_webp_size(std::string_view bytes) {
  return size_of(features_of(bytes, false));
}

}  // namespace kiln::codec
