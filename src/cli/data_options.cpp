// The options of the commands that write images: `kiln convert`, `kiln pack` and `kiln demo-data`.
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

Command bind_convert(Binder& binder) {
  ConvertConfig config{binder.path("input-path"), binder.path("output-path")};
  config.records = bind_records(binder);
  require_apart(binder, "output-path", config.output_path, "input-path", config.input_path);
  return config;
}

std::vector<Option> pack_options() {
  const std::string group = "Shards";
  return with_record_options(
      {positional_path(
           "input-path", "DIR",
           "Labeled images, in any format that train reads; the flag name may be omitted."),
       positional_path("output-path", "DIR",
                       "Empty folder for the shards; the flag name may be omitted."),
       choice("format", {"tar", "tfrecord", "recordio"}, group,
              "tar: WebDataset shards. tfrecord: tf.train.Example files with TensorFlow's feature "
              "names. recordio: MXNet image records, as read by SageMaker's image classification, "
              "each file with its .idx."),
       integer("shard-mb", "256", 1, 1 << 20, "MiB", group, "Maximum size of a shard."),
       integer("short-side", "auto", 16, 4096, "pixels", group,
               "Downscale images whose short side is longer to this length and store them as JPEG. "
               "auto: store every image unchanged."),
       exif(group, "For downscaled images, which are stored without it; others keep it."),
       integer("quality", "92", 1, 100, "", group, "JPEG quality of downscaled images."),
       yes_or_no("shuffle", ValueKind::kSwitch, "False", group,
                 "Store the images in random order."),
       yes_or_no("even-shards", ValueKind::kSwitch, "False", group,
                 "Give every shard the same number of images and the same mix of classes."),
       yes_or_no("balance-classes", ValueKind::kSwitch, "False", group,
                 "Duplicate images until every class has as many as the largest. For training data "
                 "only; train --sample balanced oversamples small classes without storing copies."),
       seed(group, "Seed for --shuffle, and for the images that --balance-classes duplicates.")});
}

Command bind_pack(Binder& binder) {
  PackConfig config;
  config.input_path = binder.path("input-path");
  config.output_path = binder.path("output-path");
  config.records = bind_records(binder);
  bind_exif(binder, config.records);
  const std::string format = binder.choice("format");
  config.format = format == "tfrecord"   ? ShardFormat::kTfRecord
                  : format == "recordio" ? ShardFormat::kRecordIo
                                         : ShardFormat::kTar;
  config.shard_mb = binder.small_integer("shard-mb");
  config.short_side = binder.small_integer("short-side");
  config.quality = binder.small_integer("quality");
  config.shuffle = binder.boolean("shuffle");
  config.even_shards = binder.boolean("even-shards");
  config.balance_classes = binder.boolean("balance-classes");
  config.random_seed = binder.integer("random-seed");
  require_apart(binder, "output-path", config.output_path, "input-path", config.input_path);
  return config;
}

std::vector<Option> demo_data_options() {
  return {
      positional_path("output-path", "DIR",
                      "Folder in which train and val are created; the flag name may be omitted."),
      integer("images", "600", 2, kMillion, "images", kDrawing,
              "Total number of training and validation images."),
      integer("classes", "3", 1, 10, "classes", kDrawing, "Number of classes, one shape each."),
      integer("size", "32", 8, 2048, "pixels", kDrawing, "Image height and width."),
      seed(kDrawing, "Seed for the images.")};
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
                     ": each class needs one image for training and one for validation.");
  }
  return config;
}

}  // namespace

CommandInfo convert_command() {
  return {
      "convert",
      "Convert an image folder, class folders, a COCO folder or an archive to an ImageDirectory.",
      "INPUT-PATH OUTPUT-PATH",
      with_record_options(
          {positional_path("input-path", "DIR",
                           "Images, class folders, a COCO folder, an archive or record files; the "
                           "flag name may be "
                           "omitted."),
           positional_path("output-path", "DIR",
                           "Output folder for the ImageDirectory; the flag name may be omitted.")}),
      bind_convert};
}

CommandInfo pack_command() {
  return {
      "pack",
      "Pack labeled images into shards (tar, TFRecord, RecordIO) that train reads without "
      "unpacking.",
      "INPUT-PATH OUTPUT-PATH [options]",
      pack_options(),
      bind_pack,
      "`kiln pack` is one process that uses all processors: start it once, without a launcher."};
}

CommandInfo demo_data_command() {
  return {"demo-data", "Generate a small labeled dataset of colored shapes for trying things out.",
          "OUTPUT-PATH [options]", demo_data_options(), bind_demo_data};
}

}  // namespace kiln
