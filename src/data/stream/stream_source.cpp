#include "data/stream/stream_source.h"

#include <filesystem>
#include <system_error>
#include <utility>

namespace kiln {
namespace {

constexpr std::string_view kEpoch = "{epoch}";

}  // namespace

bool is_stream_path(const std::string& path) {
  std::error_code absent;
  return path == "-" || path.find(kEpoch) != std::string::npos ||
         std::filesystem::is_fifo(path, absent);
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
    left_out_ = left_out();
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
  if (!records_) records_ = open_records(*bytes_, options_);
  if (records_->next(record)) {
    ++watch_.images;
    return true;
  }
  ended_ = true;
  return false;
}

LeftOut StreamSource::left_out() const {
  LeftOut all = left_out_;
  if (records_) all.add_all(records_->left_out(), "");
  return all;
}

bool StreamSource::reopen() {
  if (!ended_ || !bytes_->is_pipe()) return false;
  left_out_ = left_out();
  records_.reset();
  bytes_->reopen();
  ended_ = false;
  return true;
}

}  // namespace kiln
