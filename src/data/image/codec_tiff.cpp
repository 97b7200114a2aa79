// Decodes the first page of a TIFF with libtiff, from memory. Gray, RGB and CMYK of 8 or 16 bits
// and palettes of 8 bits are read sample by sample, so that alpha is dropped instead of multiplied
// in, and so is Lab, whose white libtiff makes yellow; other forms (bilevel, YCbCr, …) are read by
// its RGBA reader.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tiffio.h>

#include "base/tfrecord.h"
#include "data/image/codec.h"

namespace kiln::codec {
namespace {

struct Source {
  std::string_view bytes;
  std::size_t at = 0;
  std::string error;   // libtiff's first error message
  std::string damage;  // the first warning of a codec: what it passed over
};

Source& source_of(thandle_t handle) {
  return *static_cast<Source*>(handle);
}

tmsize_t read_bytes(thandle_t handle, void* target, tmsize_t count) {
  Source& source = source_of(handle);
  if (count <= 0 || source.at >= source.bytes.size()) return 0;
  const std::size_t got =
      std::min(static_cast<std::size_t>(count), source.bytes.size() - source.at);
  std::memcpy(target, source.bytes.data() + source.at, got);
  source.at += got;
  return static_cast<tmsize_t>(got);
}

toff_t seek(thandle_t handle, toff_t offset, int whence) {
  Source& source = source_of(handle);
  const toff_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? source.at : source.bytes.size();
  source.at = base + offset;
  return source.at;
}

int map_bytes(thandle_t handle, void** base, toff_t* size) {
  const std::string_view bytes = source_of(handle).bytes;
  *base = const_cast<char*>(bytes.data());  // libtiff only reads the mapping
  *size = bytes.size();
  return 1;
}

void keep_first(std::string& first, const char* format, va_list arguments) {
  char text[200];
  std::vsnprintf(text, sizeof text, format, arguments);
  if (first.empty()) first = text;
}

int keep_error(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  keep_first(static_cast<Source*>(user)->error, format, arguments);
  return 1;
}

// Other warnings are about tags. `module`: libtiff's name of the codec, or of its function.
int keep_warning(TIFF*, void* user, const char* module, const char* format, va_list arguments) {
  const std::string_view who = module == nullptr ? "" : module;
  for (const std::string_view codec : {"JPEGLib", "LibJpeg", "Fax", "PackBits"})
    if (who.starts_with(codec)) keep_first(static_cast<Source*>(user)->damage, format, arguments);
  return 1;
}

using TiffPointer = std::unique_ptr<TIFF, void (*)(TIFF*)>;

[[noreturn]] void fail(const Source& source) {
  throw ImageFault("broken TIFF" + (source.error.empty() ? "" : ": " + source.error));
}

TiffPointer open_tiff(Source& source) {
  constexpr tmsize_t kMaxAllocation = tmsize_t{1} << 31;
  TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, kMaxAllocation);
  TIFFOpenOptionsSetErrorHandlerExtR(options, keep_error, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options, keep_warning, &source);
  const auto write_nothing = [](thandle_t, void*, tmsize_t) { return tmsize_t{0}; };
  const auto close_nothing = [](thandle_t) { return 0; };
  const auto size_of = [](thandle_t handle) { return toff_t{source_of(handle).bytes.size()}; };
  const auto unmap_nothing = [](thandle_t, void*, toff_t) {};
  TiffPointer tiff(TIFFClientOpenExt("image", "r", &source, read_bytes, write_nothing, seek,
                                     close_nothing, size_of, map_bytes, unmap_nothing, options),
                   TIFFClose);
  TIFFOpenOptionsFree(options);
  if (tiff == nullptr) fail(source);
  return tiff;
}

struct Layout {
  ImageSize size;
  std::uint16_t bits = 1, samples = 1, photometric = PHOTOMETRIC_MINISBLACK;
  std::uint16_t compression = COMPRESSION_NONE;
  std::uint16_t colors = 1;  // samples per pixel without alpha
  bool separate = false;     // one plane per sample
  bool tiled = false;
  bool premultiplied = false;
  std::uint32_t block_width = 0, block_height = 0;  // of tiles; or of strips, as wide as the image
  std::uint16_t *red = nullptr, *green = nullptr, *blue = nullptr;  // the palette, owned by libtiff
  int palette_shift = 8;  // to 8 bits; 0 for a palette that was written with 8

