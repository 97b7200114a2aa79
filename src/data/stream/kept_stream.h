// Reads a stream of labeled images once, to its end, and keeps it: for validation, which uses the
// same images in every epoch.
#pragma once

#include <cstdint>
#include <string>

#include "base/record_options.h"
#include "data/dataset/dataset.h"
#include "data/stream/stream_silence.h"

namespace kiln {

struct KeptStreamPlan {
  std::string path;  // is_stream_path(); if there is a stream per epoch, the first one
  std::string name;  // in errors: "Validation dataset"
  RecordOptions records = {};
  std::uint64_t most_in_memory = 0;  // bytes of images; beyond that they go to an unnamed file
  StreamSilence::Limits silence = {};
  StreamSilence::Warn warn;
};

// The images in order, with their sizes, in an open archive. The record of a bad image becomes an
// image that cannot be decoded, and a note. Classes are the lines of --classes, or else the labels
// in the stream: names in order, or all numbers up to the highest.
//
// Throws Error kInvalidDataset if the stream is damaged, silent for too long, has no images, or has
// a label that is not in --classes; kNotLabeledDataset for an image without a label; kUserError if
// there is no space for images that do not fit into memory.
Dataset keep_stream(const KeptStreamPlan& plan);

}  // namespace kiln
