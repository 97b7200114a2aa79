#include "data/stream/record_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/content_hash.h"
#include "base/files.h"
#include "base/text.h"
#include "data/archive/archive.h"
#include "data/dataset/image_bytes.h"

namespace kiln {
namespace {

constexpr std::size_t kPortion = 256 << 10;
constexpr std::size_t kFirstReserve = 1 << 20;  // the most reserved before bytes have arrived
// The interval, in milliseconds, at which to check whether to close and whether a pipe exists yet.
constexpr int kLookMs = 50;

bool is_fifo(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 && S_ISFIFO(info.st_mode);
}

constexpr std::string_view kEpoch = "{epoch}";
constexpr std::size_t kMaxWaiting = 64, kMaxWaitingBytes = 64'000'000;
// The most zeros after an end mark, where tars are padded: /dev/zero must not be read forever.
constexpr std::uint64_t kMaxZeroBytes = 16 << 20;

// The names that a tar's memory of them has room for, at about 50 bytes each.
constexpr std::size_t kMaxNames = 1'000'000;

// Label files decide, by the rule of LabelFiles, as soon as one has come; before that, images have
// the label of their folder. An image leaves once its own label file is there, the others of its
// key when the key changes.
class TarRecords final : public RecordStream {
 public:
  TarRecords(ByteStream& bytes, LeftOut& left_out) : bytes_(bytes), left_out_(left_out) {}

  bool next(StreamRecord& record) override {
    while (complete_.empty() && read_entry()) {
    }
    if (complete_.empty()) return false;
    record = std::move(complete_.front());
    complete_.pop_front();
    return true;
  }

  void begin_epoch() override { contents_.clear(); }

 private:
  // Reads an entry or an end mark. False at the end of the stream.
  bool read_entry() {
    const std::uint64_t at = bytes_.position();
    std::string header;
    if (!bytes_.read(kTarBlock, header)) {
      if (!ended_) throw StreamFault("ends before the tar's end marker");
      finish_key();
      return !complete_.empty();
    }
    ended_ = is_zero(header);
    zero_bytes_ = ended_ ? zero_bytes_ + kTarBlock : 0;
    if (zero_bytes_ > kMaxZeroBytes) throw StreamFault("has sent 16 MiB of zeros and no image");
    if (ended_) {
      finish_key();
      key_.clear();
      contents_.clear();
      return true;
    }
    const TarEntry entry = headers_.read(header, at);
    if (entry.kind == TarKind::kExtra) {
      headers_.read_extra(entry, data_of(entry));
      return true;
    }
    const std::string name = headers_.read_name(entry, header);
    const bool is_data = !has_part_that_is_never_data(name);
    if (entry.kind == TarKind::kDevice && is_data) left_out_.add(LeftOut::Reason::kDevice, name);
    if (entry.kind == TarKind::kLink && is_data)
      throw StreamFault("contains the link '" + printable(name) +
                        "', which a stream cannot follow. Write the tar with the files that its "
                        "links lead to (tar --dereference --hard-dereference)");
    const bool is_file = entry.kind == TarKind::kFile && is_data && !name.ends_with('/');
    if (is_file && has_image_extension(name)) {
      if (std::string data = data_of(entry); is_new(name, data)) add_image(name, std::move(data));
    } else if (is_file && is_label_file(name)) {
      if (entry.size > 2 * kMaxLabelBytes) label_in(name, std::string(2 * kMaxLabelBytes, '-'));
      if (const std::string text = data_of(entry); is_new(name, text)) add_label(name, text);
    } else {
      if (is_file) left_out_.add_file(name);
      bytes_.skip(tar_padded(entry.size));
    }
    return true;
  }

  std::string data_of(const TarEntry& entry) {
    if (entry.size > kMaxImageBytes) throw StreamFault("holds a file that is larger than 1 GiB");
    std::string data = bytes_.take(entry.size);
    bytes_.skip(tar_padded(entry.size) - entry.size);
    return data;
  }

  // False if the tar has had a file of this name; its content must be the same.
  bool is_new(const std::string& name, const std::string& data) {
    const std::uint64_t content = content_hash(data);
    if (const auto found = contents_.find(fnv1a(name)); found != contents_.end()) {
      if (found->second != content)
        throw StreamFault("contains '" + printable(name) + "' twice, with two contents");
      left_out_.add(LeftOut::Reason::kRepeatedName, name);
      return false;
    }
    if (contents_.size() < kMaxNames) contents_.emplace(fnv1a(name), content);
    return true;
  }

