// The options of `kiln transform init` and `kiln transform apply`, and --transform-path of `kiln
// train`.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

const std::string kOperations = "Operations";

// A switch that adds an operation. The order in kSwitches is that in which operations are written,
// as in the designer.
struct OperationSwitch {
  const char* name;
  const char* operation;  // empty: accepted, but nothing is written
  const char* argument;   // the option that sets its argument; empty: none
  const char* help;
};
constexpr std::array<OperationSwitch, 13> kSwitches = {{
    {"resize", "Resize", "size", "Resize images to --size."},
    {"center-crop", "CenterCrop", "crop-size",
     "Crop --crop-size from the center; smaller images get a black border first."},
    {"pad", "Pad", "padding", "Add a black border of --padding pixels."},
    {"color-jitter", "ColorJitter", "",
     "Add random color jitter, by 0 unless the file is edited, as in the designer."},
    {"random-resized-crop", "RandomResizedCrop", "random-resized-crop-size",
     "Crop a random area and resize it to --random-resized-crop-size."},
    {"random-crop", "RandomCrop", "random-crop-size",
     "Crop --random-crop-size at a random position."},
    {"random-horizontal-flip", "RandomHorizontalFlip", "", "Flip half of the images horizontally."},
    {"random-vertical-flip", "RandomVerticalFlip", "", "Flip half of the images vertically."},
    {"random-rotation", "RandomRotation", "random-rotation-degrees",
     "Rotate by up to --random-rotation-degrees in either direction."},
    {"random-affine", "RandomAffine", "random-affine-degrees",
     "The same by an affine transformation, with --random-affine-degrees."},
    {"random-perspective", "RandomPerspective", "",
     "Distort the perspective of half of the images."},
    {"grayscale", "", "", "Accepted and ignored, as in the designer."},
    {"random-grayscale", "", "", "Accepted and ignored, as in the designer."},
}};

