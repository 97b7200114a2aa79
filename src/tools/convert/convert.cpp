#include "tools/commands.h"

#include <string>

#include "data/dataset/dataset.h"
#include "tools/convert/image_directory_writer.h"

namespace kiln {
namespace {

std::string found_line(const Dataset& set) {
  std::string line = "Found " + std::to_string(set.samples.size()) +
                     (set.samples.size() == 1 ? " image" : " images");
  if (set.labeled()) {
    const std::size_t num_classes = set.classes.size();
    line += " in " + std::to_string(num_classes) + (num_classes == 1 ? " class" : " classes");
  } else {
    line += " without labels";
  }
  return line + " (" + describe(set.kind) + " '" + set.root.string() + "').";
}

}  // namespace

int run(const ConvertConfig& config, Process& process) {
  Log& log = process.log;
  const Dataset set = read_dataset(config.input_path, "Input dataset", config.records);
  log.info(found_line(set));
  for (const std::string& note : set.notes) log.warning(note);
  if (!set.labeled()) {
    log.warning(
        "The images are not in class folders one level deep, so the output has no labels and "
        "cannot be used for training.");
  }
  prepare_image_output(config.output_path, config.input_path);
  const OtherContents others = write_image_directory(set, config.output_path);
  if (const std::string note = others.note(); !note.empty()) log.warning(note);
  log.info("Wrote the ImageDirectory '" + config.output_path + "'.");
  return 0;
}

}  // namespace kiln
