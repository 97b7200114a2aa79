// Images as people and most platforms send them.
#include "tools/serve/requests.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <span>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "base/url.h"
#include "data/image/image.h"
#include "data/image/unread_kind.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxParts = 1024, kMaxPartHead = 4096;  // of a multipart body

using Texts = std::map<std::string, std::string>;

// Adds "name: value" of `whose`. Twice: which one counts?
void add_pair(Texts& found, std::string_view text, char separator, const std::string& whose) {
  const std::size_t end = text.find(separator);
  const std::string name = in_small_letters(trimmed(text.substr(0, end)));
  if (end == text.npos || !found.emplace(name, trimmed(text.substr(end + 1))).second)
    throw BadRequest(whose + " cannot be read at '" + excerpt(name) + "'.");
}

// The parameters of a header such as `form-data; name="a"; filename="b;c.png"` (RFC 2045, 5.1) by
// their names in small letters.
Texts parameters_of(std::string_view header, const std::string& whose) {
  std::vector<std::string> pieces(1);  // at semicolons, without quotation marks
  bool is_quoted = false;
  for (std::size_t at = 0; at < header.size(); ++at) {
    const std::string_view rest = header.substr(at);
    if (is_quoted && (rest.starts_with("\\\"") || rest.starts_with("\\\\")))
      pieces.back() += header[++at];  // other backslashes are those of paths
    else if (rest.starts_with('"'))
      is_quoted = !is_quoted;
    else if (rest.starts_with(';') && !is_quoted)
      pieces.emplace_back();
    else
      pieces.back() += header[at];
  }
  if (is_quoted) throw BadRequest(whose + " has a quotation mark without an end.");
  Texts found;
  for (const std::string_view piece : std::span(pieces).subspan(1))
    if (!trimmed(piece).empty()) add_pair(found, piece, '=', whose);
  return found;
}

// The headers of a part (RFC 5322, 2.2) by their names in small letters.
Texts headers_of(const std::string& head, const std::string& whose) {
  static const std::regex kFold("\r\n[ \t]+");
  const std::string unfolded = std::regex_replace(head, kFold, " ");
  Texts found;
  for (std::string_view rest = unfolded; !rest.empty();)
    if (const std::string_view line = trimmed(take_line(rest)); !line.empty())
      add_pair(found, line, ':', whose);
  return found;
}

// The text of a parameter such as filename*=utf-8''k%C3%A4fer.png (RFC 8187).
std::string decoded(std::string_view value) {
  for (int quote = 0; quote < 2; ++quote) value.remove_prefix(value.find('\'') + 1);
  return url_decoded(value);
}

// Whether contents that nothing else calls an image are one. Text is another field.
bool is_image(std::string_view bytes) {
  const auto is_control = [](unsigned char c) { return c < ' ' && std::isspace(c) == 0; };
  return std::ranges::any_of(bytes, is_control) || !image_kind(bytes).empty() ||
         unread_kind_of_bytes(bytes) != nullptr;
}

// Whether a part is an image, which gets its name; else it is another field. `number` names it.
bool is_image_part(std::string_view head, std::string number, EncodedImage& part) {
  if (head.size() > kMaxPartHead) throw BadRequest(number + " has headers of more than 4 KiB.");
  Texts headers = headers_of(std::string(head), number);
  Texts parameters = parameters_of(headers["content-disposition"], number);
  const std::string& field = parameters["name"];
  if (!field.empty()) number += " ('" + excerpt(field) + "')";
  const std::string type = in_small_letters(headers["content-type"]),
                    encoding = in_small_letters(headers["content-transfer-encoding"]);
  if (type.starts_with("multipart/"))
    throw BadRequest(number + " has parts: send each file as a part of the form itself.");
  if (encoding == "base64" || encoding == "quoted-printable" ||
      part.bytes.starts_with("data:image/"))
    throw BadRequest(number + " is encoded: send its bytes as they are.");
  part.name = decoded(parameters["filename*"]);
  if (part.name.empty()) part.name = parameters["filename"];
  // A browser sends an empty part without a name for a file that was not chosen.
  return !part.name.empty() || type.starts_with("image/") ||
         (!part.bytes.empty() && (field == "image" || is_image(part.bytes)));
}

