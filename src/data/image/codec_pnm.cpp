// Decodes PBM, PGM and PPM, plain and raw (netpbm's pbm(5), pgm(5), ppm(5)), without a library.
#include <algorithm>
#include <string>

#include "data/image/codec.h"

namespace kiln::codec {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

class Cursor {
 public:
  explicit Cursor(std::string_view bytes, std::size_t at = 0) : bytes_(bytes), at_(at) {}

  bool at_end() const { return at_ >= bytes_.size(); }
  std::size_t at() const { return at_; }
  void skip_one() { ++at_; }

  // Skips blanks and comments; false at the end.
  bool skip_blanks() {
    while (!at_end()) {
      if (bytes_[at_] == '#') {
        while (!at_end() && bytes_[at_] != '\n') ++at_;
      } else if (is_space(bytes_[at_])) {
        ++at_;
      } else {
        return true;
      }
    }
    return false;
  }

  // Parses a decimal number of at most `max_digits` digits.
  std::uint32_t number(int max_digits) {
    std::uint32_t value = 0;
    int digits = 0;
    while (digits < max_digits && !at_end() && bytes_[at_] >= '0' && bytes_[at_] <= '9') {
      value = value * 10 + static_cast<std::uint32_t>(bytes_[at_++] - '0');
      ++digits;
    }
    if (digits == 0) throw ImageFault("broken PNM: missing number");
    return value;
  }

 private:
  std::string_view bytes_;
  std::size_t at_;
};

struct Header {
  ImageSize size;
  bool plain = false, bitmap = false;
  int channels = 1;
  std::uint32_t maximum = 1;
  std::size_t data = 0;  // offset of the samples
};

Header read_header(std::string_view bytes) {
  constexpr int kMaxDigits = 9;
  const int form = bytes[1] - '0';
  Header header;
  header.plain = form <= 3;
  header.bitmap = form == 1 || form == 4;
  header.channels = form == 3 || form == 6 ? 3 : 1;
  Cursor cursor(bytes, 2);
  const auto next = [&] {
    if (!cursor.skip_blanks()) fail_in_header("PNM");
    return cursor.number(kMaxDigits);
  };
  const std::uint32_t width = next();
  const std::uint32_t height = next();
  header.size = checked_size(width, height);
  if (!header.bitmap) header.maximum = next();
  if (header.maximum < 1 || header.maximum > 65535) {
    throw ImageFault("broken PNM: invalid maximum " + std::to_string(header.maximum));
  }
  if (cursor.at_end()) fail_in_header("PNM");
  cursor.skip_one();
  header.data = cursor.at();
  return header;
}

// Converts a sample to 8 bits: its high byte if the maximum is 65535, otherwise scaled by the
// maximum.
std::uint8_t to_byte(std::uint32_t value, std::uint32_t maximum) {
  if (maximum == 65535) return static_cast<std::uint8_t>(value >> 8);
  return static_cast<std::uint8_t>((std::min(value, maximum) * 510 + maximum) / (maximum * 2));
}

void put(const Header& header, std::uint8_t value, std::uint8_t*& out) {
  *out++ = value;
  if (header.channels == 3) return;
  *out++ = value;
  *out++ = value;
}

void read_plain(std::string_view bytes, const Header& header, std::span<std::uint8_t> pixels) {
  Cursor cursor(bytes, header.data);
  std::uint8_t* out = pixels.data();
  std::uint8_t* const end = out + pixels.size();
  while (out < end) {
    if (!cursor.skip_blanks()) throw ImageFault("PNM data ends early");
    const std::uint32_t value = cursor.number(header.bitmap ? 1 : 5);
    put(header, header.bitmap ? (value != 0 ? 0 : 255) : to_byte(value, header.maximum), out);
  }
}

void read_raw_bits(const std::uint8_t* in, std::size_t stride, ImageSize size, std::uint8_t* out) {
  for (int y = 0; y < size.height; ++y, in += stride) {
    for (int x = 0; x < size.width; ++x, out += 3) {
      out[0] = out[1] = out[2] = (in[x / 8] >> (7 - x % 8) & 1) != 0 ? 0 : 255;
    }
  }
}

std::size_t bytes_a_sample(const Header& header) {
  return header.maximum > 255 ? 2 : 1;
}

std::size_t row_samples(const Header& header) {
  return static_cast<std::size_t>(header.size.width) * static_cast<std::size_t>(header.channels);
}

// For the raw formats only.
std::size_t row_bytes(const Header& header) {
  return header.bitmap ? (row_samples(header) + 7) / 8
                       : row_samples(header) * bytes_a_sample(header);
}

// Returns the least number of bytes that the samples take. In a plain format that is one digit each
// and, except in bitmaps, a blank between each two.
std::size_t least_bytes(const Header& header) {
  const auto height = static_cast<std::size_t>(header.size.height);
  if (!header.plain) return row_bytes(header) * height;
  const std::size_t samples = row_samples(header) * height;
  return header.bitmap ? samples : 2 * samples - 1;
}

void read_raw(std::string_view bytes, const Header& header, std::uint8_t* out) {
  const std::size_t sample = bytes_a_sample(header), stride = row_bytes(header);
  const std::size_t needed = stride * static_cast<std::size_t>(header.size.height);
  const auto* in = reinterpret_cast<const std::uint8_t*>(bytes.data()) + header.data;
  if (header.bitmap) {
    read_raw_bits(in, stride, header.size, out);
    return;
  }
  if (header.maximum == 255 && header.channels == 3) {
    std::copy_n(in, needed, out);
    return;
  }
  for (std::size_t i = 0; i < needed; i += sample) {
    const std::uint32_t value = sample == 2 ? in[i] * 256U + in[i + 1] : in[i];
    put(header, to_byte(value, header.maximum), out);
  }
}

}  // namespace

void decode_pnm(std::string_view bytes, ImagePart& part) {
  const Header header = read_header(bytes);
  require_bytes(bytes.size() - header.data, least_bytes(header), "PNM");
  const auto pixels = begin_whole(header.size, part);
  if (header.plain) {
    read_plain(bytes, header, pixels);
  } else {
    read_raw(bytes, header, pixels.data());
  }
}

ImageSize read_pnm_size(std::string_view bytes) {
  return read_header(bytes).size;
}

}  // namespace kiln::codec
