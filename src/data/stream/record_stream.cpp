#include "data/stream/record_stream.h"

#include "base/text.h"
#include "data/archive/tar.h"

namespace kiln {

std::unique_ptr<RecordStream> open_records(ByteStream& bytes, const RecordOptions& options) {
  const std::string first(bytes.peek(kTarBlock));
  if (first.empty()) throw StreamFault("ends before its first byte");
  if (first.starts_with("\x1f\x8b") || first.starts_with("BZh") ||
      first.starts_with("\x28\xb5\x2f\xfd") ||
      ((first[0] & 0xf0) == 0x50 && first.substr(1, 3) == "\x2a\x4d\x18"))
    throw StreamFault(
        "is compressed: decompress it on the fly, such as `gzip -dc FILE | kiln train …`");
  if (first.size() == kTarBlock && (is_zero(first) || has_good_tar_checksum(first)))
    return open_tar_records(bytes);
  if (std::unique_ptr<RecordStream> records = open_framed_records(bytes, options)) return records;
  throw StreamFault("begins with '" + printable(first.substr(0, 16)) +
                    "', and is neither tar, TFRecord nor RecordIO");
}

}  // namespace kiln