// The images of multipart/form-data (RFC 7578) and its kin: the parts that have a file name, an
// image's type or its bytes, or are called image. What is not understood is refused, not left out.
std::vector<EncodedImage> images_of_form(const std::shared_ptr<const std::string>& body,
                                         std::string_view type) {
  const std::string boundary = parameters_of(type, "The Content-Type")["boundary"];
  if (boundary.empty()) throw BadRequest("The Content-Type of the form has no boundary.");
  const std::string between = "\n--" + boundary;
  std::string_view rest = *body;
  if (!rest.starts_with(between.substr(1)))
    throw BadRequest("The form does not begin with the boundary of its Content-Type.");
  rest.remove_prefix(between.size() - 1);
  std::vector<EncodedImage> images;
  for (std::size_t number = 1; !rest.starts_with("--"); ++number) {
    const std::size_t head_end = rest.find("\r\n\r\n");
    const std::size_t end = head_end == rest.npos ? rest.npos : rest.find(between, head_end + 3);
    if (end == rest.npos || rest[end - 1] != '\r' || number > kMaxParts)
      throw BadRequest(
          "The form ends early, has a line end that is not CR LF, or more than 1024 parts.");
    const std::size_t begin = std::min(head_end + 4, end - 1);
    EncodedImage part{body, rest.substr(begin, end - 1 - begin)};
    if (is_image_part(rest.substr(0, head_end), formatted("Part %zu of the form", number), part))
      images.push_back(std::move(part));
    rest.remove_prefix(end + between.size());
  }
  if (!trimmed(rest.substr(2)).empty()) throw BadRequest("There is more after the form's end.");
  if (images.empty()) throw BadRequest("The form has no image: send it as a file.");
  return images;
}

// Whether the body is JSON, by its type or, where a client gives none or one for anything, by its
// first character.
bool is_json(const std::string& type, std::string_view body) {
  if (type.find("json") != type.npos) return true;
  const bool may_be = type.empty() || type.starts_with("application/x-www-form-urlencoded") ||
                      type.starts_with("text/plain");
  const std::string_view start = trimmed(body.substr(0, 100), "\xef\xbb\xbf \t\r\n");
  return may_be && (start.starts_with('{') || start.starts_with('['));
}

// The base64 of an image: plain, or {"b64": "…"}, as the value of any key; nullptr if it is
// neither.
const std::string* base64_of(const Json& image, int depth = 0) {
  if (image.is_string()) return &image.get_ref<const std::string&>();
  if (!image.is_object() || depth > 1) return nullptr;
  for (const char* key : {"b64", "content", "image", "image_bytes", "data"})
    if (const auto found = image.find(key); found != image.end())
      return base64_of(*found, depth + 1);
  return nullptr;
}

// {"image": …}, {"images": […]}, or {"instances": […]} as Vertex AI sends it.
AskedImages images_of_json(std::string_view text) {
  constexpr const char* kForm =
      "JSON is {\"image\": \"…\"}, {\"images\": [\"…\"]} or {\"instances\": [{\"b64\": \"…\"}]}, "
      "one of them, each image in base64.";
  const Json json = parse_json(text, RepeatedKeys::kRefused);
  AskedImages asked;
  for (const char* key : {"image", "images", "instances"}) {
    const Json* value = member_of(json, key);
    if (value == nullptr) continue;
    if (!asked.images.empty()) throw BadRequest(kForm);
    asked.is_alone = !value->is_array();
    for (const Json& image :
         asked.is_alone ? std::span(value, 1) : std::span(value->get_ref<const Json::array_t&>())) {
      const std::string* base64 = base64_of(image);
      if (base64 == nullptr) throw BadRequest(kForm);
      asked.images.push_back(image_of_base64(*base64));
    }
  }
  if (asked.images.empty()) throw BadRequest(kForm);
  return asked;
}

}  // namespace

EncodedImage image_of_base64(std::string_view text) try {
  if (text.starts_with("data:")) text.remove_prefix(std::min(text.find(',') + 1, text.size()));
  auto bytes = std::make_shared<const std::string>(from_base64(text));
  const std::string_view all = *bytes;
  return {std::move(bytes), all};
} catch (const std::invalid_argument&) {
  throw BadRequest("An image is not valid base64 (RFC 4648, without line breaks).");
}

AskedImages read_images(HttpRequest request) {
  const std::string type = in_small_letters(trimmed(request.header("content-type")));
  if (request.body.empty()) throw BadRequest("The body is empty: send an image.");
  const bool is_form = type.starts_with("multipart/");
  if (is_form || !is_json(type, request.body)) {
    const auto body = std::make_shared<const std::string>(std::move(request.body));
    if (!is_form) return {{{body, *body}}, true};
    return {images_of_form(body, request.header("content-type"))};
  }
  return images_of_json(std::exchange(request.body, {}));
}

}  // namespace kiln
