// Pictures of images for people: thumbnails, heat maps of where in an image a network saw its
// answer, and the folder that heat maps are written to.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/output_folder.h"
#include "data/dataset/dataset.h"
#include "data/image/image.h"
#include "data/transform/image_pipeline.h"
#include "predict/predictor.h"
#include "record/training_record.h"
#include "train/evaluation.h"

namespace kiln {

// The image with the colors of `map` (PicturesModule::with_heat_map): [h, w] from 0 to 1, float32
// on the CPU. Throws as require_pictures_module().
Image with_heat_map(const Image& image, const at::Tensor& map);

// File name of picture number `number`, for an image with any path: "007-photo.jpg" for the 7th
// picture, of "a/photo.png". Contains no separators, spaces, control characters, or characters that
// are special to shells and file systems.
std::string explanation_name(std::size_t number, std::string_view image);

// Holds the pictures, and explanations.csv with a row for each: path, label, confidence, file. With
// several models, each has its own subfolder: `model-1`, `model-2` and so on. One thread.
class ExplanationFolder {
 public:
  // Creates the folder if it is missing, and locks it. Throws Error kFailedToWriteOutputs if it
  // holds anything but earlier explanations, and what OutputFolder throws.
  explicit ExplanationFolder(const std::filesystem::path& folder, std::size_t num_models = 1);

  // Draws answers (of images of `set`; their labels do not matter) of the next model, under
  // temporary names. Reads the images again, one at a time, and transforms them with `pixels`, as
  // the model saw them, without padding. An image without a map gets a row without a file, and the
  // log says why; so do all where pictures_module() is missing. Call once for each model. Returns a
  // map for each answer: [h, w] from 0 to 1, float32 on the CPU; undefined if there is none.
  std::vector<at::Tensor> add(Predictor& model, const TransformSpec& pixels, const Dataset& set,
                              const std::vector<Prediction>& answers, Log& log);

  // Replaces earlier explanations with everything that was added, all at once, and logs how many.
  void commit(Log& log);

 private:
  OutputFolder folder_;
  const std::size_t num_models_;
  std::size_t num_added_ = 0, num_drawn_ = 0;
  std::vector<DurableFile> files_;
};

// Image `i` as a model sees it through `plan`, but not augmented, without padding and with sides of
// at most 256 pixels; overlaid with `map` by with_heat_map() if that is defined. Has no bytes if
// the image can no longer be read, or pictures_module() is missing.
Thumbnail thumbnail_of(const Dataset& set, std::size_t i, const TransformSpec& plan,
                       const at::Tensor& map = {});

}  // namespace kiln
