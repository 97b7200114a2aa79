// Decodes and encodes JPEG with libjpeg(-turbo). It reports errors by longjmp, so the functions
// that call it keep all state in JpegReader, which outlives the jump, and have no local object with
// a destructor.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include <jpeglib.h>

#include <jerror.h>

#include "base/error.h"
#include "data/image/codec.h"

namespace kiln {
namespace codec {
namespace {

// A malicious progressive file may repeat scans of a few bytes each. The limit on pixels is for all
// attempts to decode a file together.
constexpr int kMaxScans = 500;
constexpr long long kMaxScanPixels = 16 * kMaxImagePixels;
constexpr std::uint64_t kMaxPixelsAByte = 1024;  // one bit per block, and half of the rows missing
constexpr std::uint8_t kMissing = 128;           // mid gray, for rows that the file lacks
constexpr std::uint8_t kEndOfImage[2] = {0xff, JPEG_EOI};
constexpr int kMaxUnread = 8;  // bytes after a scan of a sound file

struct JpegReader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = {};
  long long& scan_pixels_left;  // over all attempts to decode the file
  int error_code = 0;
  // Whether and where the data ended too early or was corrupt:
  bool source_ended = false;  // the file ends without an end-of-image marker
  bool lacks_pixels = false;  // needed ones
  bool lacks_rows = false;    // in the scan that first brings rows, not a later one
  JDIMENSION end_row = 0;     // where the data ended, in iMCU rows
  bool corrupt = false;       // invalid codes, or data that a scan left unread; decoding continued
  Region window{};            // the part to read; always within the image
  std::uint8_t* pixels = nullptr;    // the output, [H, W, 3] of the window
  std::uint8_t* cmyk_row = nullptr;  // [W, 4], if the output color space is CMYK

  ~JpegReader();
};

template <typename Info>
JpegReader& reader_of(const Info* info) {
  return *static_cast<JpegReader*>(info->client_data);
}

[[noreturn]] void on_error(j_common_ptr info) {
  JpegReader& reader = reader_of(info);
  reader.error_code = info->err->msg_code;
  info->err->format_message(info, reader.message);
  std::longjmp(reader.jump, 1);
}

// True if the current scan is the first one with luminance, which brings the rows. Later scans add
// color or detail.
bool scan_brings_rows(const jpeg_decompress_struct& info) {
  const auto is_luminance = [](const auto* component) { return component->component_index == 0; };
  return info.Ss == 0 && info.Ah == 0 &&
         std::any_of(info.cur_comp_info, info.cur_comp_info + info.comps_in_scan, is_luminance);
}

// True if the `count` bytes that libjpeg just passed over are data: damage within a scan can end it
// early without an invalid code. Some encoders pad a scan with zeros.
bool is_unread_data(const JpegReader& reader, int count) {
  if (reader.info.input_scan_number == 0 || count <= kMaxUnread) return false;
  if (reader.source_ended) return true;
  const JOCTET* end = reader.source.next_input_byte;
  return count - std::count(end - count, end, JOCTET{0}) > kMaxUnread;
}

void on_message(j_common_ptr common, int level) {
  if (level >= 0) return;
  JpegReader& reader = reader_of(common);
  const jpeg_decompress_struct& info = reader.info;
  const int code = common->err->msg_code;
  ++common->err->num_warnings;
  if (code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC ||
      (code == JWRN_EXTRANEOUS_DATA && is_unread_data(reader, common->err->msg_parm.i[0])))
    reader.corrupt = true;
  if (code != JWRN_HIT_MARKER) return;
  if (info.unread_marker != JPEG_EOI) {
    reader.corrupt = true;
  } else if (!reader.lacks_pixels) {
    reader.lacks_pixels = true;
    reader.lacks_rows = scan_brings_rows(info);
    reader.end_row = info.input_iMCU_row;
  }
}

void source_start(j_decompress_ptr) {}

boolean source_fill(j_decompress_ptr info) {
  reader_of(info).source_ended = true;
  info->src->next_input_byte = kEndOfImage;
  info->src->bytes_in_buffer = sizeof kEndOfImage;
  return TRUE;
}

void source_skip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<std::size_t>(count) > info->src->bytes_in_buffer) {
    source_fill(info);
    return;
  }
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<std::size_t>(count);
}

