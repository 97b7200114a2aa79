// JSON of untrusted files, with bounded depth; and JSON text as Python's `json.dumps` writes it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kiln {

constexpr int kMaxJsonDepth = 32;

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

// Strict: one value, UTF-8, at most kMaxJsonDepth deep. Throws JsonFault.
nlohmann::json parse_json(std::string_view text, RepeatedKeys repeated = RepeatedKeys::kLastWins);

// The value's kind as a reader of JSON calls it: "a text", "a number", …
std::string json_kind(const nlohmann::json& value);

// ASCII only, in double quotes. Throws std::invalid_argument when `text` is not UTF-8.
std::string quote_json(std::string_view text);

}  // namespace kiln
