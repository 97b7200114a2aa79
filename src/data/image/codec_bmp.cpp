// Decodes BMP (Microsoft, "Bitmap Storage") without a library, by Pillow's rules: palettes, run
// lengths, bit fields, the headers of Windows; OS/2's are refused. Alpha is dropped. Pillow reads
// pixels of 4 and 8 bits wrongly if their palette begins as that of another depth's gray images;
// Kiln does not.
#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "base/tfrecord.h"
#include "data/image/codec.h"

namespace kiln::codec {
namespace {

enum Compression : std::uint32_t { kNone = 0, kRuns8 = 1, kRuns4 = 2, kBitFields = 3 };

constexpr std::size_t kHeaderBegin = 14;
constexpr std::size_t kColorBytes = 4;   // of the palette
constexpr std::size_t kMasksBegin = 54;  // within the header, or after one of 40 bytes

using Color = std::array<std::uint8_t, 3>;   // red, green, blue
using Masks = std::array<std::uint32_t, 4>;  // red, green, blue, alpha
using Palette = std::array<Color, 256>;

struct Header {
  ImageSize size;
  bool top_down = false;
  std::uint32_t bits = 0;  // a pixel
  std::uint32_t compression = kNone;
  Masks masks{};
  std::uint32_t num_colors = 0;         // of the palette
  std::size_t palette = 0, pixels = 0;  // where they begin in the file
};

[[noreturn]] void fail_unsupported(const std::string& what) {
  throw ImageFault("a BMP with " + what + " is not supported");
}

Header read_header(std::string_view bytes) {
  Header header{.size = read_bmp_size(bytes)};
  const std::uint32_t length = from_little_endian(bytes.substr(kHeaderBegin, 4));
  const std::size_t end = kHeaderBegin + length;
  require_bytes(bytes.size(), end, "BMP");
  header.top_down = bytes[25] == '\xff';
  header.bits = from_little_endian(bytes.substr(28, 2));
  header.compression = from_little_endian(bytes.substr(30, 4));
  header.num_colors = from_little_endian(bytes.substr(46, 4));
  header.palette = end;
  if (header.compression == kBitFields) {
    header.palette = std::max(end, kMasksBegin + 12);
    require_bytes(bytes.size(), header.palette, "BMP");
    const std::size_t count = length >= 56 ? 4 : 3;
    for (std::size_t i = 0; i < count; ++i)
      header.masks[i] = from_little_endian(bytes.substr(kMasksBegin + 4 * i, 4));
  }
  const bool indexed = header.bits <= 8;
  if (header.num_colors == 0 && indexed) header.num_colors = 1U << header.bits;
  const std::size_t palette_bytes = indexed ? header.num_colors * kColorBytes : 0;
  header.pixels = from_little_endian(bytes.substr(10, 4));
  if (header.pixels == 0 || (header.pixels == end && indexed))
    header.pixels = header.palette + palette_bytes;
  return header;
}

// Colors that the file lacks are black; if the palette is that of a gray image, they continue it.
Palette read_palette(std::string_view bytes, const Header& header) {
  constexpr std::uint32_t kMaxColors = 65536;
  const std::uint32_t count = header.num_colors;
  const std::size_t stored = (bytes.size() - header.palette) / kColorBytes;
  if (count > kMaxColors || std::min<std::size_t>(count, stored) > Palette().size())
    fail_unsupported("a palette of " + std::to_string(count) + " colors");
  Palette palette{}, gray{};
  for (std::size_t i = 0; i < gray.size(); ++i)
    gray[i].fill(static_cast<std::uint8_t>(count <= 2 && i > 0 ? 255 : i));
  for (std::uint32_t i = 0; i < std::min<std::size_t>(count, stored); ++i) {
    const auto* color = bytes.data() + header.palette + i * kColorBytes;
    for (std::size_t c = 0; c < 3; ++c) palette[i][c] = static_cast<std::uint8_t>(color[2 - c]);
  }
  const bool is_whole = count <= stored;
  return is_whole && std::equal(&palette[0], palette.data() + count, &gray[0]) ? gray : palette;
}

// Reads the rows in `data`. color_of(value of a pixel's bits) returns its Color.
template <typename ColorOf>
void read_rows(std::string_view data, std::size_t bits, std::size_t stride, const Header& header,
               ImagePart& part, ColorOf color_of) {
  const auto width = static_cast<std::size_t>(header.size.width);
  const auto height = static_cast<std::size_t>(header.size.height);
  require_bytes(data.size(), (height - 1) * stride + (width * bits + 7) / 8, "BMP");
  std::uint8_t* const pixels = begin_whole(header.size, part).data();
  const auto* in = reinterpret_cast<const std::uint8_t*>(data.data());
  for (std::size_t y = 0; y < height; ++y, in += stride) {
    std::uint8_t* out = pixels + (header.top_down ? y : height - 1 - y) * width * 3;
    for (std::size_t at = 0; at < width * bits; at += bits, out += 3) {
      std::uint32_t value = in[at / 8];
      if (bits < 8) value = value >> (8 - bits - at % 8) & ((1U << bits) - 1);
      for (std::size_t i = 1; i < bits / 8; ++i) value |= std::uint32_t{in[at / 8 + i]} << 8 * i;
      std::ranges::copy(color_of(value), out);
    }
  }
}

// The bit fields that Pillow reads; of each number of bits, the first is that of files without.
constexpr std::uint32_t k0 = 0xff, k1 = 0xff00, k2 = 0xff0000, k3 = 0xff000000;
constexpr std::pair<std::uint32_t, Masks> kFields[] = {
    {16, {0x7c00, 0x3e0, 0x1f}}, {16, {0xf800, 0x7e0, 0x1f}}, {24, {k2, k1, k0}},
    {32, {k2, k1, k0, 0}},       {32, {k3, k2, k1, 0}},       {32, {k3, k1, k0, 0}},
    {32, {k3, k2, k1, k0}},      {32, {k0, k1, k2, k3}},      {32, {k2, k1, k0, k3}},
    {32, {k3, k1, k0, k2}},
};

Masks masks_of(const Header& header) {
  Masks wanted = header.masks;
  if (header.bits != 32) wanted[3] = 0;
  const bool usual = header.compression == kNone || (header.bits == 32 && wanted == Masks{});
  for (const auto& [bits, masks] : kFields)
    if (bits == header.bits && (usual || masks == wanted)) return masks;
  fail_unsupported("such bit fields");
}

// Returns a function: a pixel's value -> its Color.
auto colors_of_fields(const Header& header) {
  const Masks masks = masks_of(header);
  std::array<std::array<std::uint8_t, 256>, 3> levels{};  // of each channel's values
  for (std::size_t c = 0; c < 3; ++c) {
    const std::uint32_t highest = masks[c] >> std::countr_zero(masks[c]);
    for (std::uint32_t i = 0; i < 256; ++i)
      levels[c][i] = static_cast<std::uint8_t>((i & highest) * 255 / highest);
  }
  return [masks, levels](std::uint32_t value) {
    Color color;
    for (std::size_t c = 0; c < 3; ++c)
      color[c] = levels[c][value >> std::countr_zero(masks[c]) & 0xff];
    return color;
  };
}

// Returns what run lengths stand for, a byte a pixel; what is skipped is 0.
std::string unpack_runs(std::string_view bytes, const Header& header) {
  const auto width = static_cast<std::size_t>(header.size.width);
  const std::size_t all = width * static_cast<std::size_t>(header.size.height);
  const std::size_t a_byte = header.compression == kRuns4 ? 2 : 1;
  const auto byte_at = [&](std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); };
  std::string out;
  std::size_t x = 0;
  const auto add = [&](std::size_t count, int byte) {
    for (std::size_t i = 0; i < count; ++i)
      out += static_cast<char>(a_byte == 1 ? byte : i % 2 == 0 ? byte >> 4 : byte & 15);
  };
  for (std::size_t at = header.pixels; out.size() < all && at + 2 <= bytes.size();) {
    const std::uint8_t count = byte_at(at), code = byte_at(at + 1);
    const std::size_t left = all - out.size();
    at += 2;
    if (count > 0) {
      const std::size_t fits = std::min<std::size_t>(count, width - std::min(x, width));
      add(fits, code);
      x += fits;
    } else if (code == 0) {  // end of the row
      out.resize((out.size() + width - 1) / width * width);
      x = 0;
    } else if (code == 1) {  // end of the image
      break;
    } else if (code == 2) {  // columns and rows to skip
      if (at + 2 > bytes.size()) break;
      out.resize(out.size() + std::min(left, byte_at(at) + byte_at(at + 1) * width));
      x = out.size() % width;
      at += 2;
    } else {  // as many pixels as `code`, then the file's next even place
      const std::size_t end = at + (std::min<std::size_t>(left, code) + a_byte - 1) / a_byte;
      if (end > bytes.size()) break;
      for (std::size_t rest = std::min<std::size_t>(left, code); at < end; rest -= a_byte)
        add(std::min(a_byte, rest), byte_at(at++));
      x += code;
      at += at % 2;
    }
  }
  return out;
}

}  // namespace

