#include "inputs/transformation.h"

#include <string>

#include "base/error.h"
#include "store/transformation_directory.h"

namespace kiln {

TransformChain read_transformation(const std::filesystem::path& folder) {
  const std::string text = read_transformation_directory(folder);
  Problems problems;
  TransformChain chain = TransformChain::parse(text, (folder / kTransformsFile).string(), problems);
  problems.throw_if_any();
  return chain;
}

}  // namespace kiln
