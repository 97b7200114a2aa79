// The records of a run's epochs, from a path: "-" (standard input), a named pipe, or a path with
// `{epoch}`, which stands for the epoch's number, so that each epoch has its own stream.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "data/stream/byte_stream.h"
#include "data/stream/record_stream.h"
#include "record/vocabulary.h"

namespace kiln {

// Whether images at this path arrive as a stream.
bool is_stream_path(const std::string& path);

// The path for an epoch, counted from 0 in each process: if a platform restarts the program,
// counting starts over.
std::string stream_path(const std::string& path, int epoch);

// Converts a failure to read the stream (a StreamFault, an ArchiveFault or a RecordFault) to Error
// kInvalidDataset. `name` is the name of the stream: "Training dataset '-'".
Error error_of_stream(const std::string& name, const std::exception& fault);

// Use from one thread.
class StreamSource {
 public:
  // `watch` must outlive this object.
  StreamSource(std::string path, RecordOptions options, StreamWatch& watch)
      : path_(std::move(path)), options_(std::move(options)), watch_(watch) {}

  // Starts the epoch with this number. It continues where the previous one ended, unless each epoch
  // has its own stream. Returns whether it starts in the middle of a stream.
  bool begin_epoch(int number);

  // Reads the next record; false at the end. Throws as RecordStream::next() does.
  bool next(StreamRecord& record);

  // What all streams so far held beside their images.
  LeftOut left_out() const;

  // Reopens a named pipe that has ended, for its next writer; returns false for anything else.
  bool reopen();

 private:
  const std::string path_;
  const RecordOptions options_;
  StreamWatch& watch_;
  std::unique_ptr<ByteStream> bytes_;
  std::unique_ptr<RecordStream> records_;
  bool ended_ = false;
  LeftOut left_out_;  // of the streams before this one
};

}  // namespace kiln
