#include "data/image/unread_kind.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "base/text.h"
#include "data/image/codec.h"

namespace kiln {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::size_t kEnough = 1024;  // bytes to tell what a file is

bool is_video(std::string_view bytes) {
  return (bytes.starts_with("RIFF"sv) && bytes.substr(0, 12).ends_with("AVI "sv)) ||
         (bytes.size() >= 12 && bytes.substr(4, 4) == "ftyp"sv);
}

bool is_svg(std::string_view bytes) {
  return bytes.starts_with("<?xml"sv) && bytes.find("<svg"sv) != std::string_view::npos;
}

struct Row {
  UnreadKind kind;
  std::string_view extensions;                         // each between spaces
  std::array<std::string_view, 2> starts = {};         // of the files; unused ones are empty
  bool (*is_other)(std::string_view bytes) = nullptr;  // what begins otherwise
  std::array<std::string_view, 8> brands = {};         // of an ISO media file
  std::array<std::string_view, 2> not_with = {};       // brands of another row

  bool matches(std::string_view bytes) const {
    const auto begins = [&](auto start) { return !start.empty() && bytes.starts_with(start); };
    return std::ranges::any_of(starts, begins) || (is_other != nullptr && is_other(bytes)) ||
           (has_brand(bytes, brands) && !has_brand(bytes, not_with));
  }

  // ISO/IEC 14496-12, 4.3: the major brand, then the compatible ones.
  static bool has_brand(std::string_view bytes, std::span<const std::string_view> brands) {
    if (bytes.size() < 12 || bytes.substr(4, 4) != "ftyp"sv) return false;
    const std::size_t length =
        static_cast<unsigned char>(bytes[2]) * 256U + static_cast<unsigned char>(bytes[3]);
    const std::string_view box = bytes.substr(0, length);
    for (std::size_t at = 8; at + 4 <= box.size(); at += 4)
      if (std::ranges::count(brands, box.substr(at, 4)) > 0) return true;
    return false;
  }
};

// The first row that matches is used.
constexpr Row kRows[] = {
    {{"a HEIC photo", "HEIC photos",
      "install libheif, with apt: `libheif1`, since Debian 13 and Ubuntu 24.04 also "
      "`libheif-plugin-libde265`, with dnf: `libheif` and RPM Fusion's `libheif-freeworld`; or "
      "convert a folder: `for f in *.[Hh][Ee][Ii][CcFf]; do heif-convert \"$f\" \"${f%.*}.jpg\"; "
      "done`; or set the camera to JPEG"},
     " heic heif hif heics ",
     {},
     nullptr,
     {"heic"sv, "heix"sv, "heim"sv, "heis"sv, "hevc"sv, "hevx"sv, "mif1"sv, "msf1"sv},
     {"avif"sv, "avis"sv}},
    {{"an AVIF image", "AVIF images", "convert with `avifdec`"},
     " avif avifs ",
     {},
     nullptr,
     {"avif"sv, "avis"sv}},
    {{"a GIF image", "GIF images", "convert to PNG, for example with `magick`"},
     " gif ",
     {"GIF8"sv}},
    {{"a camera's RAW file", "RAW files of a camera",
      "develop to JPEG, for example with `darktable-cli`"},
     " cr2 cr3 crw nef nrw arw srf sr2 dng raf orf rw2 pef srw x3f raw 3fr iiq kdc dcr mrw erf ",
     {"FUJIFILMCCD-RAW"sv},
     nullptr,
     {"crx "sv}},
    {{"a JPEG XL image", "JPEG XL images", "convert with `djxl`"},
     " jxl ",
     {"\xff\x0a"sv, "\0\0\0\x0cJXL "sv}},
    {{"a JPEG 2000 image", "JPEG 2000 images", "convert to PNG, for example with `magick`"},
     " jp2 j2k jpf jpx ",
     {"\0\0\0\x0cjP  "sv, "\xff\x4f\xff\x51"sv}},
    {{"a Photoshop file", "Photoshop files", "export as PNG"}, " psd psb ", {"8BPS"sv}},
    {{"an SVG drawing", "SVG drawings", "convert with `rsvg-convert`"},
     " svg svgz ",
     {"<svg"sv},
     is_svg},
    {{"a PDF", "PDF files", "convert with `pdftoppm -png`"}, " pdf ", {"%PDF"sv}},
    {{"a video", "videos", "take images from it with `ffmpeg`"},
     " mp4 m4v mov avi mkv webm wmv mpg mpeg 3gp mts m2ts flv ",
     {"\x1a\x45\xdf\xa3"sv, "\0\0\1\xba"sv},
     is_video},
};

bool is_text(std::string_view bytes) {
  constexpr std::string_view kSpaces = "\t\n\r\f";
  return is_utf8(cut_to_bytes(bytes, 1000)) && std::ranges::none_of(bytes, [&](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return byte == 0x7f || (byte < 0x20 && kSpaces.find(c) == std::string_view::npos);
         });
}

// A noun with its article; empty if the bytes show nothing.
std::string_view other_kind(std::string_view bytes) {
  if (bytes.starts_with("PK\x03\x04"sv)) return "a zip archive or an office document";
  if (bytes.starts_with("\x1f\x8b"sv)) return "a file compressed by gzip";
  if (bytes.starts_with("\x7f"
                        "ELF"sv))
    return "a program";
  if (!is_text(bytes)) return {};
  const std::string start = in_small_letters(bytes.substr(0, 512));
  if (start.starts_with("version https://git-lfs"))
    return "a Git LFS pointer instead of the file (run `git lfs pull`)";
  if (start.find("<html") != start.npos || start.find("<!doctype html") != start.npos)
    return "HTML, such as a web server's error page";
  if (start.starts_with("<?xml")) return "XML";
  return "text";
}

}  // namespace

const UnreadKind* unread_kind_of_name(std::string_view file_name) {
  const std::size_t dot = file_name.rfind('.');
  if (dot == std::string_view::npos) return nullptr;
  const std::string wanted = " " + in_small_letters(file_name.substr(dot + 1)) + " ";
  const auto* row = std::ranges::find_if(kRows, [&](const Row& candidate) {
    return candidate.extensions.find(wanted) != std::string_view::npos;
  });
  return row == std::end(kRows) ? nullptr : &row->kind;
}

const UnreadKind* unread_kind_of_bytes(std::string_view bytes) {
  bytes = bytes.substr(0, kEnough);
  const auto* row =
      std::ranges::find_if(kRows, [&](const Row& candidate) { return candidate.matches(bytes); });
  return row == std::end(kRows) ? nullptr : &row->kind;
}

bool is_heic(std::string_view bytes) {
  return kRows[0].matches(bytes.substr(0, kEnough));
}

std::string unread_clause(std::string_view noun, const UnreadKind& kind) {
  const bool is_explained = &kind == &kRows[0].kind && !codec::heic_fault().empty();
  return std::string(noun) + ", which Kiln does not read (" +
         (is_explained ? codec::heic_fault() + ": " : "") + std::string(kind.advice) + ")";
}

std::string fault_of_unread(std::string_view bytes) {
  if (bytes.empty()) return "not an image: the file is empty";
  if (const UnreadKind* kind = unread_kind_of_bytes(bytes)) return unread_clause(kind->one, *kind);
  const std::string_view other = other_kind(bytes.substr(0, kEnough));
  return other.empty() ? "not an image of a known format"
                       : "not an image: it is " + std::string(other);
}

}  // namespace kiln