  void enter_key_of(const std::string& name) {
    if (key_of(name) == key_) return;
    finish_key();
    key_ = key_of(name);
  }

  void add_image(const std::string& name, std::string data) {
    enter_key_of(name);
    images_.push_back({.name = name, .bytes = std::move(data)});
    waiting_bytes_ += images_.back().bytes.size();
    ++num_waiting_;
    release(images_.size() - 1);
    if (num_waiting_ <= kMaxWaiting && waiting_bytes_ <= kMaxWaitingBytes) return;
    if (has_labels_)
      throw StreamFault("has more than 64 images or 64 MB of the key '" + printable(key_) +
                        "' without a label file of their own: write each image and its label file "
                        "one after the other");
    finish_key();
  }

  void add_label(const std::string& name, const std::string& text) {
    if (num_by_folder_ > 0)
      throw StreamFault("has the label file '" + printable(name) + "' after " +
                        grouped(num_by_folder_) + (num_by_folder_ == 1 ? " image" : " images") +
                        " without one: write each image and its label file one after the "
                        "other");
    enter_key_of(name);
    labels_.add(name, text);
    has_labels_ = true;
    for (std::size_t i = 0; i < images_.size(); ++i)
      if (without_extension(images_[i].name) == without_extension(name)) release(i);
  }

  // Lets the image go if its own label file is there. The rest of its key needs its name.
  void release(std::size_t i) {
    const std::string* own = labels_.own_label(images_[i].name);
    if (own == nullptr || !images_[i].label.text.empty()) return;
    StreamRecord& image = images_[i];
    image.label.text = *own;
    complete_.push_back({image.name, std::exchange(image.bytes, {}), image.label});
    --num_waiting_;
    waiting_bytes_ -= complete_.back().bytes.size();
  }

  // Completes the images of a key after its last file.
  void finish_key() {
    const LabelFiles::Match match = labels_.match(
        list_from(images_, [](const StreamRecord& image) { return std::string_view(image.name); }));
    for (std::size_t i = 0; i < images_.size(); ++i) {
      StreamRecord& image = images_[i];
      if (!image.label.text.empty()) continue;  // released
      const int label = match.images[i];
      if (label == LabelFiles::kBesidePhotograph) {
        left_out_.add(LeftOut::Reason::kBesidePhotograph, image.name);
        continue;
      }
      if (label >= 0)
        image.label.text = labels_.labels()[label];
      else if (has_labels_)
        image.fault = "it has no label file, but others have";
      else if (const std::optional<LeftOut::Reason> outside = label_by_folder(image)) {
        left_out_.add(*outside, image.name);
        continue;
      }
      complete_.push_back(std::move(image));
    }
    for (const std::string& name : match.spare) left_out_.add(LeftOut::Reason::kSpareLabel, name);
    images_.clear();
    labels_ = {};
    num_waiting_ = waiting_bytes_ = 0;
  }

  // The class folders are those beside the first image's: a later image below one of them, or next
  // to them, is left out as in an archive. One elsewhere shows that they are not the classes.
  std::optional<LeftOut::Reason> label_by_folder(StreamRecord& image) {
    const std::string_view name = image.name;
    if (first_name_.empty()) {
      first_name_ = name;
      const std::string_view folder = name.substr(0, std::min(name.rfind('/'), name.size()));
      base_ = name.substr(0, folder.rfind('/') + 1);
    } else if (!name.starts_with(base_)) {
      throw StreamFault("has images in folders that are not beside each other: '" +
                        printable(first_name_) + "' and '" + printable(name) +
                        "'. Write only the class folders, one level deep");
    }
    const std::string_view inside = name.substr(base_.size());
    const std::size_t slash = inside.find('/');
    if (slash == inside.npos && num_by_folder_ > 0) return LeftOut::Reason::kRootImage;
    if (slash != inside.npos && inside.find('/', slash + 1) != inside.npos)
      return LeftOut::Reason::kDeepImage;
    if (slash != inside.npos) image.label.name = inside.substr(0, slash);
    ++num_by_folder_;
    return {};
  }

  ByteStream& bytes_;
  LeftOut& left_out_;
  TarHeaders headers_;
  bool ended_ = false;             // after the end mark of a tar
  std::uint64_t zero_bytes_ = 0;   // in a row, up to here
  bool has_labels_ = false;        // a label file has come
  long long num_by_folder_ = 0;    // images that have the label of their folder
  std::string first_name_, base_;  // of an image with the label of its folder; the folder above it
  std::unordered_map<std::uint64_t, std::uint64_t> contents_;  // hashes, by that of the name
  // Of the current key:
  std::string key_;
  std::vector<StreamRecord> images_;
  LabelFiles labels_;
  std::size_t num_waiting_ = 0, waiting_bytes_ = 0;
  std::deque<StreamRecord> complete_;
};

class FramedRecords final : public RecordStream {
 public:
  FramedRecords(ByteStream& bytes, RecordFormat format, const RecordKeys& keys, LeftOut& left_out)
      : format_(format), keys_(keys), left_out_(left_out), reader_(bytes, format) {}