  // Samples of a pixel in one plane of the file, and those that are needed.
  std::uint32_t in_plane() const { return separate ? 1 : samples; }
  std::uint32_t kept() const { return colors + (premultiplied ? 1U : 0U); }
};

// Refuses samples that have no one meaning as colors: to read them anyway would be to guess.
void check_samples(TIFF* tiff, const Layout& layout, bool has_alpha) {
  std::uint16_t format = SAMPLEFORMAT_UINT;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &format);
  if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
    throw ImageFault(
        "a TIFF of signed, floating-point or complex numbers is not supported: scale it to 8 or "
        "16 bits without a sign");
  const bool is_gray = layout.photometric == PHOTOMETRIC_MINISBLACK ||
                       layout.photometric == PHOTOMETRIC_MINISWHITE ||
                       layout.photometric == PHOTOMETRIC_PALETTE;
  // As many as Pillow reads. Beside gray of 8 bits, it takes any second sample for alpha.
  const int most = !is_gray ? 6 : has_alpha || layout.bits == 8 ? 2 : 1;
  if (layout.samples > most)
    throw ImageFault("a TIFF of " + std::to_string(layout.samples) + " bands" +
                     (layout.colors == 3 ? "" : " that are not marked as RGB") +
                     " is not supported: write those to be seen as a gray or RGB image");
}

Layout layout_of(TIFF* tiff) {
  Layout layout;
  std::uint32_t width = 0, height = 0;
  std::uint16_t planes = PLANARCONFIG_CONTIG;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  layout.size = checked_size(width, height);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &layout.bits);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &layout.samples);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &planes);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &layout.compression);
  TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &layout.photometric);
  layout.separate = planes == PLANARCONFIG_SEPARATE && layout.samples > 1;
  if (layout.compression == COMPRESSION_JPEG && layout.photometric == PHOTOMETRIC_YCBCR &&
      !layout.separate) {
    TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    layout.photometric = PHOTOMETRIC_RGB;
  }
  if (layout.photometric == PHOTOMETRIC_RGB || layout.photometric == PHOTOMETRIC_CIELAB)
    layout.colors = 3;
  if (layout.photometric == PHOTOMETRIC_SEPARATED) layout.colors = 4;
  std::uint16_t extras = 0;
  std::uint16_t* kinds = nullptr;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &extras, &kinds);
  layout.premultiplied =
      layout.colors == 3 && layout.samples > 3 && extras > 0 && kinds[0] == EXTRASAMPLE_ASSOCALPHA;
  check_samples(tiff, layout, extras > 0 && kinds[0] != EXTRASAMPLE_UNSPECIFIED);
  layout.tiled = TIFFIsTiled(tiff) != 0;
  if (layout.tiled) {
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &layout.block_width);
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &layout.block_height);
  } else {
    layout.block_width = width;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &layout.block_height);
    layout.block_height = std::min(layout.block_height, height);
  }
  return layout;
}

// Returns the least number of bytes that the samples take in the file; 0 if the compression has no
// known limit.
std::uint64_t least_bytes(const Layout& layout) {
  constexpr std::pair<std::uint16_t, std::uint64_t> kMaxRatios[] = {
      {COMPRESSION_NONE, 1},
      {COMPRESSION_PACKBITS, 64},
      {COMPRESSION_DEFLATE, 1032},
      {COMPRESSION_ADOBE_DEFLATE, 1032},
      {COMPRESSION_LZW, 4096}};
  if (layout.photometric == PHOTOMETRIC_YCBCR) return 0;  // may be subsampled
  const std::uint64_t samples = layout.separate ? layout.colors : layout.samples;
  for (const auto& [compression, max_ratio] : kMaxRatios)
    if (compression == layout.compression)
      return layout.size.num_pixels() * layout.bits * samples / 8 / max_ratio;
  return 0;
}

// Throws ImageFault for tiles that are larger than the image and than 128 MiB. A tile that is only
// larger than a small image is valid.
void check_block(const Layout& layout) {
  constexpr std::uint64_t kMaxTileBytes = 128 << 20;
  const std::uint64_t pixels = std::uint64_t{layout.block_width} * layout.block_height;
  const std::uint64_t pixel_bytes = (layout.bits * std::uint64_t{layout.samples} + 7) / 8 + 4;
  if (pixels > layout.size.num_pixels() && pixels > kMaxTileBytes / pixel_bytes)
    throw ImageFault("broken TIFF: tiles that are much larger than the image");
}

