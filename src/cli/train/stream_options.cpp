// The options of `kiln train` for images that come in a stream, and for ranks that each have their
// own images.
#include <algorithm>
#include <string>

#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {

std::vector<TrainOption> stream_options() {
  return {
      {Effect::kResult, integer("steps-per-epoch", "", 1, 1000 * kMillion, "steps", kTraining,
                                "Optimizer steps per epoch of a stream, whose length is unknown; "
                                "an epoch ends earlier if its stream does.")},
      {Effect::kResult, integer("shuffle-buffer", "1000", 1, kMillion, "images", kImages,
                                "Size of a stream's shuffle buffer in images, with 1 MiB each on "
                                "average at most. 1: no shuffling.")},
  };
}

void bind_stream(Binder& binder, DataConfig& config) {
  config.stream = {.steps_per_epoch = binder.integer("steps-per-epoch"),
                   .shuffle_buffer = binder.small_integer("shuffle-buffer"),
                   .by_record = binder.choice("shard-by") == "record",
                   .by_host = binder.choice("shard-by") == "host"};
  if (config.has_own_images()) config.has_train_shard = true;
}

}  // namespace kiln
