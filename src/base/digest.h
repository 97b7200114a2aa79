// Hashes that others publish, to identify files by or to show that one is whole. For hashes of our
// own see content_hash.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace kiln {

class Digest {
 public:
  enum Algorithm { kMd5, kSha256 };  // RFC 1321; FIPS 180-4
  explicit Digest(Algorithm algorithm);
  void add(std::string_view bytes);
  std::string bytes();  // at the end, once: 16 or 32

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

// As hexadecimal digits in lowercase.
std::string hex_text(std::string_view bytes);

}  // namespace kiln
