// What --weights may be, and the option --weights-sha256.
#include <cstddef>

#include "base/url.h"
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

constexpr std::size_t kSha256Digits = 64;

bool is_hash(const std::string& text) {
  return text.size() == kSha256Digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

Option weights_sha256() {
  return {.name = "weights-sha256",
          .value_name = "HEX",
          .default_text = "",
          .unit = "",
          .group = kModel,
          .help =
              "Expected SHA-256 of the --weights file: fail if it differs. Default: the eight "
              "digits in the name of a downloaded file, if it has any."};
}

void check_weights_url(Binder& binder, const std::string& weights) {
  const std::string fault = is_url(weights) ? fault_of_url(weights) : "";
  if (!fault.empty())
    binder.fault("weights", ErrorCode::kParameterParsing,
                 "--weights '" + shown_url(weights) + "' cannot be downloaded: " + fault + ".");
}

std::string bind_weights_sha256(Binder& binder, const std::string& weights) {
  check_weights_url(binder, weights);
  if (!binder.given("weights-sha256")) return "";
  const std::string given = binder.path("weights-sha256");
  std::string hash = given;
  for (char& byte : hash)
    if (byte >= 'A' && byte <= 'F') byte = static_cast<char>(byte - 'A' + 'a');
  if (!given.empty() && !is_hash(hash))
    binder.fault("weights-sha256", ErrorCode::kParameterParsing,
                 "--weights-sha256 is '" + given +
                     "', but must be 64 hexadecimal digits, as sha256sum prints them.");
  if (weights.empty() && !binder.given("weights"))
    binder.fault("weights-sha256", ErrorCode::kParameterParsing,
                 "--weights-sha256 is the hash of a file, but --weights is not given.");
  return hash;
}

}  // namespace kiln
