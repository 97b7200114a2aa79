// Files that are no images for Kiln, as HEIC photos are none without libheif: which kind they are,
// by name or by their first bytes, and what to do. Nothing of a file's contents is ever quoted.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

struct UnreadKind {
  std::string_view one, many;  // "a HEIC photo", "HEIC photos"
  std::string_view advice;     // what to do: "convert with `avifdec`"
};

// By the extension, case-insensitive: photos and videos in formats that Kiln does not read. nullptr
// for any other file.
const UnreadKind* unread_kind_of_name(std::string_view file_name);
// The same by a file's first bytes.
const UnreadKind* unread_kind_of_bytes(std::string_view bytes);
// Whether they are a HEIC photo's, decodable or not.
bool is_heic(std::string_view bytes);

// "HEIC photos, which Kiln does not read (libheif.so.1: cannot open …: install …)"; `noun`: one or
// many of that kind.
std::string unread_clause(std::string_view noun, const UnreadKind& kind);

// What the beginning of a file shows it to be, for a file that no codec recognizes: "not an image:
// the file is empty", "a HEIC photo, which Kiln does not read; …", "not an image: it is text", "not
// an image of a known format".
std::string fault_of_unread(std::string_view bytes);

}  // namespace kiln