long long scan_pixels(const jpeg_decompress_struct& info) {
  return static_cast<long long>(info.input_scan_number) * info.image_width * info.image_height;
}

bool has_too_many_scans(const JpegReader& reader) {
  return reader.info.input_scan_number > kMaxScans ||
         scan_pixels(reader.info) > reader.scan_pixels_left;
}

void on_progress(j_common_ptr common) {
  JpegReader& reader = reader_of(common);
  if (!has_too_many_scans(reader)) return;
  std::snprintf(reader.message, sizeof reader.message, "too many scans");
  std::longjmp(reader.jump, 1);
}

// Returns false and sets reader.message on an error.
bool read_header(JpegReader& reader, std::string_view bytes) {
  reader.info.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = on_error;
  reader.errors.emit_message = on_message;
  reader.info.client_data = &reader;
  if (setjmp(reader.jump) != 0) return false;
  jpeg_create_decompress(&reader.info);
  reader.source.init_source = source_start;
  reader.source.fill_input_buffer = source_fill;
  reader.source.skip_input_data = source_skip;
  reader.source.resync_to_restart = jpeg_resync_to_restart;
  reader.source.term_source = source_start;
  reader.source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  reader.source.bytes_in_buffer = bytes.size();
  reader.info.src = &reader.source;
  reader.progress.progress_monitor = on_progress;
  reader.info.progress = &reader.progress;
  jpeg_read_header(&reader.info, TRUE);
  return true;
}

JDIMENSION window_end(const JpegReader& reader) {
  return static_cast<JDIMENSION>(reader.window.top + reader.window.size.height);
}

void read_rgb_rows(JpegReader& reader) {
  const std::size_t stride = std::size_t{reader.info.output_width} * 3;
  const JDIMENSION end = window_end(reader);
  JSAMPROW rows[16];
  std::uint8_t* out = reader.pixels;
  while (reader.info.output_scanline < end) {
    const JDIMENSION count = std::min<JDIMENSION>(16, end - reader.info.output_scanline);
    for (JDIMENSION i = 0; i < count; ++i) rows[i] = out + i * stride;
    out += jpeg_read_scanlines(&reader.info, rows, count) * stride;
  }
}

// The four channels are stored inverted, as Adobe writes them and Pillow assumes.
void read_cmyk_rows(JpegReader& reader) {
  std::uint8_t* out = reader.pixels;
  while (reader.info.output_scanline < window_end(reader)) {
    JSAMPROW row = reader.cmyk_row;
    if (jpeg_read_scanlines(&reader.info, &row, 1) != 1) continue;
    for (JDIMENSION x = 0; x < reader.info.output_width; ++x, row += 4, out += 3) {
      const std::uint8_t inks[4] = {
          static_cast<std::uint8_t>(255 - row[0]), static_cast<std::uint8_t>(255 - row[1]),
          static_cast<std::uint8_t>(255 - row[2]), static_cast<std::uint8_t>(255 - row[3])};
      cmyk_to_rgb(inks, out);
    }
  }
}

bool start(JpegReader& reader) {
  if (setjmp(reader.jump) != 0) return false;
  jpeg_start_decompress(&reader.info);
  return true;
}

// Limits decoding to the columns of the window, which is widened to begin at an iMCU. Call it after
// start().
bool narrow(JpegReader& reader) {
  if (setjmp(reader.jump) != 0) return false;
  auto left = static_cast<JDIMENSION>(reader.window.left);
  auto width = static_cast<JDIMENSION>(reader.window.size.width);
  jpeg_crop_scanline(&reader.info, &left, &width);
  reader.window.left = static_cast<int>(left);
  reader.window.size.width = static_cast<int>(width);
  return true;
}

