// Decodes HEIC with the libheif of the system (1.12 or newer), which is opened when the first such
// photo comes: Kiln brings none, since its decoder implements patents and its encoder is under the
// GPL. What is used of it is declared here, as in its heif.h. Alpha is dropped, and more than 8
// bits become 8. The photo is turned, mirrored and cropped by its own properties, which its EXIF
// orientation repeats. The size is read without libheif, which wants the whole file.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "data/image/codec.h"

namespace kiln::codec {
namespace {

// ---- libheif ----

constexpr int kHevc = 1;                    // heif_compression_HEVC
constexpr int kRgb = 1, kInterleaved = 10;  // heif_colorspace, heif_chroma and _channel
constexpr int kEndOfData = 100;             // heif_suberror_End_of_data
constexpr std::size_t kMostZeros = 64;      // that the last item may end in
constexpr int kLeastLimit = 4096;           // of a side: a tile may exceed its photo

struct Failure {
  int code, detail;
  const char* message;
};
struct Options {  // how heif_decoding_options begins
  std::uint8_t version, ignores_transformations;
  void* callbacks[4];
  std::uint8_t to_8_bits, is_strict;  // the latter from version 3 on
};
struct Context;
struct Handle;
struct Picture;

struct Symbol {
  void* address;
  template <typename Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address);
  }
};

class Libheif {
  void* library_ = ::dlopen("libheif.so.1", RTLD_NOW | RTLD_LOCAL);

  Symbol find(const char* name) {
    void* address = fault.empty() ? ::dlsym(library_, name) : nullptr;
    if (address == nullptr && fault.empty()) fault = ::dlerror();
    return {address};
  }

 public:
  std::string fault = library_ == nullptr ? ::dlerror() : "";  // why it cannot be used, or empty
  Context* (*new_context)() = find("heif_context_alloc");
  void (*free_context)(Context*) = find("heif_context_free");
  void (*limit_sides)(Context*, int) = find("heif_context_set_maximum_image_size_limit");
  Failure (*read)(Context*, const void*, std::size_t,
                  const void* options) = find("heif_context_read_from_memory_without_copy");
  Failure (*find_primary)(Context*, Handle**) = find("heif_context_get_primary_image_handle");
  void (*free_handle)(const Handle*) = find("heif_image_handle_release");
  Options* (*new_options)() = find("heif_decoding_options_alloc");
  Failure (*decode)(const Handle*, Picture**, int colorspace, int chroma,
                    const Options*) = find("heif_decode_image");
  int (*width_of)(const Picture*, int channel) = find("heif_image_get_width");
  int (*height_of)(const Picture*, int channel) = find("heif_image_get_height");
  const std::uint8_t* (*pixels_of)(const Picture*, int channel,
                                   int* stride) = find("heif_image_get_plane_readonly");
  void (*free_picture)(const Picture*) = find("heif_image_release");
  int (*can_decode)(int compression) = find("heif_have_decoder_for_format");
  void (*set_threads)(Context*, int) = nullptr;  // not before 1.13
  Options* options = nullptr;

  Libheif() {
    if (!fault.empty()) return;
    set_threads = Symbol{::dlsym(library_, "heif_context_set_max_decoding_threads")};
    options = new_options();
    if (options->version >= 3) options->is_strict = 1;  // else missing tiles are black
    free_context(new_context());                        // which loads the plug-ins
    if (can_decode(kHevc) == 0) fault = "libheif has no decoder for HEVC";
  }
};

const Libheif& libheif() {
  static Libheif library;
  return library;
}

void check(const Failure& failure) {
  if (failure.code == 0) return;
  if (failure.detail == kEndOfData) throw ImageFault("HEIC data ends early");
  throw ImageFault("broken HEIC: " + printable(trimmed(failure.message)));
}

// ---- the size ----

// Big-endian integers, one after the other.
struct Fields {
  std::string_view rest;

  std::uint64_t take(std::size_t count) {
    if (rest.size() < count) fail_in_header("HEIC");
    const std::uint64_t value = from_big(rest, 0, count);
    rest.remove_prefix(count);
    return value;
  }
  std::uint64_t take_fraction() {
    const std::uint64_t above = take(4), below = take(4);
    return (above + below / 2) / std::max<std::uint64_t>(below, 1);  // rounds as libheif
  }
};

