// The options of `kiln train` for a single dataset that is split into training and validation
// images.
#include <stdexcept>
#include <string>

#include "base/files.h"
#include "base/path_pattern.h"
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

constexpr const char* kOfSplit[] = {"valid-fraction", "group-by", "split", "labels"};

void check_form(Binder& binder, bool has_shards) {
  const bool is_split = binder.given("data-path");
  for (const char* option : kOfSplit)
    if (!is_split && binder.given(option))
      binder.fault(option, ErrorCode::kParameterParsing,
                   std::string("--") + option +
                       " needs --data-path, the dataset to split: give it instead of "
                       "--train-data-path and --valid-data-path.");
  if (has_shards && is_split)
    binder.fault("data-path", ErrorCode::kParameterParsing,
                 "--data-path cannot be used with --shard-by none or train: each host would split "
                 "its own images without knowing the others' duplicates and groups. Give "
                 "--train-data-path and --valid-data-path.");
}

}  // namespace

void check_group_by(Binder& binder, const std::string& pattern) {
  try {
    const PathPattern valid(pattern);
  } catch (const std::invalid_argument& fault) {
    binder.fault("group-by", ErrorCode::kParameterParsing,
                 "--group-by " + quoted_path(pattern) +
                     " cannot be used as a regular expression: " + fault.what() +
                     ". An example is '(patient[0-9]+)_'.");
  }
}

std::vector<TrainOption> split_options() {
  const Option data_path =
      optional_path("data-path", "DIR", "", kPaths,
                    "All images, in the same formats, to be split into training and validation "
                    "images, instead of --train-data-path and --valid-data-path. Duplicates stay "
                    "on one side: identical bytes always, other sizes and qualities up to 20000 "
                    "images. split.csv in the log folder lists the result.");
  const Option fraction = {.name = "valid-fraction",
                           .value_name = "X",
                           .default_text = "0.2",
                           .unit = "",
                           .group = kPaths,
                           .help =
                               "Fraction of each class of --data-path used for validation, at "
                               "least one image. The choice depends on the images and "
                               "--random-seed: adding images later moves only a few others.",
                           .kind = ValueKind::kShare};
  return {
      {Effect::kFree, data_path},
      {Effect::kResult, fraction},
      {Effect::kResult,
       optional_path("group-by", "REGEX", "", kPaths,
                     "Regular expression (ECMAScript) for image paths in --data-path. Images with "
                     "the same first capture group, or the same match if there is no group, stay "
                     "on one side; others are ungrouped.")},
      {Effect::kFree,
       optional_path("split", "FILE", "", kPaths,
                     "split.csv of an earlier run, or another CSV file with columns path and set "
                     "(train or valid), that assigns each image of --data-path.")},
      {Effect::kFree,
       optional_path(
           "labels", "FILE", "", kPaths,
           "CSV file with columns path and label that corrects labels of --data-path before it is "
           "split. A new label is a new class; images with an empty label are dropped.")},
  };
}

SplitConfig bind_split(Binder& binder, bool has_shards) {
  SplitConfig config;
  config.data_path = binder.path("data-path");
  config.valid_fraction = binder.share("valid-fraction").value_or(config.valid_fraction);
  config.group_by = binder.path("group-by");
  config.file = binder.path("split");
  config.labels = binder.path("labels");
  check_form(binder, has_shards);
  check_group_by(binder, config.group_by);
  if (config.valid_fraction >= 1)
    binder.fault(
        "valid-fraction", ErrorCode::kNotInRangeValue,
        "--valid-fraction is 1, which leaves nothing to train on: use less than 1, such as 0.2.");
  for (const char* option : {"valid-fraction", "group-by"})
    if (binder.given("split") && binder.given(option))
      binder.fault(option, ErrorCode::kParameterParsing,
                   std::string("--") + option +
                       " and --split are both given, but the file already assigns each image: omit "
                       "one of them.");
  return config;
}

}  // namespace kiln
