#include "report/judged_images.h"

#include "report/run_json.h"

namespace kiln {

std::string pack_judged_images(const std::vector<JudgedImage>& images) {
  return as_json(images).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::vector<JudgedImage> unpack_judged_images(const std::string& text) {
  std::vector<JudgedImage> images;
  from_json(Json::parse(text), images);
  return images;
}

}  // namespace kiln
