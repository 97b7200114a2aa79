// Commands that write images: `kiln convert`, `kiln pack` and `kiln demo-data`.
#include "config/binder.h"
#include "config/option_rows.h"

namespace kiln {
namespace {

Command bind_convert(Binder& binder) {
  ConvertConfig config{binder.path("input-path"), binder.path("output-path")};
  require_apart(binder, "output-path", config.output_path, "input-path", config.input_path);
  return config;
}

std::vector<Option> pack_options() {
  const std::string group = "Shards";
  return {
      required_path("input-path", "DIR", "Labelled images, in any form that train reads."),
      required_path("output-path", "DIR", "An empty folder for the shards."),
      integer("shard-mb", "256", 1, 1 << 20, "MiB", group, "A shard ends before it is larger."),
      integer("short-side", "auto", 16, 4096, "pixels", group,
              "Images with a longer short side are reduced to it and stored as JPEG. auto: all are "
              "stored as they are."),
      integer("quality", "92", 1, 100, "", group, "Of the JPEG that reduced images become."),
      yes_or_no("shuffle", ValueKind::kSwitch, "False", group, "Store them in a random order."),
      yes_or_no("even-shards", ValueKind::kSwitch, "False", group,
                "Every shard gets as many images as the others, and its share of each class."),
      seed(group, "Fixes the order of --shuffle.")};
}

Command bind_pack(Binder& binder) {
  PackConfig config{binder.path("input-path"), binder.path("output-path")};
  config.shard_mb = binder.small_integer("shard-mb");
  config.short_side = binder.small_integer("short-side");
  config.quality = binder.small_integer("quality");
  config.shuffle = binder.boolean("shuffle");
  config.even_shards = binder.boolean("even-shards");
  config.random_seed = binder.integer("random-seed");
  require_apart(binder, "output-path", config.output_path, "input-path", config.input_path);
  return config;
}

std::vector<Option> demo_data_options() {
  return {required_path("output-path", "DIR", "Where the folders train and val are written."),
          integer("images", "600", 2, kMillion, "images", kDrawing,
                  "Images to draw, training and validation together."),
          integer("classes", "3", 1, 10, "classes", kDrawing, "Kinds of shapes."),
          integer("size", "32", 8, 2048, "pixels", kDrawing, "Height and width of an image."),
          seed(kDrawing, "Fixes what is drawn.")};
}

Command bind_demo_data(Binder& binder) {
  DemoDataConfig config;
  config.output_path = binder.path("output-path");
  config.images = binder.small_integer("images");
  config.classes = binder.small_integer("classes");
  config.size = binder.small_integer("size");
  config.random_seed = binder.integer("random-seed");
  if (config.images > 0 && config.images < 2 * config.classes) {
    binder.fault("images", ErrorCode::kNotInRangeValue,
                 "--images is " + std::to_string(config.images) + ", but " +
                     std::to_string(config.classes) + " classes need at least " +
                     std::to_string(2 * config.classes) +
                     ": one of each for training and for validation.");
  }
  return config;
}

}  // namespace

CommandInfo convert_command() {
  return {
      "convert",
      "Turn an image folder, class folders, a COCO folder or an archive into an ImageDirectory.",
      "--input-path DIR --output-path DIR",
      {required_path("input-path", "DIR", "Images, class folders, a COCO folder or an archive."),
       required_path("output-path", "DIR", "Where the ImageDirectory is written.")},
      bind_convert};
}

CommandInfo pack_command() {
  return {"pack",
          "Write labelled images as tar shards (WebDataset) that train without being unpacked.",
          "--input-path DIR --output-path DIR [options]", pack_options(), bind_pack};
}

CommandInfo demo_data_command() {
  return {"demo-data", "Draw labelled images of coloured shapes to try things with.",
          "--output-path DIR [options]", demo_data_options(), bind_demo_data};
}

}  // namespace kiln
