#include "record/vocabulary.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/text.h"

namespace kiln {
namespace {

constexpr std::array<std::pair<std::string_view, Augment>, 4> kNamedSets = {{
    {"none", Augment::kNone},
    {"flip", Augment::kFlip},
    {"standard", Augment::kStandard},
    {"strong", Augment::kStrong},
}};

constexpr std::array<std::string_view, kAugmentStepNames.size()> kTexts = {
    "random resized crop", "horizontal flip",    "vertical flip", "quarter turns",
    "color jitter",        "TrivialAugmentWide", "random erasing"};

// Returns the entries of `texts`, which AugmentStep indexes, for the operations in `augment`.
std::vector<std::string> chosen(Augment augment,
                                const std::array<std::string_view, kTexts.size()>& texts) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (augment.has(static_cast<AugmentStep>(i))) found.emplace_back(texts[i]);
  return found;
}

const Augment* named_set(std::string_view word) {
  const auto* found =
      std::ranges::find(kNamedSets, word, &std::pair<std::string_view, Augment>::first);
  return found == kNamedSets.end() ? nullptr : &found->second;
}

const std::string kRule =
    ", but must be none, standard, strong or a list of crop, flip, vflip, rotate90, color, trivial "
    "and erase, joined by commas";

// Throws std::invalid_argument. `word` is the invalid part of `text`.
[[noreturn]] void refuse(std::string_view word, std::string_view text) {
  if (text.empty()) throw std::invalid_argument("is empty" + kRule);
  if (word.empty()) throw std::invalid_argument("has an empty part" + kRule);
  const std::string quoted = "'" + excerpt(std::string(word)) + "'";
  if (word == text) throw std::invalid_argument("is " + quoted + kRule);
  if (named_set(word) != nullptr)
    throw std::invalid_argument(
        "contains " + quoted +
        " with others, but that is a set by itself: give it alone, or list single operations");
  throw std::invalid_argument("contains " + quoted + kRule);
}

}  // namespace

std::string augment_name(Augment augment) {
  for (const auto& [name, set] : kNamedSets)
    if (set == augment) return std::string(name);
  return joined(chosen(augment, kAugmentStepNames), ",");
}

std::string augment_text(Augment augment) {
  return joined(chosen(augment, kTexts), ", ");
}

Augment parse_augment(std::string_view text) {
  const std::string words = in_small_letters(text);
  if (const Augment* set = named_set(words)) return *set;
  Augment augment;
  for (const std::string& word : items_of(words)) {
    const auto step = value_named<AugmentStep>(kAugmentStepNames, word);
    if (!step) refuse(word, words);
    if (augment.has(*step))
      throw std::invalid_argument("contains '" + word + "' twice: list each operation once");
    augment = augment.with(*step);
  }
  return augment;
}

std::vector<std::pair<std::string, std::string>> parse_pairs(
    const std::string& text, const std::vector<std::string>& known) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::istringstream all(text);
  for (std::string part; std::getline(all, part, ',');) {
    const std::size_t equals = part.rfind('=');
    std::string key = equals == part.npos ? "" : part.substr(0, equals);
    std::string value = part.substr(equals == part.npos ? 0 : equals + 1);
    if (!known.empty() && std::ranges::count(known, key) == 0)
      throw std::invalid_argument("'" + part + "' does not begin with " + join_choices(known) +
                                  " and =");
    if (known.empty() && value.empty())
      throw std::invalid_argument("'" + part + "' names no folder");
    pairs.emplace_back(std::move(key), std::move(value));
  }
  return pairs;
}

RecordKeys parse_record_keys(const std::string& text) {
  RecordKeys keys;
  for (auto& [key, name] : parse_pairs(text, {"image", "label", "text", "name"})) {
    if (name.empty()) throw std::invalid_argument("'" + key + "=' has no name");
    (key == "image"   ? keys.image
     : key == "label" ? keys.label
     : key == "text"  ? keys.text
                      : keys.name) = std::move(name);
  }
  return keys;
}

}  // namespace kiln
