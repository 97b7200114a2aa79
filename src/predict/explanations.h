// Pictures of where in an image a network saw its answer, and the folder that they are written to.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_folder.h"
#include "data/dataset/dataset.h"
#include "data/image/image.h"
#include "data/transform/image_pipeline.h"
#include "predict/predictor.h"

namespace kiln {

// The image in gray, half covered by the colors of `map`: matplotlib's viridis, from dark violet
// for 0 to yellow for 1, which gets evenly lighter. `map`: [h, w] from 0 to 1, float32 on the CPU;
// enlarged bilinearly.
Image with_heat_map(const Image& image, const at::Tensor& map);

// "007-photo.jpg" for the 7th picture, of an image with any path, such as "a/photo.png": a name
// without separators, spaces, control characters and characters that shells and file systems
// treat specially.
std::string explanation_name(std::size_t number, std::string_view image);

struct ExplainedAnswer {
  std::size_t image = 0;  // of the set
  int class_id = 0;
  float confidence = 0;
};

// What was drawn for the answers of a model.
struct Explained {
  // Of each answer: [h, w] from 0 to 1, float32 on the CPU; undefined for an image that can no
  // longer be read.
  std::vector<at::Tensor> maps;
  std::vector<std::string> notes;  // sentences for warnings
};

// Pictures, and explanations.csv with a row for each: path, label, confidence, file. Each of
// several models has them in a subfolder of its own: `model-1`, `model-2` and so on. One thread.
class ExplanationFolder {
 public:
  // Makes the folder where it is missing, and locks it. Throws Error kFailedToWriteOutputs where it
  // holds anything but earlier explanations, and what OutputFolder throws.
  explicit ExplanationFolder(const std::filesystem::path& folder, std::size_t num_models = 1);

  // Draws answers of the next model, under temporary names. `pixels` is how it saw the images,
  // which are read again, one after the other. One that can no longer be read has a row without a
  // file. Call it once for each model.
  Explained add(Predictor& predictor, const at::Device& device, const TransformSpec& pixels,
                const Dataset& set, const std::vector<ExplainedAnswer>& answers);

  // Replaces earlier explanations by all that was added, at once.
  void commit();

 private:
  OutputFolder folder_;
  const std::size_t num_models_;
  std::size_t num_added_ = 0;
  std::vector<DurableFile> files_;
};

}  // namespace kiln
