// Options of all commands that read datasets: what record files do not say of themselves.
#include <stdexcept>
#include <utility>

#include "config/binder.h"
#include "config/option_rows.h"

namespace kiln {

std::vector<Option> record_options() {
  return {
      optional_path("classes", "FILE", "", kPaths,
                    "Names of the classes, one a line, in the order of their numbers in record "
                    "files and shards. Classes that have names, such as folders, must be among "
                    "them and take their numbers. Default: classes.txt beside the files, or the "
                    "names in them, or the numbers."),
      choice("first-label", {"auto", "0", "1"}, kPaths,
             "Number of the first class in record files. auto: 1 if no label is 0 and, where "
             "classes have a file of names, one is their number; else 0."),
      optional_path("record-keys", "KEYS", "", kPaths,
                    "Names of the features in TFRecord files where they are not image/encoded, "
                    "image/class/label, image/class/text and image/filename: "
                    "image=KEY,label=KEY,text=KEY,name=KEY, or some of these."),
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