void decode_bmp(std::string_view bytes, ImagePart& part) {
  const Header header = read_header(bytes);
  const std::uint32_t bits = header.bits, compression = header.compression;
  const auto width = static_cast<std::size_t>(header.size.width);
  const std::size_t stride = (width * bits + 31) / 32 * 4;
  const std::string_view data = bytes.substr(std::min(bytes.size(), header.pixels));
  const bool has_runs = compression == kRuns8 || compression == kRuns4;
  if ((bits == 1 || bits == 4 || bits == 8) && (has_runs || compression == kNone)) {
    const Palette palette = read_palette(bytes, header);
    const auto color_of = [&](std::uint32_t index) { return palette[index]; };
    if (has_runs)
      read_rows(unpack_runs(bytes, header), 8, width, header, part, color_of);
    else
      read_rows(data, bits, stride, header, part, color_of);
  } else if ((bits == 16 || bits == 24 || bits == 32) && !has_runs && compression <= kBitFields) {
    read_rows(data, bits, stride, header, part, colors_of_fields(header));
  } else {
    fail_unsupported(std::to_string(bits) + " bits a pixel and compression " +
                     std::to_string(compression));
  }
}

ImageSize read_bmp_size(std::string_view bytes) {
  constexpr std::array<std::uint32_t, 5> kLengths = {40, 52, 56, 108, 124};
  constexpr std::array<std::uint32_t, 3> kLengthsOfOs2 = {12, 16, 64};
  const std::uint32_t length = from_little_endian(bytes.substr(kHeaderBegin, 4));
  if (std::ranges::count(kLengthsOfOs2, length) > 0)
    throw ImageFault("a BMP of OS/2 is not supported; save it as PNG, for example with `magick`");
  if (std::ranges::count(kLengths, length) == 0)
    fail_unsupported("a header of " + std::to_string(length) + " bytes");
  if (bytes.size() < 26) fail_in_header("BMP");
  const std::uint32_t height = from_little_endian(bytes.substr(22, 4));
  return checked_size(from_little_endian(bytes.substr(18, 4)),
                      height >> 24 == 0xff ? 0 - height : height);
}

}  // namespace kiln::codec
