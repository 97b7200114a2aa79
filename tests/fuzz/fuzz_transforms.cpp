#include <cctype>

#include "base/error.h"
#include "data/transform/operations.h"
#include "fuzz/fuzz.h"

namespace {

// Short, and all numbers have at most two digits: applying it takes no time that would hide the
// rest. Every image of a chain may have kMaxImagePixels.
bool is_small(const std::string& json) {
  int digits = 0;
  for (const char c : json) {
    digits = std::isdigit(static_cast<unsigned char>(c)) != 0 ? digits + 1 : 0;
    if (digits > 2 || c == 'e' || c == 'E') return false;
  }
  return json.size() <= 200;
}

// Letters of names have an e, too.
std::string without_names(const std::string& json) {
  std::string rest;
  bool in_string = false;
  for (const char c : json) {
    if (c == '"') in_string = !in_string;
    if (!in_string) rest += c;
  }
  return rest;
}

}  // namespace

// What is accepted is written and read again as it is, and makes images or says why not.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  const std::string text = fuzz::text_of(data, size);
  Problems problems;
  const auto chain = TransformChain::parse(text, "ours", problems);
  if (!problems.empty()) return 0;
  const std::string json = chain.to_json();
  Problems none;
  fuzz::require(TransformChain::parse(json, "ours", none).to_json() == json && none.empty());
  (void)chain.for_inference().to_json();
  if (!is_small(without_names(text))) return 0;
  Image image{{7, 9}, std::vector<std::uint8_t>(std::size_t{7} * 9 * 3, 100)};
  try {
    const auto size_said = chain.output_size(image.size);
    WorkImage memory;
    chain.apply(image, {}, memory);
    fuzz::require(is_plausible(image.size) && (!size_said || image.size == *size_said));
    fuzz::require(image.pixels.size() == static_cast<std::size_t>(image.size.height) *
                                             static_cast<std::size_t>(image.size.width) * 3);
  } catch (const ImageFault&) {
    return 0;
  }
  return 0;
}
