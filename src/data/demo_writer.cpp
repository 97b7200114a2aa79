#include "data/demo_writer.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "data/demo_shapes.h"
#include "data/encode.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr int kJpegQuality = 92;

void create_folder(const fs::path& folder) {
  std::error_code fault;
  fs::create_directories(folder, fault);
  if (!fault) return;
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "'" + folder.string() + "' cannot be written: " + fault.message() +
                  ". Check its permissions or choose another output.");
}

void check_is_empty(const fs::path& folder) {
  std::error_code fault;
  auto entry = fs::directory_iterator(folder, fault);
  for (; !fault && entry != fs::directory_iterator(); entry.increment(fault)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.') || name == "lost+found") continue;
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "Output '" + folder.string() + "': it is not empty ('" + name +
                    "' is in it). Empty it or choose another output.");
  }
  if (!fault) return;
  throw Error(ErrorCode::kFailedToWriteOutputs, "Output '" + folder.string() +
                                                    "' cannot be read: " + fault.message() +
                                                    ". Choose another output.");
}

void write_image(const fs::path& folder, int shape, int index, int number, const DemoPlan& plan) {
  const Image image =
      draw_demo_image(shape, plan.size, plan.seed, static_cast<std::uint64_t>(index));
  const bool as_jpeg = number % 2 == 0;
  char name[32];
  std::snprintf(name, sizeof name, "%04d.%s", number, as_jpeg ? "jpg" : "png");
  write_file_durably(folder / name, as_jpeg ? encode_jpeg(image, kJpegQuality) : encode_png(image));
}

}  // namespace

DemoCounts write_demo_data(const fs::path& folder, const DemoPlan& plan) {
  create_folder(folder);
  check_is_empty(folder);
  DemoCounts counts;
  for (int shape = 0; shape < plan.num_classes; ++shape) {
    const bool takes_rest = shape < plan.num_images % plan.num_classes;
    const int total = std::max(2, plan.num_images / plan.num_classes + (takes_rest ? 1 : 0));
    const int num_train = std::min(total - 1, std::max(1, total * 4 / 5));
    const std::string name(demo_class_name(shape));
    create_folder(folder / "train" / name);
    create_folder(folder / "val" / name);
    for (int i = 0; i < num_train; ++i) write_image(folder / "train" / name, shape, i, i, plan);
    for (int i = num_train; i < total; ++i) {
      write_image(folder / "val" / name, shape, i, i - num_train, plan);
    }
    counts.train += num_train;
    counts.valid += total - num_train;
  }
  return counts;
}

}  // namespace kiln
