#include "tools/commands.h"

#include <filesystem>
#include <string>

#include "tools/demo_data/demo_images.h"

namespace kiln {

int run(const DemoDataConfig& config, Process& process) {
  const DemoCounts counts =
      write_demo_data(config.output_path, {.num_images = config.images,
                                           .num_classes = config.classes,
                                           .size = config.size,
                                           .seed = static_cast<std::uint64_t>(config.random_seed)});
  const std::filesystem::path folder(config.output_path);
  const std::string size = std::to_string(config.size);
  process.log.info("Generated " + std::to_string(counts.train + counts.valid) + " images of " +
                   size + "x" + size + " pixels in " + std::to_string(config.classes) +
                   " classes.");
  process.log.info("Wrote " + std::to_string(counts.train) + " training images to '" +
                   (folder / "train").string() + "' and " + std::to_string(counts.valid) +
                   " validation images to '" + (folder / "val").string() + "'.");
  return 0;
}

}  // namespace kiln
