// Decodes raw PGM and PPM (netpbm's pgm(5), ppm(5)), without a library.
#include <algorithm>
#include <string>

#include "data/image/codec.h"

namespace kiln::codec {
namespace {

struct Header {
  ImageSize size;
  int channels = 1;
  std::uint32_t maximum = 1;
  std::size_t data = 0;  // offset of the samples
};

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

class HeaderReader {
 public:
  explicit HeaderReader(std::string_view bytes) : bytes_(bytes) {}

  // Reads a decimal number after blanks and comments.
  std::uint32_t number() {
    constexpr int kMaxDigits = 9;
    skip_blanks();
    std::uint32_t value = 0;
    int digits = 0;
    while (digits < kMaxDigits && !at_end() && bytes_[at_] >= '0' && bytes_[at_] <= '9') {
      value = value * 10 + static_cast<std::uint32_t>(bytes_[at_++] - '0');
      ++digits;
    }
    if (digits == 0) throw ImageFault("broken PNM: missing number");
    return value;
  }

  // Returns where the samples begin, after one blank.
  std::size_t data() const {
    if (at_end()) fail_in_header("PNM");
    return at_ + 1;
  }

 private:
  bool at_end() const { return at_ >= bytes_.size(); }

  void skip_blanks() {
    for (; !at_end(); ++at_) {
      if (bytes_[at_] == '#') {
        at_ = std::min(bytes_.find('\n', at_), bytes_.size() - 1);
      } else if (!is_space(bytes_[at_])) {
        return;
      }
    }
    fail_in_header("PNM");
  }

  std::string_view bytes_;
  std::size_t at_ = 2;  // after P5 or P6
};

Header read_header(std::string_view bytes) {
  const char form = bytes[1];
  if (form != '5' && form != '6')
    throw ImageFault("a PNM of form P" + std::string(1, form) +
                     " is not supported: convert it to a raw PGM or PPM (P5, P6) or to PNG");
  HeaderReader reader(bytes);
  Header header;
  header.channels = form == '6' ? 3 : 1;
  const std::uint32_t width = reader.number();
  const std::uint32_t height = reader.number();
  header.size = checked_size(width, height);
  header.maximum = reader.number();
  if (header.maximum < 1 || header.maximum > 65535) {
    throw ImageFault("broken PNM: invalid maximum " + std::to_string(header.maximum));
  }
  header.data = reader.data();
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
  const Header header = read_header(bytes);
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
  return read_header(bytes).size;
}

}  // namespace kiln::codec