bool read_pixels(JpegReader& reader) {
  if (setjmp(reader.jump) != 0) return false;
  if (reader.window.top > 0)
    jpeg_skip_scanlines(&reader.info, static_cast<JDIMENSION>(reader.window.top));
  if (reader.cmyk_row != nullptr) {
    read_cmyk_rows(reader);
  } else {
    read_rgb_rows(reader);
  }
  return true;
}

// Reads on from the last row to the end of the image, where unread data shows.
void read_end(JpegReader& reader) {
  if (setjmp(reader.jump) != 0) {
    reader.corrupt = true;
    return;
  }
  while (!jpeg_input_complete(&reader.info)) jpeg_consume_input(&reader.info);
}

// True if the scans so far contain every bit of the coefficients. If a progressive file ends
// between two scans, this tells whether anything is missing.
bool all_bits_sent(const jpeg_decompress_struct& info) {
  if (info.coef_bits == nullptr) return info.input_scan_number >= 1;
  for (int component = 0; component < info.num_components; ++component) {
    for (int k = 0; k < DCTSIZE2; ++k) {
      if (info.coef_bits[component][k] != 0) return false;
    }
  }
  return true;
}

// Returns a description of the damage; empty if there is none. Missing rows become gray. Throws
// ImageFault if more than half of them are missing.
std::string damage_of(const JpegReader& reader, ImagePart& image) {
  const jpeg_decompress_struct& info = reader.info;
  if (reader.lacks_rows) {
    const int mcu_rows = info.max_v_samp_factor * DCTSIZE;
    const int good = std::min(static_cast<int>(reader.end_row) * mcu_rows, image.whole.height);
    const int missing = image.whole.height - good;
    std::string text = "JPEG data ends early: " + std::to_string(missing) + " of " +
                       std::to_string(image.whole.height) + " rows missing";
    if (missing > image.whole.height / 2) throw ImageFault(text);
    const std::size_t stride = static_cast<std::size_t>(image.whole.width) * 3;
    std::memset(image.pixels.data() + static_cast<std::size_t>(good) * stride, kMissing,
                static_cast<std::size_t>(missing) * stride);
    return text;
  }
  if (reader.lacks_pixels || (reader.source_ended && !all_bits_sent(info)))
    return "JPEG data ends early: color or detail is missing after scan " +
           std::to_string(info.input_scan_number);
  if (reader.corrupt) return "JPEG data is corrupt in places";
  return {};
}

