// The images of a stream, whatever form its first bytes have: tars, TFRecord or RecordIO. The same
// bytes give the same records however few of them come at once, and a tar those that a file of it
// has.
#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <utility>
#include <vector>

#include "base/tfrecord.h"
#include "data/archive/archive.h"
#include "data/archive/record_reader.h"
#include "data/dataset/listing.h"
#include "data/stream/record_stream.h"
#include "fuzz/fuzz.h"
#include "fuzz/record_checksums.h"

namespace {

using namespace kiln;

constexpr std::size_t kChecksumAt = 148, kMagicAt = 257;

// What a stream gave before it ended.
struct Outcome {
  std::vector<StreamRecord> records;
  std::string fault;  // empty: it came to its end
};

// Tars whose headers have the checksums that no fuzzer would find.
std::string with_tar_checksums(std::string bytes) {
  for (std::size_t at = 0; at + kTarBlock <= bytes.size(); at += kTarBlock) {
    if (bytes.compare(at + kMagicAt, 5, "ustar") != 0) continue;
    std::uint64_t sum = 8 * ' ';
    for (std::size_t i = 0; i < kTarBlock; ++i)
      if (i < kChecksumAt || i >= kChecksumAt + 8) sum += static_cast<unsigned char>(bytes[at + i]);
    for (std::size_t digit = 7; digit-- > 0; sum /= 8)
      bytes[at + kChecksumAt + digit] = static_cast<char>('0' + sum % 8);
    bytes[at + kChecksumAt + 7] = ' ';
  }
  return bytes;
}

// A pipe that gives out one write at a time (O_DIRECT): few bytes, and more each time.
class PipeOfPieces {
 public:
  explicit PipeOfPieces(std::string_view bytes) {
    int ends[2];
    fuzz::require(::pipe2(ends, O_DIRECT) == 0);
    reader_ = ends[0];
    fuzz::require(::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) > 0);  // room for 256 writes
    for (std::size_t size = 1; !bytes.empty(); ++size) {
      const std::string_view piece = bytes.substr(0, size);
      fuzz::require(::write(ends[1], piece.data(), piece.size()) ==
                    static_cast<ssize_t>(piece.size()));
      bytes.remove_prefix(piece.size());
    }
    ::close(ends[1]);
  }
  ~PipeOfPieces() { ::close(reader_); }
  PipeOfPieces(const PipeOfPieces&) = delete;
  PipeOfPieces& operator=(const PipeOfPieces&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(reader_); }

 private:
  int reader_ = -1;
};

Outcome read_all(const std::string& path, std::size_t size) {
  StreamWatch watch;
  ByteStream bytes(path, watch);
  Outcome outcome;
  std::size_t sum = 0;
  try {
    LeftOut left_out;
    const std::unique_ptr<RecordStream> records = open_records(bytes, {}, left_out);
    for (StreamRecord record; records->next(record);) {
      sum += record.bytes.size();
      outcome.records.push_back(std::move(record));
    }
    fuzz::require(bytes.position() == size);
  } catch (const StreamFault& fault) {
    outcome.fault = fault.what();
  } catch (const ArchiveFault& fault) {
    outcome.fault = fault.what();
  } catch (const LabelFault& fault) {
    outcome.fault = fault.what();
  } catch (const RecordFault& fault) {
    outcome.fault = fault.what();
  }
  fuzz::require(sum <= size && bytes.position() <= size && watch.received <= size);
  return outcome;
}

void require_same(const Outcome& one, const Outcome& other) {
  fuzz::require(one.fault == other.fault && one.records.size() == other.records.size());
  for (std::size_t i = 0; i < one.records.size(); ++i) {
    const StreamRecord &a = one.records[i], &b = other.records[i];
    fuzz::require(a.name == b.name && a.bytes == b.bytes && a.label == b.label &&
                  a.fault == b.fault);
  }
}

// A file lists what the stream gave, where it is one tar; it may have more, such as images that are
// in no class folder.
void require_listed(const std::filesystem::path& path, const std::vector<StreamRecord>& records) {
  const OpenFile file(path);
  std::vector<std::pair<std::string, std::string>> images;  // names and bytes
  bool has_others = false;  // label files and links have rules of their own
  const auto read_image = [&](std::string_view name, const ArchiveMember& member) {
    if (has_part_that_is_never_data(name)) return;
    has_others = has_others || is_label_file(name);
    if (!has_image_extension(name)) return;
    std::string bytes = file.bytes_at(member.offset, member.size);
    fuzz::require(bytes.size() == member.size);
    images.emplace_back(name, std::move(bytes));
  };
  const auto see_link = [&](const ArchiveLink&) { has_others = true; };
  if (!fuzz::accepts<ArchiveFault>([&] { list_tar(file, read_image, see_link); })) return;
  if (has_others) return;
  auto image = images.begin();
  for (const StreamRecord& record : records) {
    image = std::find(image, images.end(), std::pair(record.name, record.bytes));
    fuzz::require(image != images.end());
    ++image;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes = with_tar_checksums(fuzz::text_of(data, size));
  const bool is_tar = begins_as_tar(bytes);
  if (!is_tar && !bytes.starts_with(little_endian(kRecordIoMagic, 4)))
    bytes = fuzz::with_record_checksums(std::move(bytes), /*all_data=*/true);
  const std::filesystem::path file = fuzz::put("stream", bytes);
  const Outcome at_once = read_all(file.string(), size);
  require_same(at_once, read_all(PipeOfPieces(bytes).path(), size));
  if (is_tar && at_once.fault.empty()) require_listed(file, at_once.records);
  return 0;
}
