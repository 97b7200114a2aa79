// Which of SageMaker's input modes suits a dataset as it is stored.
#pragma once

#include <cstdint>
#include <string>

#include "data/dataset/dataset.h"

namespace kiln {

// What a job would have to fetch.
struct StoredFiles {
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  bool in_place = false;    // few large files that are read by offset: uncompressed shards, records
  bool compressed = false;  // archives or record files, some of them compressed
};

// Sizes are read in parallel; files that cannot be read count as empty.
StoredFiles stored_files(const Dataset& set);

struct InputMode {
  std::string name;  // "File", "FastFile", "Pipe"
  std::string reason;
};

// By AWS's advice: copy up to 50 GB (File), read larger ones in place where their files have 50 MB
// and more (FastFile), pack smaller files first. What can only be read in order is a stream (Pipe).
InputMode fitting_mode(const StoredFiles& files);

}  // namespace kiln