// Throws the error of a failed call. `in_header`: it read the header, which includes the frame and
// all tables of the first scan.
[[noreturn]] void fail(const JpegReader& reader, bool in_header) {
  if (reader.error_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  if (in_header && reader.source_ended) throw ImageFault("JPEG data ends within the header");
  throw ImageFault("broken JPEG: " + std::string(reader.message));
}

JpegReader::~JpegReader() {
  scan_pixels_left -= scan_pixels(info);
  jpeg_destroy_decompress(&info);
}

// Reads the header and rejects what cannot be decoded.
ImageSize open_image(JpegReader& reader, std::string_view bytes) {
  if (!read_header(reader, bytes)) fail(reader, true);
  const ImageSize size = checked_size(reader.info.image_width, reader.info.image_height);
  const auto pixels = std::uint64_t{reader.info.image_width} * reader.info.image_height;
  if (reader.info.arith_code == 0) require_bytes(bytes.size(), pixels / kMaxPixelsAByte, "JPEG");
  const int components = reader.info.num_components;
  if (components != 1 && components != 3 && components != 4)
    throw ImageFault("a JPEG with " + std::to_string(components) + " channels is not supported");
  reader.info.out_color_space = components == 4 ? JCS_CMYK : JCS_RGB;
  return size;
}

bool read_window(JpegReader& reader, ImagePart& part) {
  const auto width = static_cast<std::size_t>(reader.window.size.width);
  std::vector<std::uint8_t> cmyk_row(reader.info.out_color_space == JCS_CMYK ? width * 4 : 0);
  if (!cmyk_row.empty()) reader.cmyk_row = cmyk_row.data();
  part.region = reader.window;
  const std::size_t bytes = width * 3 * static_cast<std::size_t>(reader.window.size.height);
  const std::size_t whole_bytes =
      std::size_t{reader.info.image_width} * std::size_t{reader.info.image_height} * 3;
  part.reserve(std::max(bytes, std::min(whole_bytes, kWholeImageBytes)));
  reader.pixels = part.pixels.data();
  return read_pixels(reader);
}

// Returns the region in the reduced image, rounded outward.
Region reduced(const Region& region, int reduction) {
  const int top = region.top / reduction, left = region.left / reduction;
  const auto length = [&](int begin, int count) {
    return (begin + count + reduction - 1) / reduction - begin / reduction;
  };
  return {
      top, left, {length(region.top, region.size.height), length(region.left, region.size.width)}};
}

// Returns the region to decode so that the pixels of `wanted` equal those of the whole image:
// chroma upsampling uses neighbors up to two pixels away.
Region widened(const Region& wanted, ImageSize whole) {
  const int left = std::max(0, wanted.left - 2);
  const int right = std::min(whole.width, wanted.left + wanted.size.width + 2);
  return {wanted.top, left, {wanted.size.height, right - left}};
}

enum class Outcome {
  kDone,
  kNeedsWhole,   // unusual data: pixels and damage are known only after a full decode
  kCutInMarker,  // the data ends in a marker between scans; may be retried without it
};

Outcome try_decode(std::string_view bytes, const ChoosePart& choose, ImagePart& part,
                   long long& scan_pixels_left) {
  JpegReader reader{.scan_pixels_left = scan_pixels_left};
  part.whole = open_image(reader, bytes);
  const Region whole = {0, 0, part.whole};
  const WantedPart wanted = choose(part.whole);
  part.reduction = 1;
  reader.window = whole;
  const std::string_view rest = bytes.substr(bytes.size() - reader.source.bytes_in_buffer);
  if (rest.rfind("\xff\xd9") != std::string_view::npos) {  // it holds its end
    // See decode_part().
    part.reduction = wanted.shrinks_by >= 16 ? 4 : wanted.shrinks_by >= 6 ? 2 : 1;
    reader.window =
        widened(reduced(wanted.region, part.reduction), reduced(whole, part.reduction).size);
  }
  reader.info.scale_denom = static_cast<unsigned>(part.reduction);
  const bool is_whole = reader.window == whole;
  bool good = start(reader);
  // The decoder smooths missing detail using neighboring blocks, which a part may lack.
  if (!is_whole && good && !all_bits_sent(reader.info)) return Outcome::kNeedsWhole;
  good = good && (is_whole || narrow(reader)) && read_window(reader, part);
  if (!good && has_too_many_scans(reader)) fail(reader, false);
  if (!is_whole) {
    part.damage.clear();
    return good && reader.errors.num_warnings == 0 ? Outcome::kDone : Outcome::kNeedsWhole;
  }
  if (!good) {
    if (reader.source_ended && reader.info.input_scan_number > 0) return Outcome::kCutInMarker;
    fail(reader, false);
  }
  read_end(reader);
  part.damage = damage_of(reader, part);
  return Outcome::kDone;
}

// The last position at which a marker between scans may begin, or npos.
std::size_t last_marker(std::string_view bytes) {
  for (std::size_t at = bytes.size() < 2 ? 0 : bytes.size() - 1; at-- > 2;) {
    if (bytes[at] != '\xff') continue;
    const auto code = static_cast<std::uint8_t>(bytes[at + 1]);
    if (code == 0xc4 || code == 0xcc || code == 0xfe || (code >= 0xda && code <= 0xdd) ||
        (code >= 0xe0 && code <= 0xef)) {
      return at;
    }
  }
  return std::string_view::npos;
}

// Where the next marker begins, at `from` or after bytes that belong to no segment, which are
// passed over as libjpeg does; bytes.size() if there is none.
std::size_t next_marker(std::string_view bytes, std::size_t from) {
  std::size_t at = bytes.find('\xff', from);
  while (at < bytes.size() && at + 1 < bytes.size() &&
         (bytes[at + 1] == '\0' || bytes[at + 1] == '\xff'))
    at = bytes.find('\xff', at + 1);
  return std::min(at, bytes.size());
}

// Our own images can always be encoded, so a codec error is a bug.
[[noreturn]] void fail_to_encode(j_common_ptr) {
  throw InternalError("libjpeg refused to encode");
}

}  // namespace

