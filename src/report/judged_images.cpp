#include "report/judged_images.h"

#include "report/run_json.h"

namespace kiln {

std::string pack_judged_images(const std::vector<JudgedImage>& images) {
  return json_text(as_json(images));
}

std::vector<JudgedImage> unpack_judged_images(const std::string& text) {
  std::vector<JudgedImage> images;
  from_json(Json::parse(text), images);
  return images;
}

}  // namespace kiln
