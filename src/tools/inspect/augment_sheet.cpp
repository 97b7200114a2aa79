#include "tools/inspect/augment_sheet.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/dataset/dataset.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/image_index.h"
#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/transform/image_pipeline.h"
#include "report/page/augment_sheet.h"

namespace kiln {
namespace {

constexpr std::size_t kImages = 12;
constexpr int kVariants = 6;
constexpr int kLongestSide = 224;  // in pixels, of a picture on the page
constexpr int kQuality = 85;

TransformSpec transform_of(const InspectConfig& config, Dataset& set) {
  TransformSpec plan;
  plan.exif = set.exif;
  plan.augment = *config.augment;
  int side = config.image_size;
  if (side == 0) {
    scan_sizes(set, SizesWanted::kCommon);
    const AutomaticSize chosen = automatic_size({&set});
    plan.output = chosen.size;
    if (chosen.is_stored) return plan;
    side = chosen.size.height;
  }
  plan.output = {side, side};
  plan.short_side = usual_short_side(side);
  return plan;
}

// A JPEG file of the image, reduced if a side is longer than kLongestSide.
std::string picture_of(Image image) {
  const ImageSize size = image.size;
  const int longest = std::max(size.height, size.width);
  if (longest <= kLongestSide) return encode_jpeg(image, kQuality);
  const auto scaled = [&](int length) { return std::max(1, length * kLongestSide / longest); };
  Image small{{scaled(size.height), scaled(size.width)}, {}};
  small.pixels.resize(static_cast<std::size_t>(small.size.height) *
                      static_cast<std::size_t>(small.size.width) * 3);
  const auto axis = [](int length, int resized) {
    return ResampleAxis{0, static_cast<double>(length), resized, 0, resized};
  };
  Resampler().write({image.pixels.data(), {0, 0, size}}, axis(size.height, small.size.height),
                    axis(size.width, small.size.width), /*mirror=*/false, small.pixels.data());
  return encode_jpeg(small, kQuality);
}

// Empty for an image that cannot be decoded.
std::optional<AugmentedImage> variants_of(const Dataset& set, std::size_t i,
                                          const TransformSpec& plan, std::uint64_t seed) {
  AugmentedImage shown;
  shown.file = std::string(set.samples.file_name(i));
  if (const int label = set.samples.label(i); label >= 0)
    shown.label = set.classes.at(static_cast<std::size_t>(label));
  try {
    std::string bytes;
    read_image_bytes(set, i, bytes);
    ImagePipeline pipeline;
    for (int epoch = 1; epoch <= kVariants; ++epoch) {
      Image image{plan.output, std::vector<std::uint8_t>(image_bytes(plan))};
      pipeline.write(bytes, plan, {seed, static_cast<std::uint64_t>(epoch), i},
                     image.pixels.data());
      shown.variants.push_back(picture_of(std::move(image)));
    }
  } catch (const ImageFault&) {
    return {};
  }
  return shown;
}

AugmentSheet drawn_sheet(const InspectConfig& config) {
  Dataset set = read_dataset(config.path, "Folder", config.records);
  const TransformSpec plan = transform_of(config, set);
  AugmentSheet sheet{.data_path = config.path,
                     .augment = plan.augment,
                     .height = plan.output.height,
                     .width = plan.output.width,
                     .seed = config.random_seed,
                     .images = {}};
  const std::size_t count = set.samples.size(), wanted = std::min(kImages, count);
  std::size_t next = 0;
  for (std::size_t place = 0; place < wanted; ++place) {
    next = std::max(next, place * count / wanted);
    for (bool is_shown = false; !is_shown && next < count; ++next)
      if (auto image =
              variants_of(set, next, plan, static_cast<std::uint64_t>(config.random_seed))) {
        sheet.images.push_back(std::move(*image));
        is_shown = true;
      }
  }
  if (sheet.images.empty())
    throw Error(ErrorCode::kInvalidDataset,
                "None of the images in '" + config.path +
                    "' can be decoded: `kiln inspect --check` shows why.");
  return sheet;
}

}  // namespace

int write_augment_sheet(const InspectConfig& config, Log& log) {
  const AugmentSheet sheet = drawn_sheet(config);
  write_file_durably(config.output_path, augment_sheet_html(sheet));
  log.info(formatted("Wrote '%s': %zu images of %dx%d pixels, %d times each.",
                     config.output_path.c_str(), sheet.images.size(), sheet.width, sheet.height,
                     kVariants));
  return 0;
}

}  // namespace kiln