// Finds the palette. Some writers fill its 16 bits with 0 to 255.
bool has_palette(TIFF* tiff, Layout& layout) {
  if (layout.bits != 8 ||
      TIFFGetField(tiff, TIFFTAG_COLORMAP, &layout.red, &layout.green, &layout.blue) == 0)
    return false;
  const auto is_small = [](const std::uint16_t* map) {
    return std::all_of(map, map + 256, [](std::uint16_t value) { return value < 256; });
  };
  if (is_small(layout.red) && is_small(layout.green) && is_small(layout.blue))
    layout.palette_shift = 0;
  return true;
}

bool reads_by_sample(TIFF* tiff, Layout& layout) {
  if ((layout.bits != 8 && layout.bits != 16) || layout.samples < layout.colors) return false;
  if (layout.photometric == PHOTOMETRIC_PALETTE) return has_palette(tiff, layout);
  constexpr std::array kForms{PHOTOMETRIC_MINISBLACK, PHOTOMETRIC_MINISWHITE, PHOTOMETRIC_RGB,
                              PHOTOMETRIC_CIELAB, PHOTOMETRIC_SEPARATED};
  return std::ranges::count(kForms, layout.photometric) > 0;
}

// Undoes premultiplied alpha as Pillow does.
void divide_by_alpha(std::uint8_t* rgb, std::uint8_t alpha) {
  for (int channel = 0; channel < 3; ++channel)
    rgb[channel] =
        alpha == 0 ? 0 : static_cast<std::uint8_t>(std::min(255, rgb[channel] * 255 / alpha));
}

// CIELab, whose white is D50 (TIFF 6.0, section 23: a and b are signed; CIE 15, section 8.2.1), to
// sRGB, whose white is D65 (IEC 61966-2-1), with Bradford's adaptation between them.
void lab_to_rgb(const std::uint8_t* lab, std::uint8_t* rgb) {
  constexpr double kWhite[3] = {0.96422, 1, 0.82521}, kKnee = 6.0 / 29;
  constexpr double kToRgb[3][3] = {{3.1338561, -1.6168667, -0.4906146},
                                   {-0.9787684, 1.9161415, 0.0334540},
                                   {0.0719453, -0.2289914, 1.4052427}};
  const double y = (lab[0] / 2.55 + 16) / 116;
  double xyz[3] = {y + static_cast<std::int8_t>(lab[1]) / 500.0, y,
                   y - static_cast<std::int8_t>(lab[2]) / 200.0};
  for (int i = 0; i < 3; ++i)
    xyz[i] = kWhite[i] *
             (xyz[i] > kKnee ? xyz[i] * xyz[i] * xyz[i] : 3 * kKnee * kKnee * (xyz[i] - 4.0 / 29));
  for (int c = 0; c < 3; ++c) {
    const double linear = kToRgb[c][0] * xyz[0] + kToRgb[c][1] * xyz[1] + kToRgb[c][2] * xyz[2];
    const double level =
        linear <= 0.0031308 ? 12.92 * linear : 1.055 * std::pow(linear, 1 / 2.4) - 0.055;
    rgb[c] = static_cast<std::uint8_t>(std::lround(std::clamp(level, 0.0, 1.0) * 255));
  }
}

void put_pixel(const Layout& layout, const std::uint8_t* samples, std::uint8_t* rgb) {
  switch (layout.photometric) {
    case PHOTOMETRIC_PALETTE:
      rgb[0] = static_cast<std::uint8_t>(layout.red[samples[0]] >> layout.palette_shift);
      rgb[1] = static_cast<std::uint8_t>(layout.green[samples[0]] >> layout.palette_shift);
      rgb[2] = static_cast<std::uint8_t>(layout.blue[samples[0]] >> layout.palette_shift);
      return;
    case PHOTOMETRIC_RGB:
      std::copy_n(samples, 3, rgb);
      if (layout.premultiplied) divide_by_alpha(rgb, samples[3]);
      return;
    case PHOTOMETRIC_CIELAB:
      lab_to_rgb(samples, rgb);
      return;
    case PHOTOMETRIC_SEPARATED:
      cmyk_to_rgb(samples, rgb);
      return;
    default: {
      const bool inverted = layout.photometric == PHOTOMETRIC_MINISWHITE;
      rgb[0] = rgb[1] = rgb[2] =
          inverted ? static_cast<std::uint8_t>(255 - samples[0]) : samples[0];
    }
  }
}

