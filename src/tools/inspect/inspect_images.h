// What `kiln inspect` reports about a dataset, and how training would present its images.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/log.h"
#include "cli/run_config.h"

namespace kiln {

// The output of `kiln inspect` in order, printed as a table or as JSON.
using InspectReport = nlohmann::ordered_json;

// Adds its fields to the report, in order. Returns the number of images that --check found to be
// bad plus the number of pictures that also occur in --valid-data-path. Throws Error
// kInvalidDataset.
int inspect_images(const InspectConfig& config, Log& log, InspectReport& report);

// The files that a job would have to fetch.
struct StoredFiles {
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  bool in_place = false;    // files that are read by offset: uncompressed shards, records
  bool compressed = false;  // archives or record files, at least one of them compressed
};

// The SageMaker input mode that suits a dataset as it is stored.
struct InputMode {
  std::string name;  // "File", "FastFile", "Pipe"
  std::string reason;
};

// Follows AWS's advice: copy up to 50 GB (File); read larger datasets in place if their files have
// 50 MB or more (FastFile); pack smaller files first. Files that can only be read in order are
// streamed (Pipe).
InputMode fitting_mode(const StoredFiles& files);

// `kiln inspect --augment`: shows some images of a dataset as training would present them to a
// model. Writes the page that `config` asks for, logs where it is, and returns the exit status. The
// page has twelve images, evenly spaced over the list, six times each. Their size is
// `config.image_size`, or the one that training would choose for these twelve images alone. An
// image that cannot be decoded is replaced by the next one. Throws Error kInvalidDataset if none
// can be decoded.
int write_augment_sheet(const InspectConfig& config, Log& log);

}  // namespace kiln
