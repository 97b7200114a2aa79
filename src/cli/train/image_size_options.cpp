// The options of `kiln train` for the sizes of images.
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {

ImageSizes image_sizes_value(const Option& option, const std::string& text,
                             const std::string& where) {
  const std::size_t colon = text.find(':');
  if (colon == text.npos) return {0, static_cast<int>(integer_value(option, text, where))};
  const ImageSizes sizes{static_cast<int>(integer_value(option, text.substr(0, colon), where)),
                         static_cast<int>(integer_value(option, text.substr(colon + 1), where))};
  if (sizes.first == 0 || sizes.last == 0)
    throw Error(
        ErrorCode::kParameterParsing,
        where + " is '" + text + "', but a growing size needs two numbers, such as 128:224.");
  if (sizes.first >= sizes.last)
    throw Error(ErrorCode::kParameterParsing,
                where + " is " + text + ", but images can only grow over training: write " +
                    (sizes.first == sizes.last
                         ? std::to_string(sizes.last)
                         : std::to_string(sizes.last) + ":" + std::to_string(sizes.first)) +
                    ".");
  return sizes;
}

CropSize crop_size_value(const Option& option, const std::string& text, const std::string& where) {
  if (text == "larger" || text == "Larger" || text == "LARGER") return {0, true};
  return {static_cast<int>(integer_value(option, text, where)), false};
}

std::vector<TrainOption> image_size_options() {
  Option image_size =
      integer("image-size", "auto", 16, 2048, "pixels", kImages,
              "Resize images to this height and width. auto: the size that all images share, if "
              "they are an ImageDirectory or have no side above 256; else 224. 128:224: training "
              "starts at 128 pixels and grows to 224 in steps of "
              "32, each for the same number of epochs; validation always uses the last size.");
  image_size.kind = ValueKind::kTrainingSize;
  image_size.value_name = "auto|N|N:N";
  Option eval_crop =
      integer("eval-crop", "auto", 16, 2048, "pixels", kImages,
              "Center crop size for validation images. auto: the training size. larger: if images "
              "are resized, 7/6 of it, rounded up to a multiple of 32, since random crops make "
              "objects appear larger; else the training size.");
  eval_crop.kind = ValueKind::kCropSize;
  eval_crop.value_name = "auto|larger|N";
  return {
      {Effect::kResult, image_size},
      {Effect::kResult,
       integer("eval-resize", "auto", 16, 4096, "pixels", kImages,
               "Resize the short side of validation images to this length. auto: 256/224 of "
               "--eval-crop, or no resizing if images already have the crop size.")},
      {Effect::kResult, eval_crop},
      {Effect::kResult, exif(kImages, "The trained model keeps the choice for all later images.")},
  };
}

void bind_image_sizes(Binder& binder, DataConfig& config) {
  const ImageSizes sizes = binder.image_sizes("image-size");
  config.first_image_size = sizes.first;
  config.image_size = sizes.last;
  config.eval_resize = binder.small_integer("eval-resize");
  const CropSize crop = binder.crop_size("eval-crop");
  config.eval_crop = crop.side;
  config.larger_eval_crop = crop.is_larger;
  binder.check("eval-resize", [&] {
    check_eval_size(config.eval_resize,
                    config.eval_crop > 0 ? config.eval_crop : config.image_size);
  });
}

void check_eval_size(int short_side, int crop) {
  if (short_side == 0 || short_side >= crop) return;
  throw Error(ErrorCode::kParameterParsing,
              "--eval-resize is " + std::to_string(short_side) +
                  ", smaller than the center crop of " + std::to_string(crop) +
                  " pixels: use --eval-resize " + std::to_string(crop) +
                  " or more, or a smaller --eval-crop.");
}

}  // namespace kiln
