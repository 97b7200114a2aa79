// JSON of untrusted files, with bounded depth, memory and time; and JSON text as Python's
// `json.dumps` writes it.
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
// Values in memory at once: three bytes of text may take 100 bytes of it.
constexpr std::size_t kMaxJsonValues = 1'000'000;

// Why a text is not the expected JSON: a clause, such as "is not valid JSON: unexpected end of
// input".
class JsonFault : public std::runtime_error {
 public:
  JsonFault(int line, const std::string& clause) : std::runtime_error(clause), line_(line) {}
  int line() const { return line_; }  // in the text, from 1

 private:
  int line_;
};

// Parsers disagree on the meaning of a repeated key.
enum class RepeatedKeys { kLastWins, kRefused };

// Strict: one value, UTF-8, at most kMaxJsonDepth deep, in time proportional to the text. Throws
// JsonFault.
nlohmann::json parse_json(std::string_view text, RepeatedKeys repeated = RepeatedKeys::kLastWins);

// The same with the keys in the order of the text; of equal ones the first is found.
nlohmann::ordered_json parse_ordered_json(std::string_view text,
                                          std::size_t max_values = kMaxJsonValues);

// For long lists: what parse_json() gives, but each element of a list that is a member of the
// outermost object goes to `visit` and is dropped, so that such a list is empty in the result and
// kMaxJsonValues holds for an element at a time.
using VisitElement = std::function<void(const std::string& list, const nlohmann::json& element)>;
nlohmann::json parse_json_lists(std::string_view text, const VisitElement& visit);

// The value's kind as a reader of JSON calls it: "a text", "a number", …
std::string json_kind(const nlohmann::json& value);

// ASCII only, in double quotes. Throws std::invalid_argument when `text` is not UTF-8.
std::string quote_json(std::string_view text);

}  // namespace kiln
