// Requests of the Open Inference Protocol (kserve.github.io/website, "Open Inference Protocol";
// Triton's protocol/extension_binary_data.md). One input: UINT8 pixels [N, H, W, 3] or [H, W, 3],
// or BYTES [N], an image file each (base64 in JSON).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bytes.h"
#include "base/json.h"
#include "base/text.h"
#include "tools/serve/requests.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMaxImages = 4096;  // of a tensor
constexpr std::size_t kMaxIdBytes = 4096;

// A member of an object, of a kind; nullptr if it is not there.
const Json* member(const Json& json, const char* name, bool (Json::*is_kind)() const noexcept) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found != json.end() && ((*found).*is_kind)() ? &*found : nullptr;
}

const Json* parameter(const Json& json, const char* name, bool (Json::*is_kind)() const noexcept) {
  const Json* parameters = member(json, "parameters", &Json::is_object);
  return parameters == nullptr ? nullptr : member(*parameters, name, is_kind);
}

std::string text_of(const Json& json, const char* name) {
  const Json* text = member(json, name, &Json::is_string);
  return text == nullptr ? "" : text->get<std::string>();
}

std::vector<std::int64_t> shape_of(const Json& input) {
  const Json* shape = member(input, "shape", &Json::is_array);
  std::vector<std::int64_t> sizes;
  for (const Json& size : shape == nullptr ? Json::array() : *shape)
    sizes.push_back(size.is_number_integer() ? size.get<std::int64_t>() : 0);
  if (sizes.empty() || sizes.size() > 4 ||
      std::ranges::any_of(sizes, [](std::int64_t size) { return size < 1 || size > (1 << 20); }))
    throw BadRequest("The input has no shape of one to four positive numbers.");
  return sizes;
}

// Pixels as the file of a format without compression: PPM.
EncodedImage image_of_pixels(std::int64_t height, std::int64_t width, std::string_view pixels) {
  std::string file = formatted("P6\n%lld %lld\n255\n", static_cast<long long>(width),
                               static_cast<long long>(height));
  file += pixels;
  const auto owner = std::make_shared<const std::string>(std::move(file));
  return {owner, *owner};
}

// `bytes` of UINT8 pixels [N, H, W, 3] or [H, W, 3].
std::vector<EncodedImage> images_of_pixels(std::vector<std::int64_t> shape,
                                           std::string_view bytes) {
  if (shape.size() == 3) shape.insert(shape.begin(), 1);
  if (shape.size() != 4 || shape[3] != 3 || shape[0] > kMaxImages)
    throw BadRequest("Pixels have the shape [N, height, width, 3], with at most 4096 images.");
  const auto size = static_cast<std::size_t>(shape[1] * shape[2] * 3);
  if (bytes.size() / size != static_cast<std::size_t>(shape[0]) || bytes.size() % size != 0)
    throw BadRequest("The data of the input is not as long as its shape says.");
  std::vector<EncodedImage> images;
  for (; !bytes.empty(); bytes.remove_prefix(size))
    images.push_back(image_of_pixels(shape[1], shape[2], bytes.substr(0, size)));
  return images;
}

// Texts with their lengths before them, of BYTES in binary form.
std::vector<EncodedImage> images_of_lengths(const std::shared_ptr<const std::string>& owner,
                                            std::string_view bytes) {
  std::vector<EncodedImage> images;
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(std::uint32_t)) throw BadRequest("The BYTES of the input end early.");
    const auto size = value_from<std::uint32_t>(bytes);
    if (size > bytes.size() || images.size() == static_cast<std::size_t>(kMaxImages))
      throw BadRequest("The BYTES of the input end early, or are more than 4096.");
    images.push_back({owner, bytes.substr(0, size)});
    bytes.remove_prefix(size);
  }
  return images;
}

// Appends the numbers of nested or flat lists.
void append_pixels(const Json& data, std::string& pixels) {
  for (const Json& value : data) {
    if (value.is_array()) {
      append_pixels(value, pixels);
      continue;
    }
    const std::int64_t number = value.is_number_integer() ? value.get<std::int64_t>() : -1;
    if (number < 0 || number > 255) throw BadRequest("UINT8 data are numbers from 0 to 255.");
    pixels += static_cast<char>(number);
  }
}

