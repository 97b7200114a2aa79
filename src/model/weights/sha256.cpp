#include "model/weights/sha256.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <system_error>
#include <vector>

#include "base/files.h"

namespace kiln {
namespace {

struct OpenFile {
  explicit OpenFile(const std::filesystem::path& path)
      : descriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~OpenFile() {
    if (descriptor >= 0) ::close(descriptor);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor;
};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    if (context_ == nullptr || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1)
      throw std::bad_alloc();
  }

  void add(std::string_view bytes) {
    if (EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1) throw std::bad_alloc();
  }

  std::string digits() {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
    unsigned size = 0;
    if (EVP_DigestFinal_ex(context_.get(), hash.data(), &size) != 1) throw std::bad_alloc();
    std::string text;
    for (unsigned i = 0; i < size; ++i) {
      text += kDigits[hash.at(i) >> 4];
      text += kDigits[hash.at(i) & 15];
    }
    return text;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

[[noreturn]] void fail_to_read(const std::filesystem::path& path, int error) {
  throw std::system_error(error, std::generic_category(), quoted_path(path));
}

}  // namespace

std::string sha256_of(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.digits();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  const OpenFile file(path);
  struct stat info {};
  if (file.descriptor < 0 || ::fstat(file.descriptor, &info) != 0) fail_to_read(path, errno);
  if (!S_ISREG(info.st_mode)) fail_to_read(path, S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
  Sha256 hash;
  std::vector<char> buffer(std::size_t{1} << 20);
  while (true) {
    const ssize_t got = ::read(file.descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to_read(path, errno);
    if (got == 0) return hash.digits();
    hash.add({buffer.data(), static_cast<std::size_t>(got)});
  }
}

}  // namespace kiln