// Reads the blocks (tiles or strips) at one position of the image, one per plane, to `samples` as
// interleaved 8-bit samples: [block_height, block_width, layout.kept()]. (x, y) lies in the block.
// Of 16-bit samples, which libtiff returns in native (little-endian) order, only the high byte is
// kept.
void read_block(TIFF* tiff, const Source& source, const Layout& layout, std::uint32_t x,
                std::uint32_t y, std::vector<std::uint8_t>& block,
                std::vector<std::uint8_t>& samples) {
  const auto size = static_cast<tmsize_t>(block.size());
  const std::uint32_t width = layout.bits / 8U, from = layout.in_plane(), to = layout.kept();
  const std::uint32_t planes = layout.separate ? to : 1, count = layout.separate ? 1 : to;
  for (std::uint16_t plane = 0; plane < planes; ++plane) {
    const std::uint32_t place =
        layout.tiled ? TIFFComputeTile(tiff, x, y, 0, plane) : TIFFComputeStrip(tiff, y, plane);
    const auto read_stored = layout.tiled ? TIFFReadEncodedTile : TIFFReadEncodedStrip;
    if (read_stored(tiff, place, block.data(), size) < 0) fail(source);
    const std::uint8_t* in = block.data() + (width - 1);
    std::uint8_t* out = samples.data() + plane;
    for (std::size_t i = samples.size() / to; i > 0; --i, in += from * width, out += to) {
      for (std::uint32_t s = 0; s < count; ++s) out[s] = in[s * width];
    }
  }
}

void read_samples(TIFF* tiff, const Source& source, const Layout& layout, std::uint8_t* pixels) {
  constexpr std::uint64_t kMaxBlockBytes = std::uint64_t{1} << 31;
  const tmsize_t size = layout.tiled ? TIFFTileSize(tiff) : TIFFStripSize(tiff);
  const std::uint64_t block_pixels = std::uint64_t{layout.block_width} * layout.block_height;
  const std::uint64_t needed = block_pixels * layout.in_plane() * (layout.bits / 8U);
  if (size <= 0 || static_cast<std::uint64_t>(size) != needed || needed > kMaxBlockBytes)
    throw ImageFault("broken TIFF: implausible size of strips or tiles");
  const std::uint32_t step = layout.kept();
  std::vector<std::uint8_t> block(needed), samples(block_pixels * step);
  const auto width = static_cast<std::uint32_t>(layout.size.width);
  const auto height = static_cast<std::uint32_t>(layout.size.height);
  for (std::uint32_t top = 0; top < height; top += layout.block_height) {
    for (std::uint32_t left = 0; left < width; left += layout.block_width) {
      read_block(tiff, source, layout, left, top, block, samples);
      const std::uint32_t rows = std::min(layout.block_height, height - top);
      const std::uint32_t columns = std::min(layout.block_width, width - left);
      for (std::uint32_t y = 0; y < rows; ++y) {
        const std::uint8_t* in = samples.data() + std::size_t{y} * layout.block_width * step;
        std::uint8_t* out = pixels + (std::size_t{top + y} * width + left) * 3;
        for (std::uint32_t x = 0; x < columns; ++x, in += step, out += 3)
          put_pixel(layout, in, out);
      }
    }
  }
}