void decode_jpeg(std::string_view bytes, const ChoosePart& choose, ImagePart& part) {
  bytes = without_zero_tail(bytes);  // valid codes of plausible pixels
  long long scan_pixels_left = kMaxScanPixels;
  Outcome outcome = try_decode(bytes, choose, part, scan_pixels_left);
  constexpr int kAttempts = 4;
  for (int attempt = 0; attempt < kAttempts && outcome != Outcome::kDone; ++attempt) {
    if (outcome == Outcome::kCutInMarker) {
      const std::size_t end = last_marker(bytes);
      if (end == std::string_view::npos) break;
      bytes = bytes.substr(0, end);
    }
    outcome = try_decode(bytes, choose_whole, part, scan_pixels_left);
  }
  if (outcome != Outcome::kDone) throw ImageFault("JPEG data ends within a table");
}

void visit_jpeg_segments(std::string_view bytes,
                         const std::function<bool(std::uint8_t, std::size_t)>& visit) {
  for (std::size_t at = next_marker(bytes, 2); at + 4 <= bytes.size();) {
    const auto marker = static_cast<std::uint8_t>(bytes[at + 1]);
    const bool has_length = marker != 0x01 && (marker < 0xd0 || marker > 0xd8);
    if (has_length && !visit(marker, at)) return;
    const std::size_t length =
        has_length ? std::max<std::size_t>(2, from_big(bytes, at + 2, 2)) : 0;
    at = next_marker(bytes, at + 2 + length);
  }
}

// The size is read from the first frame header (ITU-T T.81, B.2.2) without libjpeg.
ImageSize read_jpeg_size(std::string_view bytes) {
  std::optional<ImageSize> size;
  visit_jpeg_segments(bytes, [&](std::uint8_t marker, std::size_t at) {
    constexpr std::uint8_t kStartOfScan = 0xda;
    if (marker == JPEG_EOI || marker == kStartOfScan)
      throw ImageFault("broken JPEG: no frame header");
    const bool is_frame =
        marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (is_frame && at + 9 <= bytes.size())
      size = checked_size(from_big(bytes, at + 7, 2), from_big(bytes, at + 5, 2));
    return !is_frame;
  });
  if (!size) fail_in_header("JPEG");
  return *size;
}

}  // namespace codec

std::string encode_jpeg(const Image& image, int quality) {
  jpeg_error_mgr errors{};
  jpeg_compress_struct encoder{};
  encoder.err = jpeg_std_error(&errors);
  errors.error_exit = codec::fail_to_encode;
  jpeg_create_compress(&encoder);
  unsigned char* buffer = nullptr;
  unsigned long num_bytes = 0;  // NOLINT: the type of libjpeg
  jpeg_mem_dest(&encoder, &buffer, &num_bytes);
  encoder.image_width = static_cast<JDIMENSION>(image.size.width);
  encoder.image_height = static_cast<JDIMENSION>(image.size.height);
  encoder.input_components = 3;
  encoder.in_color_space = JCS_RGB;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, quality, TRUE);
  jpeg_start_compress(&encoder, TRUE);
  while (encoder.next_scanline < encoder.image_height) {
    const std::size_t offset = std::size_t{encoder.next_scanline} * encoder.image_width * 3;
    auto* row = const_cast<JSAMPLE*>(image.pixels.data() + offset);  // libjpeg only reads it
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  std::string bytes(reinterpret_cast<const char*>(buffer), num_bytes);
  jpeg_destroy_compress(&encoder);
  std::free(buffer);
  return bytes;
}

}  // namespace kiln
