#include "data/write/shard_format.h"

#include "data/archive/archive.h"

namespace kiln {
namespace {

class TarShards final : public ShardFormat {
 public:
  std::string_view extension() const override { return ".tar"; }

  std::string record(const ShardImage& image) const override {
    const std::string key(image.key);
    return tar_member(key + "." + std::string(image.extension), image.bytes) +
           tar_member(key + ".cls", std::to_string(image.label));
  }

  // With headers and padding, of the image and of its class.
  std::uint64_t record_bytes(std::uint64_t num_bytes) const override {
    return 512 + (num_bytes + 511) / 512 * 512 + 1024;
  }

  std::string end() const override { return tar_end(); }
};

}  // namespace

const ShardFormat& tar_shards() {
  static const TarShards kTar;
  return kTar;
}

}  // namespace kiln
