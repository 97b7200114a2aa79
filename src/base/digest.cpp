#include "base/digest.h"

#include <openssl/evp.h>

#include <array>
#include <new>

#include "base/text.h"

namespace kiln {

Digest::Digest(Algorithm algorithm) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  const EVP_MD* method = algorithm == kMd5 ? EVP_md5() : EVP_sha256();
  if (context_ == nullptr || EVP_DigestInit_ex(context_.get(), method, nullptr) != 1)
    throw std::bad_alloc();
}

void Digest::add(std::string_view bytes) {
  if (EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1) throw std::bad_alloc();
}

std::string Digest::bytes() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  if (EVP_DigestFinal_ex(context_.get(), hash.data(), &size) != 1) throw std::bad_alloc();
  return {hash.begin(), hash.begin() + size};
}

std::string hex_text(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += formatted("%02x", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace kiln
