// The demo data on disk: `train/<class>/0000.jpg`, `val/<class>/0000.png`, …; JPEG and PNG take
// turns.
#pragma once

#include <cstdint>
#include <filesystem>

namespace kiln {

struct DemoPlan {
  int num_images = 600;  // of all classes together; four fifths for training
  int num_classes = 3;
  int size = 32;
  std::uint64_t seed = 1;
};

struct DemoCounts {
  int train = 0;
  int valid = 0;
};

// `folder` must be missing or empty, but for names that begin with a dot and lost+found; else Error
// kFailedToWriteOutputs, and so when it cannot be written. Every class has at least one image on
// each side.
DemoCounts write_demo_data(const std::filesystem::path& folder, const DemoPlan& plan);

}  // namespace kiln