// Rows stay as stored: like EXIF's, the orientation tag is not applied.
void read_by_rgba(TIFF* tiff, const Source& source, ImageSize size, std::uint8_t* out) {
  char reason[1024] = {};
  TIFFSetField(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
  if (TIFFRGBAImageOK(tiff, reason) == 0)
    throw ImageFault("unsupported TIFF format: " + std::string(reason));
  const auto width = static_cast<std::uint32_t>(size.width);
  const auto height = static_cast<std::uint32_t>(size.height);
  std::vector<std::uint32_t> pixels(std::size_t{width} * height);
  if (TIFFReadRGBAImageOriented(tiff, width, height, pixels.data(), ORIENTATION_TOPLEFT, 1) == 0)
    fail(source);
  for (const std::uint32_t pixel : pixels) {
    *out++ = static_cast<std::uint8_t>(TIFFGetR(pixel));
    *out++ = static_cast<std::uint8_t>(TIFFGetG(pixel));
    *out++ = static_cast<std::uint8_t>(TIFFGetB(pixel));
  }
}

// What is wrong with an image that libtiff has read; empty if nothing is.
std::string damage_of(TIFF* tiff, const Source& source, const Layout& layout) {
  const std::string& told = source.error.empty() ? source.damage : source.error;
  if (!told.empty()) return "TIFF data is corrupt in places: " + told;
  const std::uint32_t count = layout.tiled ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
  for (std::uint32_t i = 0; layout.compression != COMPRESSION_NONE && i < count; ++i) {
    const std::uint64_t offset = TIFFGetStrileOffset(tiff, i);
    if (offset >= source.bytes.size()) continue;
    const std::string_view block = source.bytes.substr(offset, TIFFGetStrileByteCount(tiff, i));
    if (without_zero_tail(block).size() < block.size())
      return "TIFF data is corrupt in places: some of it is zeros";
  }
  return {};
}

// libtiff takes indexes for levels of gray where their palette is missing, or has 16 bits.
void require_palette(std::string_view bytes, const Layout& layout) {
  visit_tiff_entries(bytes, [&](const TiffEntry& entry) {
    if (entry.tag != TIFFTAG_PHOTOMETRIC) return true;
    if (entry.value == PHOTOMETRIC_PALETTE && layout.photometric != PHOTOMETRIC_PALETTE)
      throw ImageFault("broken TIFF: its palette is missing");
    return false;
  });
}

}  // namespace

void decode_tiff(std::string_view bytes, ImagePart& part) {
  Source source{bytes, 0, {}, {}};
  const TiffPointer tiff = open_tiff(source);
  source.error.clear();  // about tags that are not needed
  Layout layout = layout_of(tiff.get());
  require_palette(bytes, layout);
  check_block(layout);
  require_bytes(bytes.size(), least_bytes(layout), "TIFF");
  const auto pixels = begin_whole(layout.size, part);
  if (reads_by_sample(tiff.get(), layout)) {
    read_samples(tiff.get(), source, layout, pixels.data());
  } else {
    read_by_rgba(tiff.get(), source, layout.size, pixels.data());
  }
  part.damage = damage_of(tiff.get(), source, layout);
}

bool visit_tiff_entries(std::string_view bytes,
                        const std::function<bool(const TiffEntry&)>& visit) {
  if (bytes.size() < 16) return false;
  const bool little = bytes[0] == 'I';
  const bool big_form = bytes[little ? 2 : 3] == '+';
  const auto number = [&](std::size_t at, std::size_t size) {
    return little ? from_little_endian(bytes.substr(at, size)) : from_big(bytes, at, size);
  };
  const std::uint64_t directory = big_form ? number(8, 8) : number(4, 4);
  if (directory > bytes.size() || bytes.size() - directory < 8) return false;
  auto at = static_cast<std::size_t>(directory);
  const std::uint64_t count = number(at, big_form ? 8 : 2);
  at += big_form ? 8 : 2;
  const std::size_t entry_bytes = big_form ? 20 : 12, value = big_form ? 12 : 8;
  for (std::uint64_t i = 0; i < count; ++i, at += entry_bytes) {
    if (at + entry_bytes > bytes.size()) return false;
    const std::uint64_t type = number(at + 2, 2);
    const bool is_word = type == TIFF_SHORT || type == TIFF_SSHORT;
    const bool is_quad = type == TIFF_LONG || type == TIFF_SLONG;
    const std::uint64_t values = number(at + 4, big_form ? 8 : 4);
    const std::uint64_t most = (big_form ? 8U : 4U) / (is_word ? 2U : 4U);  // in the entry itself
    const TiffEntry entry{.tag = static_cast<std::uint32_t>(number(at, 2)),
                          .is_integer = (is_word || is_quad) && values >= 1 && values <= most,
                          .value = static_cast<std::uint32_t>(number(at + value, is_word ? 2 : 4))};
    if (!visit(entry)) return true;
  }
  return true;
}

// If an entry is repeated, the first one counts, as in libtiff.
ImageSize read_tiff_size(std::string_view bytes) {
  std::optional<std::uint32_t> width, height;
  const auto keep_side = [&](const TiffEntry& entry) {
    if (entry.tag == TIFFTAG_IMAGEWIDTH && !width) width = entry.value;
    if (entry.tag == TIFFTAG_IMAGELENGTH && !height) height = entry.value;
    return !(width && height);
  };
  if (!visit_tiff_entries(bytes, keep_side)) fail_in_header("TIFF");
  return checked_size(width.value_or(0), height.value_or(0));
}

}  // namespace kiln::codec
