// What requests ask, in the form of each contract, read without the model: strangers' bytes. The
// readers throw BadRequest, or JsonFault. An image's bytes are a part of the body that it keeps.
#pragma once

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/http_server.h"

namespace kiln {

// A request that cannot be answered: a status from 400 to 499, and a sentence.
struct BadRequest : std::runtime_error {
  explicit BadRequest(const std::string& sentence, int its_status = 400)
      : std::runtime_error(sentence), status(its_status) {}
  int status;
};

// The image file of a request. Its bytes are a part of `owner`.
struct EncodedImage {
  std::shared_ptr<const std::string> owner;
  std::string_view bytes;
  std::string name = {};  // as the client calls it; empty: it does not
  bool wants_heat_map = false;
};

struct AskedImages {
  std::vector<EncodedImage> images;
  bool is_alone = false;  // the image was sent alone, not in a list of one
};

// The image or images of a body, by its Content-Type: multipart/form-data, JSON with base64, or
// else the image itself. A body without a type, or with one for anything, is JSON if it begins so.
AskedImages read_images(HttpRequest request);

// An image in base64, alone or in a data URL.
EncodedImage image_of_base64(std::string_view text);

// The Open Inference Protocol, version 2, with its extension for binary tensor data.
struct ProtocolRequest {
  struct Output {
    std::string name;
    bool is_binary = false;
  };
  std::vector<EncodedImage> images = {};
  std::string id = {};  // given back
  std::vector<Output> outputs = {};
};

inline constexpr std::array kProtocolOutputs = {"probabilities", "label", "confidence"};
// The header with the length of the JSON before binary data.
inline constexpr const char* kProtocolHeader = "Inference-Header-Content-Length";

ProtocolRequest read_protocol_request(HttpRequest request);

}  // namespace kiln
