// The options of the commands that write images: `kiln convert`, `split`, `pack` and `demo-data`;
// and those of all commands that read datasets, for what the files do not say about themselves.
#include <cmath>
#include <filesystem>
#include <numeric>
#include <stdexcept>

#include "cli/command_rows.h"

namespace kiln {
namespace {

using enum Canvas;
using enum Mark;

Reader<RecordKeys> record_keys() {
  return {{.value_name = "KEYS"},
          [](const Option& option, const std::string& text, const std::string& where) {
            try {
              return parse_record_keys(path_value(option, text, where));
            } catch (const std::invalid_argument& fault) {
              throw Error(ErrorCode::kParameterParsing,
                          where + " '" + text + "': " + fault.what() + ".");
            }
          },
          [](const Option&, const RecordKeys&) { return std::string(); }};
}

}  // namespace

Rows<RecordOptions> record_rows() {
  return {
      opt(&RecordOptions::classes_file, "classes", path("FILE"), kPaths,
          "File of class names, one per line, in the order of their indices in record files and "
          "shards. Named classes, such as folders, must be listed and get their indices from it. "
          "Default: classes.txt next to the files, or the names in them, or the numbers."),
      opt(&RecordOptions::first_label, "first-label", {{"auto", std::nullopt}, {"0", 0}, {"1", 1}},
          kPaths,
          "Number of the first class in label files and records. auto: 1 if no label is 0 and, "
          "with a file of class names, the highest equals their number; else 0."),
      opt(&RecordOptions::keys, "record-keys", record_keys(), kPaths,
          "Feature names in TFRecord files, if not image/encoded, image/class/label, "
          "image/class/text and image/filename: image=KEY,label=KEY,text=KEY,name=KEY, "
          "or some of these."),
  };
}

Row<RecordOptions> exif_row(const std::string& group, const std::string& help) {
  return opt(&RecordOptions::exif, "exif",
             {{"auto", std::nullopt}, {"apply", Exif::kApply}, {"ignore", Exif::kIgnore}}, group,
             "Whether pictures are turned upright as their EXIF orientation says. auto: ignore for "
             "an ImageDirectory, as in the designer, else apply. " +
                 help);
}

namespace {

// ---- convert ----

Rows<ConvertConfig> convert_rows() {
  return {opt(&ConvertConfig::input_path, "input-path", path("DIR"), kPaths,
              "Images, class folders, a COCO folder, an archive or record files; the flag name may "
              "be omitted.")
              .is(kPositional, kDataIn),
          opt(&ConvertConfig::output_path, "output-path", path("DIR"), kPaths,
              "Output folder for the ImageDirectory; the flag name may be omitted.")
              .is(kPositional, kDataOut),
          within(&ConvertConfig::records, record_rows())};
}

template <typename Config>
void check_apart(Binder& binder, Config& config) {
  require_apart(binder, "output-path", config.output_path, "input-path", config.input_path);
}

// ---- split ----

constexpr double kRounding = 1e-6;  // tolerance for the sum of --fractions

// Returns a share of less than 1, which leaves something for the other outputs. Throws Error.
double fraction_value(const Option& option, const std::string& text, const std::string& where) {
  double value = 1;
  try {
    value = share_value(option, text, where);
  } catch (const Error& fault) {
    if (fault.code() == ErrorCode::kParameterParsing) throw;
  }
  if (value < 1) return value;
  throw Error(ErrorCode::kNotInRangeValue,
              where + " is " + text + ", but must be greater than 0 and less than 1.");
}

std::vector<double> fractions_value(const Option& option, const std::string& text,
                                    const std::string& where) {
  path_value(option, text, where);
  std::vector<double> fractions;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    fractions.push_back(
        fraction_value(option, text.substr(begin, end - begin), "A fraction in " + where));
    begin = end + 1;
  }
  if (fractions.size() != 2 && fractions.size() != 3)
    throw Error(ErrorCode::kParameterParsing,
                where + " is '" + text +
                    "', but must be the fractions for train and test, such as 0.9,0.1, or for "
                    "train, valid and test, such as 0.8,0.1,0.1.");
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  if (std::abs(sum - 1) > kRounding)
    throw Error(ErrorCode::kNotInRangeValue, where + " is " + text + ", which adds up to " +
                                                 std::to_string(sum) + ", but must add up to 1.");
  return fractions;
}

Reader<double> fraction() {
  Reader<double> reader = share("X");
  reader.parse = fraction_value;
  return reader;
}

Reader<std::vector<double>> fractions() {
  return {{.value_name = "X,X,X"}, fractions_value, [](const Option&, const std::vector<double>&) {
            return std::string();
          }};
}

Rows<SplitImagesConfig> split_rows() {
  const std::string group = "Split";
  return {
      opt(&SplitImagesConfig::src_path, "src-path", path("DIR"), kPaths,
          "Images, in any format that train reads.")
          .required()
          .is(kDataIn),
      opt(&SplitImagesConfig::train_path, "tgt-train-path", path("DIR"), kPaths,
          "Output folder for the training ImageDirectory.")
          .required("output-path")
          .is(kDataOut),
      opt(&SplitImagesConfig::test_path, "tgt-test-path", path("DIR"), kPaths,
          "Output folder for the test ImageDirectory.")
          .required("output-path")
          .is(kDataOut),
      opt(&SplitImagesConfig::output_path, "output-path", path("DIR"), kPaths,
          "Folder for the ImageDirectories train and test, or train, valid and test, instead of "
          "--tgt-train-path and --tgt-test-path."),
      opt(&SplitImagesConfig::fraction, "fraction", fraction(), group,
          "Fraction of the images that goes to the training output, rounded down; each output gets "
          "at least one image.")
          .is(kParameter),
      opt(&SplitImagesConfig::fractions, "fractions", fractions(), group,
          "Fractions for train, valid and test (or train and test) that add up to 1, such as "
          "0.8,0.1,0.1; needs --output-path. Each is rounded down, and the last one gets the "
          "rest."),
      opt(&SplitImagesConfig::stratify, "stratify", true_or_false(), group,
          "Stratify the split by class. If a class has fewer images than there are outputs, or an "
          "output fewer images than there are classes, the split is random over all images, with a "
          "warning.")
          .is(kParameter),
      opt(&SplitImagesConfig::group_by, "group-by", regular_expression(), group,
          "Regular expression (ECMAScript) for image paths. Images with the same first capture "
          "group, or the same match if there is no group, go to one output; others are ungrouped."),
      opt(&SplitImagesConfig::keep_duplicates_together, "keep-duplicates-together", on_off(), group,
          "Keep duplicates in one output: identical bytes always, other sizes and qualities up to "
          "20000 images.")
          .is(kParameter),
      opt(&SplitImagesConfig::check_leaks, "check-leaks", on_off(), kReporting,
          "Print a JSON object per line for duplicates that went to different outputs; exit code 1 "
          "if there are any. For two existing folders: kiln inspect DIR --valid-data-path DIR."),
      seed_row<SplitImagesConfig>(group, "Seed for the split.").is(kParameter),
      within(&SplitImagesConfig::records, record_rows()),
  };
}

void check_fractions(Binder& binder, SplitImagesConfig& config) {
  if (!binder.given("fractions")) {
    config.fractions = {config.fraction, 1 - config.fraction};
    return;
  }
  if (config.fractions.size() == 3) config.part_names = {"train", "valid", "test"};
  if (binder.given("fraction"))
    binder.fault("fraction", ErrorCode::kParameterParsing,
                 "--fraction and --fractions are both given, but mean the same thing: use only one "
                 "of them.");
  if (!binder.given("output-path"))
    binder.fault("fractions", ErrorCode::kParameterParsing,
                 "--fractions needs --output-path, the folder for train, valid and test: use it "
                 "instead of --tgt-train-path and --tgt-test-path.");
}

void check_split(Binder& binder, SplitImagesConfig& config) {
  require_apart(binder, "tgt-train-path", config.train_path, "src-path", config.src_path);
  require_apart(binder, "tgt-test-path", config.test_path, "src-path", config.src_path);
  require_apart(binder, "tgt-test-path", config.test_path, "tgt-train-path", config.train_path);
  require_apart(binder, "output-path", config.output_path, "src-path", config.src_path);
  check_fractions(binder, config);
  config.part_paths = {config.train_path, config.test_path};
  if (config.output_path.empty()) return;
  config.part_paths.clear();
  for (const std::string& name : config.part_names)
    config.part_paths.push_back((std::filesystem::path(config.output_path) / name).string());
}

// ---- pack ----

Rows<PackConfig> pack_rows() {
  const std::string group = "Shards";
  return {
      opt(&PackConfig::input_path, "input-path", path("DIR"), kPaths,
          "Labeled images, in any format that train reads; the flag name may be omitted.")
          .is(kPositional, kDataIn),
      opt(&PackConfig::output_path, "output-path", path("DIR"), kPaths,
          "Empty folder for the shards; the flag name may be omitted.")
          .is(kPositional, kDataOut),
      opt(&PackConfig::format, "format",
          {{"tar", ShardFormat::kTar},
           {"tfrecord", ShardFormat::kTfRecord},
           {"recordio", ShardFormat::kRecordIo}},
          group,
          "tar: WebDataset shards. tfrecord: tf.train.Example files with TensorFlow's feature "
          "names. recordio: MXNet image records, as read by SageMaker's image classification, each "
          "file with its .idx.")
          .is(kParameter),
      opt(&PackConfig::shard_mb, "shard-mb", from(1, 1 << 20, "MiB"), group,
          "Maximum size of a shard.")
          .is(kParameter),
      opt(&PackConfig::short_side, "short-side", auto_or(16, 4096, "pixels"), group,
          "Downscale images whose short side is longer to this length and store them as JPEG. "
          "auto: store every image unchanged.")
          .is(kParameter),
      within(
          &PackConfig::records,
          {exif_row(group, "For downscaled images, which are stored without it; others keep it.")}),
      opt(&PackConfig::quality, "quality", from(1, 100), group,
          "JPEG quality of downscaled images.")
          .is(kParameter),
      opt(&PackConfig::shuffle, "shuffle", on_off(), group, "Store the images in random order.")
          .is(kParameter),
      opt(&PackConfig::even_shards, "even-shards", on_off(), group,
          "Give every shard the same number of images and the same mix of classes.")
          .is(kParameter),
      opt(&PackConfig::balance_classes, "balance-classes", on_off(), group,
          "Duplicate images until every class has as many as the largest. For training data only; "
          "train --sample balanced oversamples small classes without storing copies.")
          .is(kParameter),
      seed_row<PackConfig>(
          group, "Seed for --shuffle, and for the images that --balance-classes duplicates.")
          .is(kParameter),
      within(&PackConfig::records, record_rows()
                                       .on_canvas("classes", Canvas::kFileIn)
                                       .on_canvas("first-label", Canvas::kParameter)),
  };
}

// ---- demo-data ----

Rows<DemoDataConfig> demo_data_rows() {
  const std::string group = "Drawing";
  return {
      opt(&DemoDataConfig::output_path, "output-path", path("DIR"), kPaths,
          "Folder in which train and val are created; the flag name may be omitted.")
          .is(kPositional),
      opt(&DemoDataConfig::images, "images", from(2, kMillion, "images"), group,
          "Total number of training and validation images."),
      opt(&DemoDataConfig::classes, "classes", from(1, 10, "classes"), group,
          "Number of classes, one shape each."),
      opt(&DemoDataConfig::size, "size", from(8, 2048, "pixels"), group, "Image height and width."),
      seed_row<DemoDataConfig>(group, "Seed for the images.")};
}

void check_demo_data(Binder& binder, DemoDataConfig& config) {
  if (config.images >= 2 * config.classes) return;
  binder.fault("images", ErrorCode::kNotInRangeValue,
               "--images is " + std::to_string(config.images) + ", but " +
                   std::to_string(config.classes) + " classes need at least " +
                   std::to_string(2 * config.classes) +
                   ": each class needs one image for training and one for validation.");
}

}  // namespace

CommandInfo convert_command() {
  return command(
      "convert",
      "Convert an image folder, class folders, a COCO folder or an archive to an ImageDirectory.",
      "INPUT-PATH OUTPUT-PATH", convert_rows(), check_apart<ConvertConfig>);
}

CommandInfo split_command() {
  return command("split",
                 "Split labeled images into a training and a test ImageDirectory, or into train, "
                 "valid and test.",
                 "--src-path DIR --tgt-train-path DIR --tgt-test-path DIR [options]", split_rows(),
                 check_split);
}

CommandInfo pack_command() {
  CommandInfo info =
      command("pack",
              "Pack labeled images into shards (tar, TFRecord, RecordIO) that train reads without "
              "unpacking.",
              "INPUT-PATH OUTPUT-PATH [options]", pack_rows(), check_apart<PackConfig>);
  info.instead_of_ranks =
      "`kiln pack` is one process that uses all processors: start it once, without a launcher.";
  return info;
}

CommandInfo demo_data_command() {
  return command("demo-data",
                 "Generate a small labeled dataset of colored shapes for trying things out.",
                 "OUTPUT-PATH [options]", demo_data_rows(), check_demo_data);
}

}  // namespace kiln