Option image_size(std::string name, std::string default_text, std::string help) {
  return {.name = std::move(name),
          .value_name = "N|[H,W]",
          .default_text = std::move(default_text),
          .unit = "pixels",
          .group = kOperations,
          .help = std::move(help),
          .kind = ValueKind::kImageSize,
          .minimum = 1,
          .maximum = 10'000};
}

std::vector<Option> arguments() {
  return {
      image_size("size", "256",
                 "Of --resize: the shorter side, where the ratio of the sides is kept, or a height "
                 "and a width."),
      image_size("crop-size", "224", "Of --center-crop: both sides, or a height and a width."),
      integer("padding", "0", 0, 10'000, "pixels", kOperations, "Of --pad, on every side."),
      image_size("random-resized-crop-size", "256",
                 "Of --random-resized-crop: both sides, or a height and a width."),
      image_size("random-crop-size", "224",
                 "Of --random-crop: both sides, or a height and a width."),
      integer("random-rotation-degrees", "0", 0, 360, "degrees", kOperations,
              "Of --random-rotation."),
      integer("random-affine-degrees", "0", 0, 360, "degrees", kOperations, "Of --random-affine."),
  };
}

std::vector<Option> init_options() {
  std::vector<Option> options = {
      positional_path("output-path", "DIR",
                      "Output folder for the TransformationDirectory; the flag name may be "
                      "omitted.")};
  const std::vector<Option> all = arguments();
  for (const OperationSwitch& known : kSwitches) {
    options.push_back(yes_or_no(known.name, ValueKind::kSwitch, "False", kOperations, known.help));
    for (const Option& argument : all)
      if (argument.name == known.argument) options.push_back(argument);
  }
  return options;
}

// Returns an operation's argument as JSON: "{}" if `name` is empty.
std::string argument_text(Binder& binder, const char* name) {
  if (std::string_view(name).empty()) return "{}";
  return std::string_view(name).ends_with("size") ? binder.image_size(name)
                                                  : std::to_string(binder.integer(name));
}

Command bind_init(Binder& binder) {
  TransformInitConfig config;
  config.output_path = binder.path("output-path");
  std::string operations;
  for (const OperationSwitch& known : kSwitches) {
    const std::string operation = known.operation;
    const std::string argument = argument_text(binder, known.argument);
    if (!binder.boolean(known.name)) continue;
    if (operation.empty())
      config.ignored.emplace_back(known.name);
    else
      operations += (operations.empty() ? "[\"" : ", [\"") + operation + "\", " + argument + "]";
  }
  config.operations = "[" + operations + "]";
  return config;
}

std::vector<Option> apply_options() {
  Option mode = choice("mode", {"For training", "For inference"}, kOperations,
                       "For inference: without the operations whose names begin with Random.");
  mode.required = true;
  mode.default_text = "";
  return with_record_options(
      {mode,
       required_path("input-image-transform-path", "DIR",
                     "TransformationDirectory, as written by `kiln transform init`."),
       required_path("input-image-dir-path", "DIR",
                     "Images, in any format that convert reads; labels are kept."),
       required_path("output-path", "DIR",
                     "Output folder for the ImageDirectory, whose images are PNG files."),
       exif(kOperations, "The orientation is not written."),
       integer("random-seed", "0", kLowest, kHighest, "", kOperations,
               "Seed of the random operations, drawn once per image."),
       integer("loader-threads", "auto", 1, 256, "threads", kMachine,
               "Threads that read, transform and write images. auto: one per processor.")});
}

Command bind_apply(Binder& binder) {
  TransformApplyConfig config;
  config.for_inference = binder.choice("mode") == "For inference";
  config.transform_path = binder.path("input-image-transform-path");
  config.image_path = binder.path("input-image-dir-path");
  config.output_path = binder.path("output-path");
  config.random_seed = binder.integer("random-seed");
  config.loader_threads = binder.small_integer("loader-threads");
  config.records = bind_records(binder);
  bind_exif(binder, config.records);
  require_apart(binder, "output-path", config.output_path, "input-image-transform-path",
                config.transform_path);
  require_apart(binder, "output-path", config.output_path, "input-image-dir-path",
                config.image_path);
  return config;
}

// Removes a length, and the spaces around it, from the front of `text`. Returns it without spaces;
// empty if there is none.
std::string take_length(std::string_view& text) {
  constexpr std::string_view kSigns = "+-0123456789";
  const auto skip_spaces = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  };
  skip_spaces();
  const std::size_t end = std::min(text.find_first_not_of(kSigns), text.size());
  std::string length(text.substr(0, end));
  text.remove_prefix(end);
  skip_spaces();
  return length;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::vector<TrainOption> transform_options() {
  return {{Effect::kFree,
           optional_path("transform-path", "DIR", "", kImages,
                         "TransformationDirectory, as written by `kiln transform init`, instead of "
                         "--image-size, --augment, --eval-resize and --eval-crop: its operations "
                         "are applied to each training image, with new random draws in each epoch. "
                         "Validation and inference skip those whose names begin with Random.")}};
}

void bind_transform(Binder& binder, DataConfig& config) {
  config.transform_path = binder.path("transform-path");
  if (config.transform_path.empty()) return;
  const std::pair<const char*, bool> others[] = {
      {"image-size", config.image_size > 0},
      {"augment", config.augment != Augment::kNone},
      {"eval-resize", config.eval_resize > 0},
      {"eval-crop", config.eval_crop > 0 || config.larger_eval_crop}};
  for (const auto& [name, is_given] : others)
    if (is_given)
      binder.fault(name, ErrorCode::kParameterParsing,
                   std::string("--") + name +
                       " cannot be used with --transform-path, whose operations resize, crop and "
                       "augment the images: leave one of the two out.");
}

std::string image_size_value(const Option& option, const std::string& text,
                             const std::string& where) {
  const auto checked = [&](const std::string& length) {
    Option side = option;
    side.kind = ValueKind::kInteger;
    return std::to_string(integer_value(side, length, where));
  };
  std::string_view rest = text;
  if (!take(rest, '[')) return checked(text);
  const std::string height = take_length(rest);
  const bool has_two = take(rest, ',');
  const std::string width = take_length(rest);
  if (!has_two || height.empty() || width.empty() || rest != "]")
    throw Error(ErrorCode::kParameterParsing,
                where + " is '" + excerpt(text) +
                    "', but must be a length in pixels, or a height and a width such as "
                    "[224,160].");
  return "[" + checked(height) + ", " + checked(width) + "]";
}

CommandInfo transform_init_command() {
  return {"transform init",
          "Write a TransformationDirectory: operations that resize, crop and augment images.",
          "OUTPUT-PATH [options]", init_options(), bind_init};
}

CommandInfo transform_apply_command() {
  return {"transform apply", "Apply a TransformationDirectory to images; writes an ImageDirectory.",
          "--mode MODE --input-image-transform-path DIR --input-image-dir-path DIR "
          "--output-path DIR [options]",
          apply_options(), bind_apply};
}

}  // namespace kiln