  bool next(StreamRecord& image) override {
    while (true) {
      Record record;
      if (ahead_)
        record = *std::exchange(ahead_, std::nullopt);
      else if (!reader_.next(record))
        return false;
      image = StreamRecord{.name = "record " + std::to_string(++count_)};
      image.fault = record.fault;
      if (!record.fault.empty()) return true;
      if (format_ == RecordFormat::kRecordIo && is_bare_image(record.bytes)) {
        image.bytes = std::move(record.bytes);
        add_manifest_label(image);
        return true;
      }
      try {
        RecordContents parsed = image_record(record.bytes, format_, keys_);
        if (parsed.is_header) {
          left_out_.add_file(image.name + " (a header without an image)");
          continue;
        }
        if (!parsed.name.empty()) image.name = parsed.name;
        image.bytes = std::move(parsed.bytes);
        image.label.name = parsed.class_text;
        if (parsed.has_several_labels()) left_out_.add(LeftOut::Reason::kSeveralLabels, image.name);
        if (!parsed.labels.empty() && parsed.labels.front() >= 0) {
          image.label.text = std::to_string(parsed.labels.front());
          image.label.is_number = true;
        }
      } catch (const RecordFault& fault) {
        image.fault = fault.what();
      }
      return true;
    }
  }

 private:
  void add_manifest_label(StreamRecord& image) {
    Record label;
    if (!reader_.next(label)) return;
    if (is_bare_image(label.bytes)) {
      ahead_ = std::move(label);
      return;
    }
    image.fault = label.fault;
    if (!image.fault.empty()) return;
    try {
      image.label.text = manifest_label(label.bytes);
    } catch (const RecordFault& fault) {
      image.fault = fault.what();
    }
  }

  const RecordFormat format_;
  const RecordKeys keys_;
  LeftOut& left_out_;
  RecordReader reader_;
  std::optional<Record> ahead_;
  long long count_ = 0;
};

}  // namespace

ByteStream::ByteStream(std::string path, StreamWatch& watch)
    : path_(std::move(path)), watch_(watch) {
  watch_.state = WriterState::kAbsent;
  if (path_ != "-") return;
  // A pipe is opened again for non-blocking reads: another program may read from it too and take
  // the bytes that poll() has announced, and nothing could cancel a read that then blocks. The
  // flags of the original descriptor, which that program may share, do not change.
  if (is_fifo(STDIN_FILENO)) file_ = ::open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0) file_ = STDIN_FILENO;
  watch_.state = WriterState::kOpen;
}

ByteStream::~ByteStream() {
  if (file_ > STDIN_FILENO) ::close(file_);
}

// Without O_NONBLOCK, open() would wait for a writer, and nothing could cancel it.
void ByteStream::open() {
  if (file_ >= 0) return;
  while (file_ < 0) {
    if (watch_.closing) throw StreamClosed();
    file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file_ >= 0) break;
    if (errno != ENOENT && errno != EINTR)
      throw StreamFault(std::string("cannot be opened: ") + std::strerror(errno));
    if (watch_.while_waiting) watch_.while_waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
  }
  is_pipe_ = is_fifo(file_);
  watch_.state = is_pipe_ ? WriterState::kUnwritten : WriterState::kOpen;
}

void ByteStream::reopen() {
  const int before = std::exchange(file_, -1);
  position_ = 0;
  has_come_ = at_end_ = false;
  open();
  ::close(before);
}

// read() returns 0 both at the end of a pipe and before its first writer. So a pipe is at its end
// only if bytes have arrived before, or if POLLHUP says that a writer has come and gone.
bool ByteStream::fill() {
  if (at_end_) return false;
  open();
  buffer_.erase(0, std::exchange(begin_, 0));
  const std::size_t kept = buffer_.size();
  while (!watch_.closing) {
    pollfd waiting{.fd = file_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, kLookMs);
    if (ready == 0 && watch_.while_waiting) watch_.while_waiting();
    if (ready == 0 && !(is_pipe_ && has_come_)) continue;
    buffer_.resize(kept + kPortion);
    const ssize_t got = ::read(file_, buffer_.data() + kept, kPortion);
    const int error = errno;
    buffer_.resize(kept + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0) {
      watch_.state = WriterState::kOpen;
      watch_.received += static_cast<std::uint64_t>(got);
      return has_come_ = true;
    }
    if (got == 0 && (!is_pipe_ || has_come_ || (waiting.revents & POLLHUP) != 0)) {
      at_end_ = true;
      return false;
    }
    if (got < 0 && error != EAGAIN && error != EINTR)
      throw StreamFault(std::string("cannot be read: ") + std::strerror(error));
  }
  throw StreamClosed();
}

