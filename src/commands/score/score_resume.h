// `kiln score --resume`: what decides the rows of a job, and whether it continues those that a
// killed one left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/content_hash.h"
#include "base/log.h"
#include "config/run_config.h"
#include "data/dataset/image_source.h"
#include "parallel/device/device.h"
#include "predict/predictor.h"
#include "report/scores/score_file.h"
#include "report/scores/score_formats.h"

namespace kiln {

// Of names and true labels, image by image in their order.
class NamesHash {
 public:
  void add(const Dataset& set, const TrueLabels& labels, std::size_t image);
  std::uint64_t value() const { return hash_.value(); }

 private:
  ContentHash hash_{0};
};

// Of the first `count` images of --files-from, or else of `set`; nothing where there are fewer.
std::optional<std::uint64_t> names_of_first(std::int64_t count, const ScoreConfig& config,
                                            const Dataset& set, const TrueLabels& labels);

// After the compute threads are set. `precision` is what auto chose.
ScoreSettings score_settings(const ScoreConfig& config, const Predictor& predictor,
                             const Device& device, Precision precision,
                             const ScoreColumns& columns);

// Why no job can continue the rows of this one, a clause; empty: one can. `list`: of
// --files-from, or nullptr.
std::string why_in_one_go(const ScoreConfig& config, const ScoreFormat& format,
                          const FileList* list);

// What this job asks of the rows that it finds.
struct ScoreResume {
  const ScoreSettings& settings;
  std::string in_one_go;  // why_in_one_go()
  std::function<std::optional<std::uint64_t>(std::int64_t count)> names_of_first;
};

// From where this job continues; nothing: it starts over. Logs in a line what was done before, or
// why it is done again.
std::optional<ScoreProgress> find_rows(ScoreFile& file, const ScoreResume& resume, Log& log);

}  // namespace kiln
