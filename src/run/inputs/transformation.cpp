#include "run/inputs/transformation.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "store/transformation_directory.h"

namespace kiln {
namespace {

// `form` is the training form of the operations if `trains`, else the inference form. Throws Error
// kInvalidDataset.
TransformSpec plan_of(const TransformChain& form, bool trains, std::optional<ImageSize> whole_image,
                      const std::string& path) {
  const auto refuse = [&](const std::string& fault) {
    throw Error(ErrorCode::kInvalidDataset, std::string(trains ? "Training" : "Validation") +
                                                " dataset is not valid: " + fault);
  };
  const std::string operations = "--transform-path '" + path + "' (" + form.summary() + ")";
  try {
    const std::optional<ImageSize> size = form.output_size(whole_image);
    if (!size)
      refuse("after " + operations + " its images would have different sizes. " +
             (trains ? "End the operations with one that fixes the size, such as CenterCrop or "
                       "RandomResizedCrop."
                     : "Operations whose names begin with Random run only in training: let the "
                       "others fix the size, such as Resize and CenterCrop."));
    return {.output = *size,
            .chain = trains ? training_chain(form, whole_image) : inference_chain(form)};
  } catch (const ImageFault& fault) {
    refuse("its images cannot be processed by " + operations + ": " + fault.what() + ".");
    throw;
  }
}

}  // namespace

TransformChain read_transformation(const std::filesystem::path& folder) {
  const std::string text = read_transformation_directory(folder);
  Problems problems;
  TransformChain chain = TransformChain::parse(text, (folder / kTransformsFile).string(), problems);
  problems.throw_if_any();
  return chain;
}

bool gives_one_size(const TransformChain& chain) {
  try {
    return chain.output_size() && chain.for_inference().output_size();
  } catch (const ImageFault&) {  // reported by plans_of()
    return true;
  }
}

ChainPlans plans_of(const TransformChain& chain, std::optional<ImageSize> whole_image,
                    const std::string& path) {
  return {.train = plan_of(chain, /*trains=*/true, whole_image, path),
          .valid = plan_of(chain.for_inference(), /*trains=*/false, whole_image, path)};
}

}  // namespace kiln
