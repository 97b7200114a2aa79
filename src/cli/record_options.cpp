// The options of all commands that read datasets for what record files do not say about themselves.
#include <stdexcept>
#include <utility>

#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {

std::vector<Option> record_options() {
  return {
      optional_path(
          "classes", "FILE", "", kPaths,
          "File of class names, one per line, in the order of their indices in record files and "
          "shards. Named classes, such as folders, must be listed and get their indices from it. "
          "Default: classes.txt next to the files, or the names in them, or the numbers."),
      choice("first-label", {"auto", "0", "1"}, kPaths,
             "Number of the first class in label files and records. auto: 1 if no label is 0 and, "
             "with a file of class names, the highest equals their number; else 0."),
      optional_path("record-keys", "KEYS", "", kPaths,
                    "Feature names in TFRecord files, if not image/encoded, image/class/label, "
                    "image/class/text and image/filename: image=KEY,label=KEY,text=KEY,name=KEY, "
                    "or some of these."),
  };
}

std::vector<Option> with_record_options(std::vector<Option> options) {
  for (Option& option : record_options()) options.push_back(std::move(option));
  return options;
}

std::vector<TrainOption> train_record_options() {
  std::vector<TrainOption> options;
  for (Option& option : record_options()) options.emplace_back(Effect::kResult, std::move(option));
  return options;
}

Option exif(std::string group, std::string help) {
  return choice("exif", {"auto", "apply", "ignore"}, std::move(group),
                "Whether pictures are turned upright as their EXIF orientation says. auto: ignore "
                "for an ImageDirectory, as in the designer, else apply. " +
                    std::move(help));
}

void bind_exif(Binder& binder, RecordOptions& options) {
  options.exif = exif_named(binder.choice("exif"));
}

RecordOptions bind_records(Binder& binder) {
  RecordOptions options;
  options.classes_file = binder.path("classes");
  const std::string first = binder.choice("first-label");
  if (first == "0" || first == "1") options.first_label = first == "1" ? 1 : 0;
  const std::string keys = binder.path("record-keys");
  try {
    options.keys = parse_record_keys(keys);
  } catch (const std::invalid_argument& fault) {
    binder.fault("record-keys", ErrorCode::kParameterParsing,
                 "--record-keys '" + keys + "': " + fault.what() + ".");
  }
  return options;
}

}  // namespace kiln
