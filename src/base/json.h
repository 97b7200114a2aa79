// Parsing untrusted JSON with bounded depth, memory and time, and quoting text as Python's
// `json.dumps` does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kiln {

constexpr int kMaxJsonDepth = 32;
// Limit on the values in memory: three bytes of text may take up 100 bytes.
constexpr std::size_t kMaxJsonValues = 1'000'000;

// Why a text is not the expected JSON, as a clause such as "is not valid JSON: unexpected end of
// input".
class JsonFault : public std::runtime_error {
 public:
  JsonFault(int line, const std::string& clause) : std::runtime_error(clause), line_(line) {}
  int line() const { return line_; }  // in the text, from 1; 0: unknown

 private:
  int line_;
};

// How to treat a repeated key, on whose meaning parsers disagree.
enum class RepeatedKeys { kLastWins, kRefused };

// Strict: exactly one value, UTF-8, at most kMaxJsonDepth levels deep; in time proportional to the
// text. Throws JsonFault.
nlohmann::json parse_json(std::string_view text, RepeatedKeys repeated = RepeatedKeys::kLastWins);

// The same, but keeps the keys in the order of the text. Repeated keys are kept; a lookup finds the
// first.
nlohmann::ordered_json parse_ordered_json(std::string_view text,
                                          std::size_t max_values = kMaxJsonValues);

// For long lists: as parse_json(), but passes each element of a list that is a direct member of the
// outermost object to `visit` and then drops it. Such lists are empty in the result, and
// kMaxJsonValues applies to one element at a time. Repeated keys are refused, naming the element.
using VisitElement = std::function<void(const std::string& list, const nlohmann::json& element)>;
nlohmann::json parse_json_lists(std::string_view text, const VisitElement& visit);

// The member of an object; null if `value` is none, has no such member, or null there.
const nlohmann::json* member_of(const nlohmann::json& value, const std::string& key);

// The member of an object, as text or as an integer. Throws JsonFault, of an unknown line, if it
// has no such member or of another kind.
const std::string& text_at(const nlohmann::json& object, const std::string& key);
std::int64_t integer_at(const nlohmann::json& object, const std::string& key);

// The kind of a value, for messages: "a string", "a number", …
std::string json_kind(const nlohmann::json& value);

// A JSON string literal in ASCII. Throws std::invalid_argument if `text` is not UTF-8.
std::string quote_json(std::string_view text);

}  // namespace kiln
