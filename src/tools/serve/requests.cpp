// Images as people and most platforms send them.
#include "tools/serve/requests.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxParts = 1024;  // of a multipart body

// The value of `name` in a header such as `form-data; name="image"; filename="a.jpg"`.
std::string parameter_of(std::string_view header, std::string_view name) {
  const std::string wanted = std::string(name) + "=";
  for (std::size_t at = header.find(';'); at != header.npos; at = header.find(';', at)) {
    at = header.find_first_not_of("; \t", at);
    if (at == header.npos) break;
    const std::string_view rest = header.substr(at);
    if (in_small_letters(rest.substr(0, wanted.size())) != wanted) continue;
    const std::string_view value = rest.substr(wanted.size());
    if (value.starts_with('"')) return std::string(value.substr(1, value.find('"', 1) - 1));
    return std::string(value.substr(0, value.find_first_of("; \t")));
  }
  return "";
}

// The parts of multipart/form-data (RFC 7578) that have a file name or are called image.
std::vector<EncodedImage> images_of_form(const std::shared_ptr<const std::string>& body,
                                         std::string_view type) {
  const std::string boundary = parameter_of(type, "boundary");
  if (boundary.empty()) throw BadRequest("The Content-Type of the form has no boundary.");
  const std::string_view all = *body;
  const std::string between = "\r\n--" + boundary;
  std::vector<EncodedImage> images;
  std::size_t at = all.starts_with(between.substr(2)) ? between.size() - 2 : all.npos;
  for (std::size_t part = 0; at != all.npos && !all.substr(at).starts_with("--"); ++part) {
    const std::size_t head_end = all.find("\r\n\r\n", at);
    const std::size_t end = head_end == all.npos ? all.npos : all.find(between, head_end + 2);
    if (end == all.npos || part == kMaxParts)
      throw BadRequest("The form ends early, or has more than 1024 parts.");
    std::string disposition;
    for (std::string_view head = all.substr(at, head_end - at); !head.empty();) {
      const std::string_view line = head.substr(0, head.find("\r\n"));
      if (in_small_letters(line).starts_with("content-disposition:")) disposition = line;
      head.remove_prefix(std::min(head.size(), line.size() + 2));
    }
    const std::string file = parameter_of(disposition, "filename");
    if (!file.empty() || parameter_of(disposition, "name") == "image")
      images.push_back({body, all.substr(head_end + 4, end - std::min(end, head_end + 4)), file});
    at = end + between.size();
  }
  if (images.empty()) throw BadRequest("The form has no image: send it as a file.");
  return images;
}

// The base64 of an instance: {"b64": "…"}, as the value of any key, or plain.
const std::string* base64_of(const Json& instance, int depth = 0) {
  if (instance.is_string()) return &instance.get_ref<const std::string&>();
  if (!instance.is_object() || depth > 1) return nullptr;
  for (const char* key : {"b64", "content", "image", "image_bytes", "data"})
    if (const auto found = instance.find(key); found != instance.end())
      return base64_of(*found, depth + 1);
  return nullptr;
}

}  // namespace

EncodedImage image_of_base64(std::string_view text) {
  if (text.starts_with("data:")) text.remove_prefix(std::min(text.find(',') + 1, text.size()));
  try {
    auto bytes = std::make_shared<const std::string>(from_base64(text));
    const std::string_view all = *bytes;
    return {std::move(bytes), all};
  } catch (const std::invalid_argument&) {
    throw BadRequest("An image is not valid base64 (RFC 4648, without line breaks).");
  }
}

AskedImages read_images(HttpRequest request) {
  const std::string type = in_small_letters(request.header("content-type"));
  if (request.body.empty()) throw BadRequest("The body is empty: send an image.");
  if (!type.starts_with("application/json")) {
    const auto body = std::make_shared<const std::string>(std::move(request.body));
    if (!type.starts_with("multipart/form-data")) return {{{body, *body}}, true};
    return {images_of_form(body, request.header("content-type"))};
  }
  const Json json = parse_json(std::exchange(request.body, {}));
  constexpr const char* kForm =
      "JSON is {\"image\": \"…\"} or {\"images\": [\"…\"]}, each an image in base64.";
  const auto images = json.is_object() ? json.find("images") : json.end();
  const auto image = json.is_object() ? json.find("image") : json.end();
  if (image != json.end() && image->is_string())
    return {{image_of_base64(image->get_ref<const std::string&>())}, true};
  if (images == json.end() || !images->is_array() || images->empty()) throw BadRequest(kForm);
  std::vector<EncodedImage> all;
  for (const Json& one : *images) {
    if (!one.is_string()) throw BadRequest(kForm);
    all.push_back(image_of_base64(one.get_ref<const std::string&>()));
  }
  return {std::move(all)};
}

std::vector<EncodedImage> read_instances(HttpRequest request) {
  const Json json = parse_json(std::exchange(request.body, {}));
  const auto instances = json.is_object() ? json.find("instances") : json.end();
  if (instances == json.end() || !instances->is_array() || instances->empty())
    throw BadRequest("JSON is {\"instances\": [{\"b64\": \"…\"}]}, an image in base64 each.");
  std::vector<EncodedImage> images;
  for (const Json& instance : *instances) {
    const std::string* text = base64_of(instance);
    if (text == nullptr)
      throw BadRequest("Instance " + std::to_string(images.size()) +
                       " is not {\"b64\": \"…\"} with an image in base64.");
    images.push_back(image_of_base64(*text));
  }
  return images;
}

}  // namespace kiln
