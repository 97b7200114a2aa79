// `kiln score --resume`: what determines the rows of a job, and whether a job can continue the rows
// that a killed one left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/content_hash.h"
#include "base/log.h"
#include "cli/run_config.h"
#include "data/dataset/image_source.h"
#include "parallel/device/device.h"
#include "predict/predictor.h"
#include "report/scores/score_file.h"
#include "report/scores/score_formats.h"

namespace kiln {

// A hash over the names and true labels of images, in order.
class NamesHash {
 public:
  void add(const Dataset& set, const TrueLabels& labels, std::size_t image);
  std::uint64_t value() const { return hash_.value(); }

 private:
  ContentHash hash_{0};
};

// The NamesHash of `count` images of --files-from, or otherwise of `set`, from image `first` on;
// empty if there are fewer.
std::optional<std::uint64_t> names_of_rows(std::int64_t first, std::int64_t count,
                                           const ScoreConfig& config, const Dataset& set,
                                           const TrueLabels& labels);

// Call it after the number of compute threads is set. `precision` is the one in use, after auto has
// been resolved.
ScoreSettings score_settings(const ScoreConfig& config, const Predictor& predictor,
                             const Device& device, Precision precision,
                             const ScoreColumns& columns);

// Why the rows of this job could not be continued by another one, as a clause; empty if they could.
// `list` is that of --files-from, or nullptr.
std::string why_in_one_go(const ScoreConfig& config, const ScoreFormat& format,
                          const FileList* list);

// What existing rows must match for this job to continue them.
struct ScoreResume {
  const ScoreSettings& settings;
  std::string in_one_go;  // why_in_one_go()
  std::function<std::optional<std::uint64_t>(std::int64_t count)> names_of_first;
};

// Where this job continues; empty if it starts over. Logs one line about what was done before, or
// why it is repeated.
std::optional<ScoreProgress> find_rows(ScoreFile& file, const ScoreResume& resume, Log& log);

}  // namespace kiln