std::vector<EncodedImage> images_of_input(const Json& input,
                                          const std::shared_ptr<const std::string>& body,
                                          std::string_view binary) {
  const std::string type = text_of(input, "datatype");
  if (type != "UINT8" && type != "BYTES")
    throw BadRequest("The input is '" + excerpt(type) +
                     "', but must be UINT8 pixels or BYTES of image files.");
  const std::vector<std::int64_t> shape = shape_of(input);
  const Json* size = parameter(input, "binary_data_size", &Json::is_number_unsigned);
  const Json* data = member(input, "data", &Json::is_array);
  if ((size == nullptr) == (data == nullptr) ||
      (size == nullptr ? 0 : size->get<std::uint64_t>()) != binary.size())
    throw BadRequest("The input needs either data or a binary_data_size that is right.");
  std::vector<EncodedImage> images;
  if (type == "UINT8") {
    std::string pixels;
    if (data != nullptr) append_pixels(*data, pixels);
    return images_of_pixels(shape, data == nullptr ? binary : pixels);
  }
  if (data == nullptr) {
    images = images_of_lengths(body, binary);
  } else {
    for (const Json& one : *data)
      images.push_back(image_of_base64(one.is_string() ? one.get<std::string>() : "-"));
  }
  std::int64_t count = 1;
  for (const std::int64_t length : shape) count *= std::min(length, kMaxImages + 1);
  if (static_cast<std::int64_t>(images.size()) != count)
    throw BadRequest("The input has not as many BYTES as its shape says.");
  return images;
}

bool is_true(const Json& json, const char* name, bool otherwise) {
  const Json* value = parameter(json, name, &Json::is_boolean);
  return value == nullptr ? otherwise : value->get<bool>();
}

// The request without its images.
ProtocolRequest outputs_of(const Json& json) {
  ProtocolRequest wanted{.id = text_of(json, "id")};
  if (wanted.id.size() > kMaxIdBytes) throw BadRequest("The id is longer than 4096 bytes.");
  const bool is_binary = is_true(json, "binary_data_output", false);
  const Json* outputs = member(json, "outputs", &Json::is_array);
  if (outputs == nullptr || outputs->empty()) {
    for (const char* output : kProtocolOutputs) wanted.outputs.push_back({output, is_binary});
    return wanted;
  }
  for (const Json& output : *outputs) {
    const std::string output_name = text_of(output, "name");
    if (std::ranges::find(kProtocolOutputs, output_name) == kProtocolOutputs.end())
      throw BadRequest("There is no output '" + excerpt(output_name) +
                       "', but probabilities, label and confidence.");
    if (std::ranges::find(wanted.outputs, output_name, &ProtocolRequest::Output::name) !=
        wanted.outputs.end())
      throw BadRequest("The output '" + output_name + "' is asked for twice.");
    wanted.outputs.push_back({output_name, is_true(output, "binary_data", is_binary)});
  }
  return wanted;
}

}  // namespace

ProtocolRequest read_protocol_request(HttpRequest request) {
  const std::string_view header = request.header(in_small_letters(kProtocolHeader));
  const std::optional<std::size_t> length =
      header.empty() ? request.body.size() : number_in<std::size_t>(header);
  if (!length || *length > request.body.size())
    throw BadRequest(std::string(kProtocolHeader) + " is not a length within the body.");
  const auto body = std::make_shared<const std::string>(std::move(request.body));
  const std::string_view all = *body, binary = all.substr(*length);
  const Json json =
      *length == 0 ? Json::object() : parse_json(all.substr(0, *length), RepeatedKeys::kRefused);
  ProtocolRequest asked = outputs_of(json);
  if (*length == 0) {  // Triton's raw binary request: the file is the only input
    asked.images = {{body, binary}};
  } else {
    const Json* inputs = member(json, "inputs", &Json::is_array);
    if (inputs == nullptr || inputs->size() != 1)
      throw BadRequest("A request has one input, of pixels or of image files.");
    asked.images = images_of_input((*inputs)[0], body, binary);
  }
  return asked;
}

}  // namespace kiln
