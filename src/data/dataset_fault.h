// How the readers of one data set say what is wrong with it.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"

namespace kiln {

struct DatasetContext {
  std::filesystem::path root;
  std::string name;  // "Training dataset"

  // "Training dataset 'PATH': `text`".
  [[noreturn]] void fail(const std::string& text,
                         ErrorCode code = ErrorCode::kInvalidDataset) const {
    throw Error(code, name + " '" + root.string() + "': " + text);
  }
};

}  // namespace kiln
