// The records of a run's epochs, from a path: "-" (standard input), a named pipe, or one for each
// epoch, whose number `{epoch}` in the path stands for.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/record_options.h"
#include "data/stream/byte_stream.h"
#include "data/stream/record_stream.h"

namespace kiln {

// Whether images at this path come as a stream.
bool is_stream_path(const std::string& path);

// That of an epoch, counted from 0 in each process: a platform that starts the program again counts
// anew.
std::string stream_path(const std::string& path, int epoch);

// Why reading it failed (a StreamFault, an ArchiveFault or a RecordFault), as Error
// kInvalidDataset. `name` is the stream's: "Training dataset '-'".
Error error_of_stream(const std::string& name, const std::exception& fault);

// One thread.
class StreamSource {
 public:
  // `watch` must outlive it.
  StreamSource(std::string path, RecordOptions options, StreamWatch& watch)
      : path_(std::move(path)), options_(std::move(options)), watch_(watch) {}

  // Epochs go on where the one before ended, unless each has its own stream. Returns whether this
  // one begins in the middle of a stream.
  bool begin_epoch(int number);

  // False at the end. Throws as RecordStream::next().
  bool next(StreamRecord& record);

  // A named pipe that has ended is opened again, for its next writer; false for others.
  bool reopen();

 private:
  const std::string path_;
  const RecordOptions options_;
  StreamWatch& watch_;
  std::unique_ptr<ByteStream> bytes_;
  std::unique_ptr<RecordStream> records_;
  bool ended_ = false;
};

}  // namespace kiln
