// The framing of record files, one a target: KILN_FUZZ_FORMAT. Whatever a record holds is parsed.
#include <algorithm>

#include "base/crc32c.h"
#include "data/records/image_record.h"
#include "fuzz/fuzz.h"

namespace {

using namespace kiln;

// Gives out a few bytes at once, and more each time.
class FewBytes : public ByteSource {
 public:
  explicit FewBytes(std::string bytes) : bytes_(std::move(bytes)) {}
  std::size_t read(char* target, std::size_t size) override {
    const std::size_t count = std::min({size, bytes_.size() - at_, ++at_once_});
    bytes_.copy(target, count, at_);
    at_ += count;
    return count;
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0, at_once_ = 0;
};

// A TFRecord whose lengths have the checksums that no fuzzer would find, and some data too.
std::string with_checksums(std::string bytes) {
  std::size_t at = 0;
  while (bytes.size() - at > kTfRecordHeaderBytes) {
    const std::string_view length = std::string_view(bytes).substr(at, 8);
    std::uint64_t size = 0;
    for (std::size_t i = 0; i < 8; ++i)
      size |= static_cast<std::uint64_t>(static_cast<unsigned char>(length[i])) << 8 * i;
    bytes.replace(at + 8, 4, little_endian(masked_crc32c(crc32c(length)), 4));
    at += kTfRecordHeaderBytes;
    if (size > bytes.size() - at || bytes.size() - at - size < kTfRecordTrailerBytes) break;
    const std::string_view data = std::string_view(bytes).substr(at, size);
    if (size % 4 != 0) bytes.replace(at + size, 4, little_endian(masked_crc32c(crc32c(data)), 4));
    at += size + kTfRecordTrailerBytes;
  }
  return bytes;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr RecordFormat kFormat = RecordFormat::KILN_FUZZ_FORMAT;
  std::string bytes = fuzz::text_of(data, size);
  if (kFormat == RecordFormat::kTfRecord) bytes = with_checksums(std::move(bytes));
  FewBytes source(bytes);
  RecordReader reader(source, kFormat);
  fuzz::accepts<RecordFault>([&] {
    for (Record record; reader.next(record);) {
      fuzz::require(record.bytes.size() <= size && reader.offset() <= size);
      fuzz::require(!record.fault.empty() || record.bytes.size() == record.size);
      fuzz::accepts<RecordFault>([&] { image_record(record.bytes, kFormat); });
    }
    fuzz::require(reader.offset() == size);
  });
  return 0;
}
