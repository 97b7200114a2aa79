// The options of the commands that write images: `kiln convert`, `split`, `pack`, `demo-data` and
// `transform`; and those of all commands that read datasets, for what the files do not say about
// themselves.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <stdexcept>

#include "base/text.h"
#include "base/url.h"
#include "cli/paths.h"
#include "cli/rows.h"

namespace kiln {
namespace {

using enum Canvas;

// A list of KEY=VALUE; `is_read`: of PREFIX=PATH, which may be in a bucket.
template <typename Value>
Reader<Value> pairs(const char* value_name, Value (*parse)(const std::string&),
                    bool is_read = false) {
  return {{.value_name = value_name, .is_read = is_read},
          [parse](const Option& option, const std::string& text, const std::string& where) {
            try {
              return parse(text_value(option, text, where));
            } catch (const std::invalid_argument& fault) {
              refuse_text(where + " '" + text + "': " + fault.what() + ".");
            }
          }};
}

}  // namespace

Rows<RecordOptions> record_rows() {
  using Pairs = decltype(RecordOptions::columns);
  constexpr auto kColumns = [](const std::string& text) {
    return parse_pairs(text, {"path", "label", "split", "group", "weight"});
  };
  constexpr auto kRoots = [](const std::string& text) {
    Pairs roots = parse_pairs(text);
    for (auto& [prefix, folder] : roots) folder = local_path(folder, is_bucket(folder));
    return roots;
  };
  return {
      opt(&RecordOptions::classes_file, "classes", input_path("FILE"), kPaths,
          "File of class names, one per line, in the order of their indices in record files and "
          "shards. Named classes, such as folders, must be listed and get their indices from it. "
          "Default: classes.txt next to the files, or the names in them, or the numbers."),
      opt(&RecordOptions::first_label, "first-label", {{"auto", std::nullopt}, {"0", 0}, {"1", 1}},
          kPaths,
          "Number of the first class name, where labels are numbers of names. auto: the only one "
          "that suits all labels; an error if both do."),
      opt(&RecordOptions::keys, "record-keys", pairs("KEYS", parse_record_keys), kPaths,
          "Feature names in TFRecord files, if not image/encoded, image/class/label, "
          "image/class/text and image/filename: some of image=KEY, label=KEY, text=KEY and "
          "name=KEY, with commas and no spaces between them."),
      opt(&RecordOptions::columns, "columns", pairs<Pairs>("KEYS", kColumns), kPaths,
          "Columns of a list of images, by name or, where it has no header, by number: some of "
          "path=NAME, label=NAME, split=NAME, group=NAME and weight=NAME, with commas and no "
          "spaces between them. Nothing after the = ignores a column. Default: usual names; see "
          "docs/data.md."),
      opt(&RecordOptions::list_roots, "list-root", pairs<Pairs>("DIR", kRoots, true), kPaths,
          "Folder of the relative paths in a list of images, instead of the list's. PREFIX=DIR: "
          "paths that begin with PREFIX, such as s3://bucket/, are in DIR; several with commas.")};
}

Rows<RecordOptions> list_set_rows() {
  return opt(&RecordOptions::list_sets, "split-name",
             {{"all", {}}, {"train", {"train"}}, {"valid", {"valid"}}, {"test", {"test"}}}, kPaths,
             "Rows of a list of images to read, by its column split. all: also without one.");
}

Row<RecordOptions> exif_row(const Under& under, const std::string& help) {
  return opt(&RecordOptions::exif, "exif",
             {{"auto", std::nullopt}, {"apply", Exif::kApply}, {"ignore", Exif::kIgnore}}, under,
             "Whether pictures are turned upright as their EXIF orientation says. auto: ignore for "
             "an ImageDirectory, as in the designer, else apply. " +
                 help);
}

namespace {

// ---- convert ----

template <typename Config>
void check_apart(Given& given, Config& /*config*/) {
  given.keep_apart("output-path", {"input-image-transform-path", "data-path"});
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
  text_value(option, text, where);
  std::vector<double> fractions;
  for (const std::string& item : items_of(text))
    fractions.push_back(fraction_value(option, item, "A fraction in " + where));
  if (fractions.size() != 2 && fractions.size() != 3)
    refuse_text(where + " is '" + text +
                "', but must be the fractions for train and test, such as 0.9,0.1, or for train, "
                "valid and test, such as 0.8,0.1,0.1.");
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  if (std::abs(sum - 1) > kRounding)
    throw Error(ErrorCode::kNotInRangeValue, where + " is " + text + ", which adds up to " +
                                                 std::to_string(sum) + ", but must add up to 1.");
  return fractions;
}

void check_fractions(Given& given, SplitImagesConfig& config) {
  if (!given.has("fractions")) {
    config.fractions = {config.fraction, 1 - config.fraction};
    return;
  }
  if (config.fractions.size() == 3) config.part_names = {"train", "valid", "test"};
  if (given.has("fraction"))
    given.refuse("fraction",
                 "and --fractions are both given, but mean the same thing: use only one of them.");
  if (!given.has("output-path"))
    given.refuse("fractions",
                 "needs --output-path, the folder for train, valid and test: use it instead of "
                 "--tgt-train-path and --tgt-test-path.");
}

// A folder for both outputs, if none is named.
void imply_output(Given& given, const SplitImagesConfig&) {
  if (!given.has("tgt-train-path") && !given.has("tgt-test-path"))
    given.imply("output-path", "split");
}

void check_split(Given& given, SplitImagesConfig& config) {
  for (const auto& [path, other] :
       {std::pair{"tgt-train-path", "tgt-test-path"}, std::pair{"tgt-test-path", "tgt-train-path"}})
    if (given.mentions(path) && !given.mentions(other) && !given.mentions("output-path"))
      given.fault(path, std::string("--") + other +
                            " DIR is missing: add it, or give --output-path instead of --" + path +
                            ".");
  given.keep_apart("tgt-train-path", {"data-path"});
  given.keep_apart("tgt-test-path", {"data-path", "tgt-train-path"});
  given.keep_apart("output-path", {"data-path"});
  check_fractions(given, config);
  config.part_paths = {config.train_path, config.test_path};
  if (config.output_path.empty()) return;
  config.part_paths.clear();
  for (const std::string& name : config.part_names)
    config.part_paths.push_back((std::filesystem::path(config.output_path) / name).string());
}

// ---- demo-data ----

void check_demo_data(Given& given, DemoDataConfig& config) {
  if (config.images >= 2 * config.classes) return;
  given.refuse("images",
               "is " + std::to_string(config.images) + ", but " + std::to_string(config.classes) +
                   " classes need at least " + std::to_string(2 * config.classes) +
                   ": each class needs one image for training and one for validation.",
               ErrorCode::kNotInRangeValue);
}

// ---- transform ----

const std::string kOperations = "Operations";

// A switch that adds an operation, and the option that sets its argument.
struct OperationSwitch {
  const char* name;
  const char* operation;  // empty: accepted, but nothing is written
  const char* help;
  const char* argument = "";  // empty: none
  const char* argument_help = "";
  const char* unit = "";          // empty: a size in pixels, also as height and width
  std::int64_t maximum = 10'000;  // of the argument
};
// In the order in which operations are written, as in the designer.
constexpr std::array<OperationSwitch, 13> kSwitches = {{
    {"resize", "Resize", "Resize images to --size.", "size",
     "Of --resize: the shorter side, where the ratio of the sides is kept, or a height and a "
     "width."},
    {"center-crop", "CenterCrop",
     "Crop --crop-size from the center; smaller images get a black border first.", "crop-size",
     "Of --center-crop: both sides, or a height and a width."},
    {"pad", "Pad", "Add a black border of --padding pixels.", "padding", "Of --pad, on every side.",
     "pixels"},
    {"color-jitter", "ColorJitter",
     "Add random color jitter, by 0 unless the file is edited, as in the designer."},
    {"random-resized-crop", "RandomResizedCrop",
     "Crop a random area and resize it to --random-resized-crop-size.", "random-resized-crop-size",
     "Of --random-resized-crop: both sides, or a height and a width."},
    {"random-crop", "RandomCrop", "Crop --random-crop-size at a random position.",
     "random-crop-size", "Of --random-crop: both sides, or a height and a width."},
    {"random-horizontal-flip", "RandomHorizontalFlip", "Flip half of the images horizontally."},
    {"random-vertical-flip", "RandomVerticalFlip", "Flip half of the images vertically."},
    {"random-rotation", "RandomRotation",
     "Rotate by up to --random-rotation-degrees in either direction.", "random-rotation-degrees",
     "Of --random-rotation.", "degrees", 360},
    {"random-affine", "RandomAffine",
     "The same by an affine transformation, with --random-affine-degrees.", "random-affine-degrees",
     "Of --random-affine.", "degrees", 360},
    {"random-perspective", "RandomPerspective", "Distort the perspective of half of the images."},
    {"grayscale", "", "Accepted and ignored, as in the designer."},
    {"random-grayscale", "", "Accepted and ignored, as in the designer."},
}};

// As JSON: 256 or {"size": [224, 160]}. A bare list would be two arguments: of RandomCrop, a size
// and a padding.
std::string argument_value(const Option& option, const std::string& text,
                           const std::string& where) {
  const auto checked = [&](const std::string& length) {
    Option side = option;
    side.kind = ValueKind::kInteger;
    return std::to_string(integer_value(side, length, where));
  };
  if (option.kind != ValueKind::kImageSize || !text.starts_with('[')) return checked(text);
  std::vector<std::string> sides = items_of(std::string_view(text).substr(1, text.size() - 2));
  bool is_valid = sides.size() == 2 && text.ends_with(']');
  for (std::string& side : sides) {
    side = std::string(trimmed(side, " "));
    is_valid = is_valid && !side.empty() && side.find_first_not_of("+-0123456789") == side.npos;
  }
  if (!is_valid)
    refuse_text(where + " is '" + excerpt(text) +
                "', but must be a length in pixels, or a height and a width such as [224,160].");
  return "{\"size\": [" + checked(sides[0]) + ", " + checked(sides[1]) + "]}";
}

Row<TransformInitConfig> argument_row(const OperationSwitch& known) {
  const bool is_size = *known.unit == '\0';
  Reader<std::string> reader{{.value_name = is_size ? "N|[H,W]" : "N",
                              .unit = is_size ? "pixels" : known.unit,
                              .kind = is_size ? ValueKind::kImageSize : ValueKind::kInteger,
                              .minimum = is_size ? 1 : 0,
                              .maximum = known.maximum},
                             argument_value,
                             [](const Option&, const std::string& json) { return json; }};
  const auto place = [name = known.argument](TransformInitConfig& config) -> std::string& {
    return config.arguments[name];
  };
  return row_of<TransformInitConfig>(place, known.argument, std::move(reader),
                                     {kOperations, kParameter}, known.argument_help);
}

void resolve_operations(Given&, TransformInitConfig& config) {
  std::string operations;
  for (const OperationSwitch& known : kSwitches) {
    if (!config.switches[known.name]) continue;
    const std::string operation = known.operation;
    const std::string argument = *known.argument == '\0' ? "{}" : config.arguments[known.argument];
    if (operation.empty())
      config.ignored.emplace_back(known.name);
    else
      operations += (operations.empty() ? "[\"" : ", [\"") + operation + "\", " + argument + "]";
  }
  config.operations = "[" + operations + "]";
}

}  // namespace

CommandInfo convert_command() {
  return command<ConvertConfig>(
      "convert",
      "Convert an image folder, class folders, a COCO folder or an archive to an ImageDirectory.",
      "INPUT-PATH OUTPUT-PATH",
      {opt(&ConvertConfig::input_path, "data-path", input_path("DIR"),
           {kPaths, kPositional, kRequired, kDataIn},
           "Images, class folders, a COCO folder, an archive or record files; the flag name may be "
           "omitted.")
           .with(&Option::port_name, "input-path"),
       opt(&ConvertConfig::output_path, "output-path", path("DIR"),
           {kPaths, kPositional, kRequired, kDataOut},
           "Output folder for the ImageDirectory; the flag name may be omitted."),
       within(&ConvertConfig::records, one_label_rows())},
      check_apart<ConvertConfig>);
}

CommandInfo split_command() {
  const std::string group = "Split";
  Reader<double> fraction = share("X");
  fraction.parse = fraction_value;
  return command<SplitImagesConfig>(
      "split",
      "Split labeled images into a training and a test ImageDirectory, or into train, valid and "
      "test.",
      "PHOTOS [options]",
      {opt(&SplitImagesConfig::src_path, "data-path", input_path("DIR"),
           {kPaths, kDataIn, kPositional, kRequired}, "Images, in any format that train reads.")
           .with(&Option::port_name, "src-path"),
       opt(&SplitImagesConfig::train_path, "tgt-train-path", path("DIR"), {kPaths, kDataOut},
           "Output folder for the training ImageDirectory.")
           .with(&Option::instead, "output-path"),
       opt(&SplitImagesConfig::test_path, "tgt-test-path", path("DIR"), {kPaths, kDataOut},
           "Output folder for the test ImageDirectory.")
           .with(&Option::instead, "output-path"),
       opt(&SplitImagesConfig::output_path, "output-path", path("DIR"), kPaths,
           "Folder for the ImageDirectories train and test, or train, valid and test, instead of "
           "--tgt-train-path and --tgt-test-path. Default, without these: split."),
       opt(&SplitImagesConfig::fraction, "fraction", fraction, {group, kParameter},
           "Fraction of the images that goes to the training output, rounded down; each output "
           "gets at least one image."),
       opt(&SplitImagesConfig::fractions, "fractions",
           Reader<std::vector<double>>{{.value_name = "X,X,X"}, fractions_value}, group,
           "Fractions for train, valid and test (or train and test) that add up to 1, such as "
           "0.8,0.1,0.1; needs --output-path. Each is rounded down, and the last one gets the "
           "rest."),
       opt(&SplitImagesConfig::stratify, "stratify", true_or_false(), {group, kParameter},
           "Stratify the split by class. If a class has fewer images than there are outputs, or an "
           "output fewer images than there are classes, the split is random over all images, with "
           "a warning."),
       opt(&SplitImagesConfig::group_by, "group-by", regular_expression(), group,
           "Regular expression (ECMAScript) for image paths. Images with the same first capture "
           "group, or the same match if there is no group, go to one output; others are "
           "ungrouped."),
       opt(&SplitImagesConfig::keep_duplicates_together, "keep-duplicates-together", on_off(),
           {group, kParameter},
           "Keep duplicates in one output: identical bytes always, other sizes and qualities up to "
           "20000 images."),
       opt(&SplitImagesConfig::check_leaks, "check-leaks", on_off(), kReporting,
           "Print a JSON object per line for duplicates that went to different outputs; exit code "
           "1 if there are any. For two existing folders: kiln inspect DIR --valid-data-path DIR."),
       seed_row<SplitImagesConfig>({group, kParameter}, "Seed for the split."),
       within(&SplitImagesConfig::records, one_label_rows())},
      check_split, {imply_output});
}

CommandInfo pack_command() {
  const std::string group = "Shards";
  CommandInfo info = command<PackConfig>(
      "pack",
      "Pack labeled images into shards (tar, TFRecord, RecordIO) that train reads without "
      "unpacking.",
      "INPUT-PATH OUTPUT-PATH [options]",
      {opt(&PackConfig::input_path, "data-path", input_path("DIR"),
           {kPaths, kPositional, kRequired, kDataIn},
           "Labeled images, in any format that train reads; the flag name may be omitted.")
           .with(&Option::port_name, "input-path"),
       opt(&PackConfig::output_path, "output-path", path("DIR"),
           {kPaths, kPositional, kRequired, kDataOut},
           "Empty folder for the shards; the flag name may be omitted."),
       opt(&PackConfig::format, "format",
           {{"tar", ShardFormat::kTar},
            {"tfrecord", ShardFormat::kTfRecord},
            {"recordio", ShardFormat::kRecordIo}},
           {group, kParameter},
           "tar: WebDataset shards. tfrecord: tf.train.Example files with TensorFlow's feature "
           "names. recordio: MXNet image records, as read by SageMaker's image classification, "
           "each file with its .idx."),
       opt(&PackConfig::shard_mb, "shard-mb", from(1, 1 << 20, "MiB"), {group, kParameter},
           "Maximum size of a shard."),
       opt(&PackConfig::short_side, "short-side", auto_or(16, 4096, "pixels"), {group, kParameter},
           "Downscale images whose short side is longer to this length and store them as JPEG. "
           "auto: store every image unchanged."),
       within(&PackConfig::records,
              {exif_row(group,
                        "For downscaled images, which are stored without it; others keep it.")}),
       opt(&PackConfig::quality, "quality", from(1, 100), {group, kParameter},
           "JPEG quality of downscaled images."),
       opt(&PackConfig::shuffle, "shuffle", on_off(), {group, kParameter},
           "Store the images in random order."),
       opt(&PackConfig::even_shards, "even-shards", on_off(), {group, kParameter},
           "Give every shard the same number of images and the same mix of classes."),
       opt(&PackConfig::balance_classes, "balance-classes", on_off(), {group, kParameter},
           "Duplicate images until every class has as many as the largest. For training data only; "
           "train --sample balanced oversamples small classes without storing copies."),
       seed_row<PackConfig>(
           {group, kParameter},
           "Seed for --shuffle, and for the images that --balance-classes duplicates."),
       within(&PackConfig::records, one_label_rows()
                                        .on_canvas("classes", Canvas::kFileIn)
                                        .on_canvas("first-label", Canvas::kParameter))},
      check_apart<PackConfig>);
  info.instead_of_ranks =
      "`kiln pack` is one process that uses all processors: start it once, without a launcher.";
  return info;
}

CommandInfo demo_data_command() {
  const std::string group = "Drawing";
  return command<DemoDataConfig>(
      "demo-data", "Generate a small labeled dataset of colored shapes for trying things out.",
      "OUTPUT-PATH [options]",
      {opt(&DemoDataConfig::output_path, "output-path", path("DIR"),
           {kPaths, kPositional, kRequired},
           "Folder in which train and val are created; the flag name may be omitted."),
       opt(&DemoDataConfig::images, "images", from(2, kMillion, "images"), group,
           "Total number of training and validation images."),
       opt(&DemoDataConfig::classes, "classes", from(1, 10, "classes"), group,
           "Number of classes, one shape each."),
       opt(&DemoDataConfig::size, "size", from(8, 2048, "pixels"), group,
           "Image height and width."),
       seed_row<DemoDataConfig>(group, "Seed for the images.")},
      check_demo_data);
}

CommandInfo transform_init_command() {
  Rows<TransformInitConfig> rows =
      opt(&TransformInitConfig::output_path, "output-path", path("DIR"),
          {kPaths, kPositional, kRequired, kDataOut},
          "Output folder for the TransformationDirectory; the flag name may be omitted.");
  for (const OperationSwitch& known : kSwitches) {
    const auto place = [name = known.name](TransformInitConfig& config) -> bool& {
      return config.switches[name];
    };
    rows = {rows, row_of<TransformInitConfig>(place, known.name, on_off(),
                                              {kOperations, kParameter}, known.help)};
    if (*known.argument != '\0') rows = {rows, argument_row(known)};
  }
  return command(
      "transform init",
      "Write a TransformationDirectory: operations that resize, crop and augment images.",
      "OUTPUT-PATH [options]", std::move(rows), resolve_operations);
}

CommandInfo transform_apply_command() {
  return command<TransformApplyConfig>(
      "transform apply", "Apply a TransformationDirectory to images; writes an ImageDirectory.",
      "PHOTOS --mode MODE --input-image-transform-path DIR --output-path DIR [options]",
      {opt(&TransformApplyConfig::for_inference, "mode",
           {{"For training", false}, {"For inference", true}}, {kOperations, kParameter, kRequired},
           "For inference: without the operations whose names begin with Random."),
       opt(&TransformApplyConfig::transform_path, "input-image-transform-path", input_path("DIR"),
           {kPaths, kDataIn, kRequired},
           "TransformationDirectory, as written by `kiln transform init`."),
       opt(&TransformApplyConfig::image_path, "data-path", input_path("DIR"),
           {kPaths, kDataIn, kPositional, kRequired},
           "Images, in any format that convert reads; labels are kept.")
           .with(&Option::port_name, "input-image-dir-path"),
       opt(&TransformApplyConfig::output_path, "output-path", path("DIR"),
           {kPaths, kDataOut, kRequired},
           "Output folder for the ImageDirectory, whose images are PNG files."),
       within(&TransformApplyConfig::records,
              {exif_row(kOperations, "The orientation is not written.")}),
       seed_row<TransformApplyConfig>({kOperations, kParameter},
                                      "Seed of the random operations, drawn once per image."),
       opt(&TransformApplyConfig::loader_threads, "loader-threads", auto_or(1, 256, "threads"),
           kMachine, "Threads that read, transform and write images. auto: one per processor."),
       within(&TransformApplyConfig::records, one_label_rows())},
      check_apart<TransformApplyConfig>);
}

}  // namespace kiln
