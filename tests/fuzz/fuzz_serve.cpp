// A request of a server, after HTTP: its Content-Type, which may begin with the length of the JSON
// before binary data, a line end, and its body. Every contract reads it.
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "tools/serve/requests.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  const std::string all = fuzz::text_of(data, size);
  const std::size_t line = all.find('\n');
  if (line == all.npos) return 0;
  const std::string type = all.substr(0, line);
  const auto request = [&] {
    return HttpRequest{
        .method = "POST",
        .path = "/",
        .headers = {{"content-type", type},
                    {"inference-header-content-length", type.substr(0, type.find(';'))}},
        .body = all.substr(line + 1)};
  };
  const auto look_at = [](const std::vector<EncodedImage>& images) {
    for (const EncodedImage& image : images)
      fuzz::require(image.bytes.data() >= image.owner->data() &&
                    image.bytes.data() + image.bytes.size() <=
                        image.owner->data() + image.owner->size());
  };
  fuzz::accepts<BadRequest, JsonFault>([&] { look_at(read_images(request()).images); });
  fuzz::accepts<BadRequest, JsonFault>([&] { look_at(read_protocol_request(request()).images); });
  return 0;
}
