// The images of a stream, one after another, in whichever format it has: tars, TFRecord, or
// RecordIO.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "data/dataset/found_labels.h"
#include "data/dataset/folder_entries.h"
#include "data/stream/byte_stream.h"
#include "record/vocabulary.h"

namespace kiln {

struct StreamRecord {
  std::string name;
  std::string bytes = {};  // the image file's contents
  RawLabel label = {};
  std::string fault = {};  // why the image cannot be used; empty: no known fault
};

// Use from one thread.
class RecordStream {
 public:
  virtual ~RecordStream() = default;
  // Reads the next record; false at the end. Throws StreamFault, ArchiveFault; StreamClosed.
  virtual bool next(StreamRecord& record) = 0;
  // An epoch begins, whose images may be those of the epoch before.
  virtual void begin_epoch() {}
};

// Detects the format from the first bytes. `bytes` and `left_out`, which gets what else the stream
// holds, must outlive the result. Throws the same. `options` are for TFRecord and RecordIO, which
// holds images with MXNet's header, or those of SageMaker's augmented manifests: an image, then its
// label.
//
// Tars may follow one another. The class of an image is in its label file (found_labels.h), if the
// stream has any, otherwise it is the image's folder, which lies beside that of the first image;
// images elsewhere are left out as in an archive. The files of a key must follow each other.
std::unique_ptr<RecordStream> open_records(ByteStream& bytes, const RecordOptions& options,
                                           LeftOut& left_out);

// The records of a run's epochs come from a path: "-" (standard input), a named pipe, or a path
// with
// `{epoch}`, which stands for the epoch's number, so that each epoch has its own stream.

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
  const LeftOut& left_out() const { return left_out_; }

  // Reopens a named pipe that has ended, for its next writer; returns false for anything else.
  bool reopen();

 private:
  const std::string path_;
  const RecordOptions options_;
  StreamWatch& watch_;
  std::unique_ptr<ByteStream> bytes_;
  LeftOut left_out_;
  std::unique_ptr<RecordStream> records_;
  bool ended_ = false;
};

}  // namespace kiln
