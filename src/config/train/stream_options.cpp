// The options of `kiln train` for images that come in a stream, and for ranks that each have their
// own images.
#include <algorithm>
#include <string>

#include "config/binder.h"
#include "config/option_rows.h"

namespace kiln {

std::vector<TrainOption> stream_options() {
  return {
      {Effect::kResult, integer("steps-per-epoch", "", 1, 1000 * kMillion, "steps", kTraining,
                                "Optimizer steps per epoch of a stream, whose length is unknown; "
                                "an epoch ends earlier if its stream does.")},
      {Effect::kResult, integer("shuffle-buffer", "1000", 1, kMillion, "images", kImages,
                                "Size of a stream's shuffle buffer in images, with 1 MiB each on "
                                "average at most. 1: no shuffling.")},
      {Effect::kResult,
       yes_or_no("channel-per-rank", ValueKind::kSwitch, "False", kRanks,
                 "Each rank of a host has its own training images: rank 0 those at "
                 "--train-data-path with _0 appended, rank 1 with _1 and so on, or with the number "
                 "in place of {rank}. Files or streams; implies --shard-by train.")},
  };
}

void bind_stream(Binder& binder, DataConfig& config) {
  config.stream = {.steps_per_epoch = binder.integer("steps-per-epoch"),
                   .shuffle_buffer = binder.small_integer("shuffle-buffer"),
                   .by_record = binder.choice("shard-by") == "record",
                   .by_host = binder.choice("shard-by") == "host"};
  if (!binder.boolean("channel-per-rank") || config.train_path.empty()) return;
  if (config.train_path == "-")
    return binder.fault("channel-per-rank", ErrorCode::kParameterParsing,
                        "--channel-per-rank needs a path for each rank, but --train-data-path is "
                        "'-', and standard input is one stream: give named pipes or files.");
  config.has_train_shard = true;
  if (config.train_path.find(DataConfig::kRankPlace) != std::string::npos) return;
  const std::size_t epoch = config.train_path.rfind("_{epoch}");
  config.train_path.insert(std::min(epoch, config.train_path.size()),
                           std::string("_") + DataConfig::kRankPlace);
}

}  // namespace kiln
