// The framing of record files, one a target: KILN_FUZZ_FORMAT. Whatever a record holds is parsed.
#include <algorithm>

#include "data/archive/record_reader.h"
#include "fuzz/fuzz.h"
#include "fuzz/record_checksums.h"

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

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr RecordFormat kFormat = RecordFormat::KILN_FUZZ_FORMAT;
  std::string bytes = fuzz::text_of(data, size);
  if (kFormat == RecordFormat::kTfRecord)
    bytes = fuzz::with_record_checksums(std::move(bytes), /*all_data=*/false);
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
