// Reads the images of a stream one after another, in whichever format it has: tars, TFRecord, or
// RecordIO.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/dataset/found_labels.h"
#include "data/dataset/left_out.h"
#include "data/stream/byte_stream.h"
#include "record/vocabulary.h"

namespace kiln {

struct StreamRecord {
  std::string name;
  std::string bytes;  // the image file's contents
  RawLabel label;
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
  // What the stream held beside its images, so far.
  virtual const LeftOut& left_out() const {
    static const LeftOut kNothing;
    return kNothing;
  }
};

// Detects the format from the first bytes. `bytes` must outlive the result. Throws the same.
// `options` are for TFRecord and RecordIO (data/records), which holds images with MXNet's header,
// or those of SageMaker's augmented manifests: an image, then its label.
std::unique_ptr<RecordStream> open_records(ByteStream& bytes, const RecordOptions& options);

// Reads one or more concatenated tars. The class of an image is in its label file
// (data/dataset/found_labels.h), if the stream has any, otherwise it is the image's folder, which
// lies beside that of the first image; images elsewhere are left out as in an archive. The files of
// a key must follow each other.
std::unique_ptr<RecordStream> open_tar_records(ByteStream& bytes);

}  // namespace kiln
