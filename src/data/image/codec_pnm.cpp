// Decodes raw PGM and PPM (netpbm's pgm(5), ppm(5)), without a library.
#include <algorithm>
#include <charconv>
#include <string>

#include "data/image/codec.h"

namespace kiln::codec {
namespace {

struct NetpbmHeader {
  ImageSize size;
  int channels = 1;
  std::uint32_t maximum = 1;
  std::size_t data = 0;  // offset of the samples
};

NetpbmHeader read_netpbm_header(std::string_view bytes) {
  const char form = bytes[1];
  if (form != '5' && form != '6')
    throw ImageFault("a PNM of form P" + std::string(1, form) +
                     " is not supported: convert it to a raw PGM or PPM (P5, P6) or to PNG");
  std::size_t at = 2;  // after P5 or P6
  // Reads a decimal number after blanks and comments.
  const auto number = [&] {
    constexpr std::size_t kMaxDigits = 9;
    constexpr std::string_view kSkipped = " \t\n\v\f\r#";
    for (; at < bytes.size() && kSkipped.find(bytes[at]) != kSkipped.npos; ++at)
      if (bytes[at] == '#') at = std::min(bytes.find('\n', at), bytes.size() - 1);
    if (at >= bytes.size()) fail_in_header("PNM");
    std::uint32_t value = 0;
    const std::string_view digits = bytes.substr(at, kMaxDigits);
    const char* end = std::from_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    if (end == digits.data()) throw ImageFault("broken PNM: missing number");
    at += static_cast<std::size_t>(end - digits.data());
    return value;
  };
  NetpbmHeader header;
  header.channels = form == '6' ? 3 : 1;
  const std::uint32_t width = number();
  const std::uint32_t height = number();
  header.size = checked_size(width, height);
  header.maximum = number();
  if (header.maximum < 1 || header.maximum > 65535)
    throw ImageFault("broken PNM: invalid maximum " + std::to_string(header.maximum));
  if (at >= bytes.size()) fail_in_header("PNM");
  header.data = at + 1;  // after one blank
  return header;
}

// Converts a sample to 8 bits: its high byte if the maximum is 65535, otherwise scaled by the
// maximum.
std::uint8_t to_byte(std::uint32_t value, std::uint32_t maximum) {
  if (maximum == 65535) return static_cast<std::uint8_t>(value >> 8);
  return static_cast<std::uint8_t>((std::min(value, maximum) * 510 + maximum) / (maximum * 2));
}

}  // namespace

void decode_pnm(std::string_view bytes, ImagePart& part) {
  const NetpbmHeader header = read_netpbm_header(bytes);
  const std::size_t sample_bytes = header.maximum > 255 ? 2 : 1;
  const std::size_t needed =
      header.size.num_pixels() * static_cast<std::size_t>(header.channels) * sample_bytes;
  require_bytes(bytes.size() - header.data, needed, "PNM");
  std::uint8_t* out = begin_whole(header.size, part).data();
  const auto* in = reinterpret_cast<const std::uint8_t*>(bytes.data()) + header.data;
  if (header.maximum == 255 && header.channels == 3) {
    std::copy_n(in, needed, out);
    return;
  }
  for (std::size_t i = 0; i < needed; i += sample_bytes) {
    const std::uint32_t value = sample_bytes == 2 ? in[i] * 256U + in[i + 1] : in[i];
    out = std::fill_n(out, header.channels == 3 ? 1 : 3, to_byte(value, header.maximum));
  }
}

ImageSize read_pnm_size(std::string_view bytes) {
  return read_netpbm_header(bytes).size;
}

}  // namespace kiln::codec
