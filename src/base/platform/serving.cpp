#include "base/platform/serving.h"

#include <initializer_list>

#include "base/error.h"
#include "base/platform/sagemaker.h"
#include "base/system.h"
#include "base/text.h"

namespace kiln {
namespace {

// The number in the first of the variables that is set; `otherwise` if none is.
int number(std::initializer_list<const char*> names, int otherwise, int least, int most) {
  for (const char* name : names) {
    const std::string text = environment(name);
    if (text.empty()) continue;
    const bool is_number = text.size() <= 6 && text.find_first_not_of("0123456789") == text.npos;
    const int value = is_number ? std::stoi(text) : -1;
    if (value < least || value > most)
      throw Error(ErrorCode::kParameterParsing,
                  std::string(name) + " is '" + excerpt(text) +
                      formatted("', but must be a number from %d to %d.", least, most));
    return value;
  }
  return otherwise;
}

}  // namespace

ServingPlace read_serving_place() {
  ServingPlace place;
  place.models = {sagemaker_folder() / "model"};
  if (const std::string azure = environment("AZUREML_MODEL_DIR"); !azure.empty())
    place.models.emplace_back(azure);
  place.models.emplace_back("/mnt/models");
  place.storage_uri = environment("AIP_STORAGE_URI");
  if (!environment("AIP_HTTP_PORT").empty()) place.host = kEveryInterface;
  if (const std::string host = environment("KILN_HOST"); !host.empty()) place.host = host;
  place.port = number({"AIP_HTTP_PORT", "SAGEMAKER_BIND_TO_PORT"}, place.port, 1, 65535);
  place.is_batch_transform = environment("SAGEMAKER_BATCH") == "true";
  constexpr int kMostMib = 1024, kNotSet = -1;
  const int payload = number({"SAGEMAKER_MAX_PAYLOAD_IN_MB"}, kNotSet, 0, kMostMib);
  if (payload != kNotSet) place.max_body_mib = payload == 0 ? kMostMib : payload;
  place.vertex_health = environment("AIP_HEALTH_ROUTE");
  place.vertex_predict = environment("AIP_PREDICT_ROUTE");
  return place;
}

}  // namespace kiln
