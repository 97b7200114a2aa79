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
#include "run/predictor.h"

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

// Pictures, and explanations.csv with a row for each: path, label, confidence, file. One thread.
class ExplanationFolder {
 public:
  // Makes the folder where it is missing, and locks it. Throws Error kFailedToWriteOutputs where it
  // holds anything but earlier explanations, and what OutputFolder throws.
  explicit ExplanationFolder(const std::filesystem::path& folder);

  // Replaces earlier explanations, all at once. `pixels` is how the network saw the images, which
  // are read again, one after the other. One that can no longer be read has a row without a file.
  // Returns sentences for warnings.
  std::vector<std::string> write(Predictor& predictor, const at::Device& device,
                                 const TransformSpec& pixels, const Dataset& set,
                                 const std::vector<ExplainedAnswer>& answers);

 private:
  OutputFolder folder_;
};

}  // namespace kiln