std::string_view ByteStream::peek(std::size_t size) {
  while (buffer_.size() - begin_ < size && fill()) {
  }
  return std::string_view(buffer_).substr(begin_, size);
}

void ByteStream::fail_cut_off() const {
  throw StreamFault(formatted("ends after %llu bytes, in the middle of a record",
                              static_cast<unsigned long long>(position_)));
}

std::string_view ByteStream::take_some(std::size_t size) {
  if (begin_ == buffer_.size() && !fill()) return {};
  const std::string_view taken = std::string_view(buffer_).substr(begin_, size);
  begin_ += taken.size();
  position_ += taken.size();
  return taken;
}

bool ByteStream::read(std::size_t size, std::string& target) {
  target.clear();
  while (target.size() < size) {
    const std::string_view taken = take_some(size - target.size());
    if (taken.empty() && target.empty()) return false;
    if (taken.empty()) fail_cut_off();
    if (target.capacity() < target.size() + taken.size())
      target.reserve(std::min(size, std::max(kFirstReserve, 2 * target.size())));
    target += taken;
  }
  return true;
}

std::string ByteStream::take(std::size_t size) {
  std::string bytes;
  if (size > 0 && !read(size, bytes)) fail_cut_off();
  return bytes;
}

void ByteStream::skip(std::uint64_t size) {
  while (size > 0) {
    const std::string_view taken = take_some(size);
    if (taken.empty()) fail_cut_off();
    size -= taken.size();
  }
}

std::unique_ptr<RecordStream> open_records(ByteStream& bytes, const RecordOptions& options,
                                           LeftOut& left_out) {
  const std::string first(bytes.peek(kTarBlock));
  if (first.empty()) throw StreamFault("ends before its first byte");
  if (is_compressed(first))
    throw StreamFault(
        "is compressed: decompress it on the fly, such as `gzip -dc FILE | kiln train …`");
  if (begins_as_tar(first)) return std::make_unique<TarRecords>(bytes, left_out);
  if (const std::optional<RecordFormat> format = record_format(first))
    return std::make_unique<FramedRecords>(bytes, *format, options.keys, left_out);
  throw StreamFault("begins with '" + printable(first.substr(0, 16)) +
                    "', and is neither tar, TFRecord nor RecordIO");
}

bool is_stream_path(const std::string& path) {
  return path == "-" || path.find(kEpoch) != std::string::npos ||
         type_at(path) == std::filesystem::file_type::fifo;
}

std::string stream_path(const std::string& path, int epoch) {
  std::string whole = path;
  for (std::size_t at = 0; (at = whole.find(kEpoch, at)) != std::string::npos;)
    whole.replace(at, kEpoch.size(), std::to_string(epoch));
  return whole;
}

Error error_of_stream(const std::string& name, const std::exception& fault) {
  const bool is_clause = dynamic_cast<const StreamFault*>(&fault) != nullptr;
  return Error(ErrorCode::kInvalidDataset,
               name + ": the stream " + (is_clause ? "" : "cannot be read: ") + fault.what() +
                   ". Check the program that writes it, and write it again from the start.");
}

bool StreamSource::begin_epoch(int number) {
  const std::string path = stream_path(path_, number);
  if (!bytes_ || path != path_) {
    records_.reset();
    bytes_ = std::make_unique<ByteStream>(path, watch_);
    ended_ = false;
    return false;
  }
  if (reopen()) return false;
  if (records_) records_->begin_epoch();
  return true;
}

bool StreamSource::next(StreamRecord& record) {
  if (ended_) return false;
  if (!records_) records_ = open_records(*bytes_, options_, left_out_);
  ended_ = !records_->next(record);
  if (!ended_) ++watch_.images;
  return !ended_;
}

bool StreamSource::reopen() {
  if (!ended_ || !bytes_->is_pipe()) return false;
  records_.reset();
  bytes_->reopen();
  ended_ = false;
  return true;
}

}  // namespace kiln
