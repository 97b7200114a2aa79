// A stream of labeled images that is read once, to its end, and kept: for validation, which looks
// at the same images in every epoch.
#pragma once

#include <cstdint>
#include <string>

#include "base/record_options.h"
#include "data/dataset/dataset.h"
#include "data/stream/stream_silence.h"

namespace kiln {

struct KeptStreamPlan {
  std::string path;  // is_stream_path(); of streams for epochs, the first one
  std::string name;  // in errors: "Validation dataset"
  RecordOptions records = {};
  std::uint64_t most_in_memory = 0;  // bytes of images; more are in a file without a name
  StreamSilence::Limits silence = {};
  StreamSilence::Warn warn;
};

// Its images in order, with their sizes, in an open archive; the record of a bad one becomes an
// image that cannot be decoded, and a note. Classes are the lines of --classes, or else the labels
// that come: names in order, or all numbers up to the highest.
//
// Throws Error kInvalidDataset: the stream is damaged, silent for too long, without images, or has
// a label that is none of --classes; kNotLabeledDataset: an image without label; kUserError: there
// is no room for what memory does not hold.
Dataset keep_stream(const KeptStreamPlan& plan);

}  // namespace kiln