// ISO/IEC 14496-12, 4.2. The content of the last box may be cut off.
struct Box {
  std::string_view type, content;
};

Box take_box(std::string_view& bytes) {
  Fields fields{bytes};
  std::uint64_t size = fields.take(4);
  fields.take(4);
  const std::string_view type = bytes.substr(4, 4);
  if (size == 1) size = fields.take(8);
  const std::size_t header = bytes.size() - fields.rest.size();
  if (size == 0) size = bytes.size();
  if (size < header) throw ImageFault("broken HEIC: a box is shorter than its header");
  const std::string_view box = bytes.substr(0, size);
  bytes.remove_prefix(box.size());
  return {type, box.substr(header)};
}

std::string_view find_box(std::string_view bytes, std::string_view type) {
  Box box;
  do box = take_box(bytes);
  while (box.type != type);
  return box.content;
}

}  // namespace

const std::string& heic_fault() {
  return libheif().fault;
}

ImageSize read_heic_size(std::string_view bytes) {
  Fields meta{find_box(bytes, "meta")};
  meta.take(4);  // version and flags
  Fields primary{find_box(meta.rest, "pitm")};
  const std::uint64_t id = primary.take(primary.take(4) >> 24 == 0 ? 2 : 4);
  const std::string_view properties = find_box(meta.rest, "iprp");
  std::vector<Box> all;
  for (std::string_view rest = find_box(properties, "ipco"); !rest.empty();)
    all.push_back(take_box(rest));
  std::uint64_t width = 0, height = 0;
  // ISO/IEC 23008-12, 6.5.
  const auto apply = [&](const Box& property) {
    Fields fields{property.content};
    if (property.type == "ispe") {
      fields.take(4);
      width = fields.take(4);
      height = fields.take(4);
    } else if (property.type == "clap") {
      width = fields.take_fraction();
      height = fields.take_fraction();
    } else if (property.type == "irot" && fields.take(1) % 2 == 1) {
      std::swap(width, height);
    }
  };
  Fields used{find_box(properties, "ipma")};
  const std::uint64_t head = used.take(4);
  const bool is_wide = head % 2 == 1;
  for (std::uint64_t items = used.take(4); items > 0; --items) {
    const bool is_primary = used.take(head >> 24 == 0 ? 2 : 4) == id;
    for (std::uint64_t count = used.take(1); count > 0; --count) {
      // The highest bit says whether a reader must know the property.
      const std::uint64_t place = is_wide ? used.take(2) & 0x7fff : used.take(1) & 0x7f;
      if (is_primary && place > 0 && place <= all.size()) apply(all[place - 1]);
    }
  }
  return checked_size(width, height);
}

void decode_heic(std::string_view bytes, ImagePart& part) {
  const ImageSize size = read_heic_size(bytes);
  const Libheif& heif = libheif();
  const std::unique_ptr<Context, void (*)(Context*)> context(heif.new_context(), heif.free_context);
  bytes = bytes.substr(0, without_zero_tail(bytes).size() + kMostZeros);
  check(heif.read(context.get(), bytes.data(), bytes.size(), nullptr));
  // What is put together from tiles has its size there, too.
  heif.limit_sides(context.get(), std::max({size.width + 1, size.height + 1, kLeastLimit}));
  if (heif.set_threads != nullptr) heif.set_threads(context.get(), 0);  // the caller has its own
  Handle* found = nullptr;
  check(heif.find_primary(context.get(), &found));
  const std::unique_ptr<Handle, void (*)(const Handle*)> handle(found, heif.free_handle);
  Picture* decoded = nullptr;
  check(heif.decode(found, &decoded, kRgb, kInterleaved, heif.options));
  const std::unique_ptr<Picture, void (*)(const Picture*)> picture(decoded, heif.free_picture);
  if (heif.width_of(decoded, kInterleaved) != size.width ||
      heif.height_of(decoded, kInterleaved) != size.height)
    throw ImageFault("broken HEIC: its picture has another size than its header says");
  int stride = 0;
  const std::uint8_t* from = heif.pixels_of(decoded, kInterleaved, &stride);
  const auto pixels = begin_whole(size, part);
  for (int row = 0; row < size.height; ++row)
    std::memcpy(&pixels[size.place_of(row, 0)], from + std::ptrdiff_t{row} * stride,
                size.place_of(0, size.width));
}

}  // namespace kiln::codec
