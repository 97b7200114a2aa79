// Which options a designer's canvas shows, and as what. The component has seven parameters; a form
// with more than 25 is no longer read, so the rest is for the file that --config names.
#include <string_view>

#include "base/error.h"
#include "config/option_kinds.h"

namespace kiln {
namespace {

struct Place {
  const char* command;
  Canvas canvas;
  std::vector<const char*> options;
};

const std::vector<Place>& places() {
  static const std::vector<Place> kPlaces = {
      {"train", Canvas::kModelIn, {"untrained-model-path"}},
      {"train", Canvas::kDataIn, {"train-data-path", "valid-data-path"}},
      {"train", Canvas::kModelOut, {"trained-model-path"}},
      {"train", Canvas::kFileIn, {"config"}},
      {"train", Canvas::kRanksOfHost, {"ranks"}},
      {"train", Canvas::kKubeflowRun, {"kfp-executor-input"}},
      {"train",
       Canvas::kParameter,
       {"epochs", "batch-size", "num-warmup-steps", "learning-rate", "random-seed", "patience",
        "print-freq"}},
      {"train",
       Canvas::kParameter,
       {"image-size", "augment", "normalization", "on-bad-image", "max-bad-images", "save",
        "lr-scaling", "accumulate", "sync-batch-norm"}},
      {"init-model", Canvas::kModelOut, {"untrained-model-path"}},
      {"init-model", Canvas::kFileIn, {"weights"}},
      {"init-model",
       Canvas::kParameter,
       {"model-name", "zero-init-residual", "memory-efficient", "random-seed"}},
      {"convert", Canvas::kDataIn, {"input-path"}},
      {"convert", Canvas::kDataOut, {"output-path"}},
      {"pack", Canvas::kDataIn, {"input-path"}},
      {"pack", Canvas::kDataOut, {"output-path"}},
      {"pack",
       Canvas::kParameter,
       {"shard-mb", "short-side", "quality", "shuffle", "balance", "random-seed"}},
  };
  return kPlaces;
}

Option& option_named(std::vector<CommandInfo>& commands, std::string_view command,
                     std::string_view name) {
  for (CommandInfo& info : commands)
    for (Option& option : info.options)
      if (info.name == command && option.name == name) return option;
  throw InternalError("place_on_canvas: no option '" + std::string(name) + "'");
}

}  // namespace

void place_on_canvas(std::vector<CommandInfo>& commands) {
  for (const Place& place : places())
    for (const char* name : place.options)
      option_named(commands, place.command, name).canvas = place.canvas;
}

}  // namespace kiln
