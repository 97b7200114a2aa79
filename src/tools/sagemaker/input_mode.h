// Chooses the SageMaker input mode that suits a dataset as it is stored.
#pragma once

#include <cstdint>
#include <string>

#include "data/dataset/dataset.h"

namespace kiln {

// The files that a job would have to fetch.
struct StoredFiles {
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  bool in_place = false;    // files that are read by offset: uncompressed shards, records
  bool compressed = false;  // archives or record files, at least one of them compressed
};

// Reads file sizes in parallel; files that cannot be read count as empty.
StoredFiles stored_files(const Dataset& set);

struct InputMode {
  std::string name;  // "File", "FastFile", "Pipe"
  std::string reason;
};

// Follows AWS's advice: copy up to 50 GB (File); read larger datasets in place if their files have
// 50 MB or more (FastFile); pack smaller files first. Files that can only be read in order are
// streamed (Pipe).
InputMode fitting_mode(const StoredFiles& files);

}  // namespace kiln
