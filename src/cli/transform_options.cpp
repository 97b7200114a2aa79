// The options of `kiln transform init` and `kiln transform apply`.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "base/text.h"
#include "cli/command_rows.h"

namespace kiln {
namespace {

using enum Canvas;
using enum Mark;

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

// As JSON: "256" or "[224, 160]".
std::string argument_value(const Option& option, const std::string& text,
                           const std::string& where) {
  const auto checked = [&](const std::string& length) {
    Option side = option;
    side.kind = ValueKind::kInteger;
    return std::to_string(integer_value(side, length, where));
  };
  std::string_view rest = text;
  if (option.kind != ValueKind::kImageSize || !take(rest, '[')) return checked(text);
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

Row<TransformInitConfig> argument(const char* name, Option kind, const char* help) {
  return opt<TransformInitConfig>(
             [name](TransformInitConfig& config) -> std::string& { return config.arguments[name]; },
             name,
             Reader<std::string>{std::move(kind), argument_value,
                                 [](const Option&, const std::string& json) { return json; }},
             kOperations, help)
      .is(kParameter);
}

Row<TransformInitConfig> size_argument(const char* name, const char* help) {
  return argument(name,
                  {.value_name = "N|[H,W]",
                   .unit = "pixels",
                   .kind = ValueKind::kImageSize,
                   .minimum = 1,
                   .maximum = 10'000},
                  help);
}

Row<TransformInitConfig> number_argument(const char* name, const char* unit, std::int64_t maximum,
                                         const char* help) {
  return argument(
      name, {.value_name = "N", .unit = unit, .kind = ValueKind::kInteger, .maximum = maximum},
      help);
}

Rows<TransformInitConfig> argument_rows() {
  return {
      size_argument("size",
                    "Of --resize: the shorter side, where the ratio of the sides is kept, or a "
                    "height and a width."),
      size_argument("crop-size", "Of --center-crop: both sides, or a height and a width."),
      number_argument("padding", "pixels", 10'000, "Of --pad, on every side."),
      size_argument("random-resized-crop-size",
                    "Of --random-resized-crop: both sides, or a height and a width."),
      size_argument("random-crop-size", "Of --random-crop: both sides, or a height and a width."),
      number_argument("random-rotation-degrees", "degrees", 360, "Of --random-rotation."),
      number_argument("random-affine-degrees", "degrees", 360, "Of --random-affine."),
  };
}

Rows<TransformInitConfig> init_rows() {
  Rows<TransformInitConfig> rows =
      opt(&TransformInitConfig::output_path, "output-path", path("DIR"), kPaths,
          "Output folder for the TransformationDirectory; the flag name may be omitted.")
          .is(kPositional, kDataOut);
  const Rows<TransformInitConfig> arguments = argument_rows();
  for (const OperationSwitch& known : kSwitches) {
    rows = {rows, opt<TransformInitConfig>([name = known.name](TransformInitConfig& config)
                                               -> bool& { return config.switches[name]; },
                                           known.name, on_off(), kOperations, known.help)
                      .is(kParameter)};
    for (const auto& row : arguments)
      if (row.option.name == known.argument) rows = {rows, row};
  }
  return rows;
}

void settle_operations(Binder&, TransformInitConfig& config) {
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

Rows<TransformApplyConfig> apply_rows() {
  return {
      opt(&TransformApplyConfig::for_inference, "mode",
          {{"For training", false}, {"For inference", true}}, kOperations,
          "For inference: without the operations whose names begin with Random.")
          .required()
          .is(kParameter),
      opt(&TransformApplyConfig::transform_path, "input-image-transform-path", path("DIR"), kPaths,
          "TransformationDirectory, as written by `kiln transform init`.")
          .required()
          .is(kDataIn),
      opt(&TransformApplyConfig::image_path, "input-image-dir-path", path("DIR"), kPaths,
          "Images, in any format that convert reads; labels are kept.")
          .required()
          .is(kDataIn),
      opt(&TransformApplyConfig::output_path, "output-path", path("DIR"), kPaths,
          "Output folder for the ImageDirectory, whose images are PNG files.")
          .required()
          .is(kDataOut),
      within(&TransformApplyConfig::records,
             {exif_row(kOperations, "The orientation is not written.")}),
      seed_row<TransformApplyConfig>(kOperations,
                                     "Seed of the random operations, drawn once per image.")
          .is(kParameter),
      opt(&TransformApplyConfig::loader_threads, "loader-threads", auto_or(1, 256, "threads"),
          kMachine, "Threads that read, transform and write images. auto: one per processor."),
      within(&TransformApplyConfig::records, record_rows()),
  };
}

void check_apply(Binder& binder, TransformApplyConfig& config) {
  require_apart(binder, "output-path", config.output_path, "input-image-transform-path",
                config.transform_path);
  require_apart(binder, "output-path", config.output_path, "input-image-dir-path",
                config.image_path);
}

}  // namespace

CommandInfo transform_init_command() {
  return command(
      "transform init",
      "Write a TransformationDirectory: operations that resize, crop and augment images.",
      "OUTPUT-PATH [options]", init_rows(), settle_operations);
}

CommandInfo transform_apply_command() {
  return command("transform apply",
                 "Apply a TransformationDirectory to images; writes an ImageDirectory.",
                 "--mode MODE --input-image-transform-path DIR --input-image-dir-path DIR "
                 "--output-path DIR [options]",
                 apply_rows(), check_apply);
}

}  // namespace kiln
