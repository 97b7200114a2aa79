// The options of `kiln split`, which divides one dataset into two or three.
#include <cmath>
#include <filesystem>
#include <numeric>

#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

constexpr double kRounding = 1e-6;  // tolerance for the sum of --fractions

std::vector<Option> parts_options() {
  const std::string group = "Split";
  Option train_path =
      required_path("tgt-train-path", "DIR", "Output folder for the training ImageDirectory.");
  Option test_path =
      required_path("tgt-test-path", "DIR", "Output folder for the test ImageDirectory.");
  train_path.instead = test_path.instead = "output-path";
  Option random_seed = seed(group, "Seed for the split.");
  random_seed.default_text = "42";  // as in the designer
  return with_record_options({
      required_path("src-path", "DIR", "Images, in any format that train reads."),
      train_path,
      test_path,
      optional_path("output-path", "DIR", "", kPaths,
                    "Folder for the ImageDirectories train and test, or train, valid and test, "
                    "instead of --tgt-train-path and --tgt-test-path."),
      {.name = "fraction",
       .value_name = "X",
       .default_text = "0.9",
       .unit = "",
       .group = group,
       .help = "Fraction of the images that goes to the training output, rounded down; each output "
               "gets at least one image.",
       .kind = ValueKind::kShare},
      optional_path("fractions", "X,X,X", "", group,
                    "Fractions for train, valid and test (or train and test) that add up to 1, "
                    "such as 0.8,0.1,0.1; needs --output-path. Each is rounded down, and the last "
                    "one gets the rest."),
      yes_or_no("stratify", ValueKind::kBoolean, "True", group,
                "Stratify the split by class. If a class has fewer images than there are outputs, "
                "or an output fewer images than there are classes, the split is random over all "
                "images, with a warning."),
      optional_path(
          "group-by", "REGEX", "", group,
          "Regular expression (ECMAScript) for image paths. Images with the same first capture "
          "group, or the same match if there is no group, go to one output; others are ungrouped."),
      yes_or_no("keep-duplicates-together", ValueKind::kSwitch, "False", group,
                "Keep duplicates in one output: identical bytes always, other sizes and qualities "
                "up to 20000 images."),
      yes_or_no(
          "check-leaks", ValueKind::kSwitch, "False", kReporting,
          "Print a JSON object per line for duplicates that went to different outputs; exit code 1 "
          "if there are any. For two existing folders: kiln inspect DIR --valid-data-path DIR."),
      random_seed,
  });
}

// Returns a share of less than 1, which leaves something for the other outputs. Throws Error.
double fraction_value(const std::string& text, const std::string& where) {
  const Option share = {.name = "fraction",
                        .value_name = "X",
                        .default_text = "",
                        .unit = "",
                        .group = "",
                        .help = "",
                        .kind = ValueKind::kShare};
  double value = 1;
  try {
    value = share_value(share, text, where);
  } catch (const Error& fault) {
    if (fault.code() == ErrorCode::kParameterParsing) throw;
  }
  if (value < 1) return value;
  throw Error(ErrorCode::kNotInRangeValue,
              where + " is " + text + ", but must be greater than 0 and less than 1.");
}

std::vector<double> fractions_of(const std::string& text) {
  std::vector<double> fractions;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    fractions.push_back(
        fraction_value(text.substr(begin, end - begin), "A fraction in --fractions"));
    begin = end + 1;
  }
  if (fractions.size() != 2 && fractions.size() != 3)
    throw Error(ErrorCode::kParameterParsing,
                "--fractions is '" + text +
                    "', but must be the fractions for train and test, such as 0.9,0.1, or for "
                    "train, valid and test, such as 0.8,0.1,0.1.");
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  if (std::abs(sum - 1) > kRounding)
    throw Error(ErrorCode::kNotInRangeValue, "--fractions is " + text + ", which adds up to " +
                                                 std::to_string(sum) + ", but must add up to 1.");
  return fractions;
}

void bind_fractions(Binder& binder, SplitImagesConfig& config) {
  config.part_names = {"train", "test"};
  if (!binder.given("fractions")) {
    const std::string text = binder.path("fraction");
    binder.check("fraction", [&] {
      const double fraction = fraction_value(text, "--fraction");
      config.fractions = {fraction, 1 - fraction};
    });
    return;
  }
  const std::string text = binder.path("fractions");
  if (!text.empty()) binder.check("fractions", [&] { config.fractions = fractions_of(text); });
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

Command bind_parts(Binder& binder) {
  SplitImagesConfig config;
  config.src_path = binder.path("src-path");
  const std::string train = binder.path("tgt-train-path"), test = binder.path("tgt-test-path");
  const std::string parent = binder.path("output-path");
  require_apart(binder, "tgt-train-path", train, "src-path", config.src_path);
  require_apart(binder, "tgt-test-path", test, "src-path", config.src_path);
  require_apart(binder, "tgt-test-path", test, "tgt-train-path", train);
  require_apart(binder, "output-path", parent, "src-path", config.src_path);
  bind_fractions(binder, config);
  config.part_paths = {train, test};
  if (!parent.empty()) {
    config.part_paths.clear();
    for (const std::string& name : config.part_names)
      config.part_paths.push_back((std::filesystem::path(parent) / name).string());
  }
  config.stratify = binder.boolean("stratify");
  config.group_by = binder.path("group-by");
  check_group_by(binder, config.group_by);
  config.keep_duplicates_together = binder.boolean("keep-duplicates-together");
  config.check_leaks = binder.boolean("check-leaks");
  config.random_seed = binder.integer("random-seed");
  config.records = bind_records(binder);
  return config;
}

}  // namespace

CommandInfo split_command() {
  return {"split",
          "Split labeled images into a training and a test ImageDirectory, or into train, valid "
          "and test.",
          "--src-path DIR --tgt-train-path DIR --tgt-test-path DIR [options]", parts_options(),
          bind_parts};
}

}  // namespace kiln
