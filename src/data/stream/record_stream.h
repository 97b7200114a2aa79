// The images of a stream, one after another, whatever form its bytes have: tars, TFRecord, or
// RecordIO.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/record_options.h"
#include "data/stream/byte_stream.h"

namespace kiln {

struct StreamRecord {
  std::string name;
  std::string bytes;       // of the image
  std::string label;       // a class's name, or its number; empty: none
  std::string fault = {};  // why the image cannot be used; empty: nothing is known against it
  int first_label = 0;     // the first class's, where `label` is a number
};

// One thread.
class RecordStream {
 public:
  virtual ~RecordStream() = default;
  // False at the end. Throws StreamFault, ArchiveFault; StreamClosed.
  virtual bool next(StreamRecord& record) = 0;
};

// Of the form that the first bytes have. They must outlive it. Throws the same. `options` are for
// TFRecord and RecordIO.
std::unique_ptr<RecordStream> open_records(ByteStream& bytes, const RecordOptions& options);

// A tar, or several behind one another. The class of an image is in the .cls file with its key
// (KEY.jpg, KEY.cls), which comes next to it; else it is the folder that the image is in.
std::unique_ptr<RecordStream> open_tar_records(ByteStream& bytes);

// TFRecord or RecordIO (data/records); nullptr for another form. RecordIO holds images with MXNet's
// header, or those of SageMaker's augmented manifests: an image, then its label.
std::unique_ptr<RecordStream> open_framed_records(ByteStream& bytes, const RecordOptions& options);

}  // namespace kiln
