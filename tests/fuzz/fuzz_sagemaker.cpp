// A SageMaker job: resourceconfig.json, inputdataconfig.json and hyperparameters.json, with a line
// "--" between them.
#include "base/error.h"
#include "fuzz/fuzz.h"
#include "tools/sagemaker/sagemaker_job.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  std::string files = fuzz::text_of(data, size);
  for (const char* name : {"resourceconfig", "inputdataconfig", "hyperparameters"})
    fuzz::put(std::string("input/config/") + name + ".json", fuzz::take_part(files));
  fuzz::accepts<Problems>([&] { sagemaker_job(fuzz::folder(), {"train"}, 1); });
  return 0;
}
