#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace kiln {
namespace {

int line_of(std::string_view text, std::size_t offset) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
  return 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
}

// The library's message without its prefix, shortened and printable.
std::string reason_of(std::string_view what) {
  const std::size_t column = what.find("column ");
  const std::size_t colon = what.find(": ", column == std::string_view::npos ? 0 : column);
  if (colon != std::string_view::npos) what.remove_prefix(colon + 2);
  std::string reason(what.substr(0, 160));
  for (char& c : reason)
    if (c < ' ' || c > '~') c = '?';
  return reason;
}

// Builds a value from the parser's SAX events, in linear time. To detect repeated keys, or to keep
// keys in order, the library's own builder searches the whole object for each of its members.
template <typename Json>
class Builder {
 public:
  Builder(std::string_view text, RepeatedKeys repeated, std::size_t max_values)
      : text_(text), repeated_(repeated), max_values_(max_values) {}

  void visit_lists(const VisitElement* visit) { visit_ = visit; }
  Json take() { return std::move(root_); }

  bool null() { return scalar(nullptr); }
  bool boolean(bool value) { return scalar(value); }
  bool number_integer(std::int64_t value) { return scalar(value); }
  bool number_unsigned(std::uint64_t value) { return scalar(value); }
  bool number_float(double value, const std::string&) { return scalar(value); }
  bool string(std::string& value) { return scalar(std::move(value)); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& text) {
    if (stack_.size() == 1) {
      outer_key_ = text;
      num_visited_ = 0;
    }
    key_ = std::move(text);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& fault) {
    throw JsonFault(line_of(text_, position == 0 ? 0 : position - 1),
                    "is not valid JSON: " + reason_of(fault.what()));
  }

 private:
  bool scalar(Json value) {
    put(std::move(value));
    drop_if_visited();
    return true;
  }

  bool open(Json value) {
    if (std::ssize(stack_) == kMaxJsonDepth)
      throw JsonFault(0, "is nested more than " + std::to_string(kMaxJsonDepth) + " levels deep");
    Json* place = put(std::move(value));
    if (visit_ != nullptr && stack_.size() == 1 && stack_[0]->is_object() && place->is_array())
      counted_outside_ = num_values_;
    stack_.push_back(place);
    return true;
  }

  bool close() {
    stack_.pop_back();
    drop_if_visited();
    return true;
  }

  Json* put(Json value) {
    if (++num_values_ > max_values_)
      throw JsonFault(1, "holds more than " + std::to_string(max_values_) + " values");
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *stack_.back();
    if (parent.is_object()) return put_member(parent, std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  Json* put_member(Json& parent, Json value) {
    auto& members = parent.template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
      using Members = typename Json::object_t::Container;
      return &static_cast<Members&>(members).emplace_back(std::move(key_), std::move(value)).second;
    } else {
      const auto [place, is_new] = members.try_emplace(std::move(key_));
      if (!is_new && repeated_ == RepeatedKeys::kRefused)
        throw JsonFault(0, "has the key '" + place->first.substr(0, 200) + "' twice" + element());
      place->second = std::move(value);
      return &place->second;
    }
  }

  // ", in entry 3 of 'images'"; empty outside the elements that are visited.
  std::string element() const {
    if (visit_ == nullptr || stack_.size() < 3 || !stack_[1]->is_array()) return {};
    return ", in entry " + std::to_string(num_visited_ + 1) +
           (outer_key_.empty() ? "" : " of '" + outer_key_ + "'");
  }

  // Called when a value is complete. If it is an element of a list that is a direct member of the
  // outermost object, passes it to the visitor and drops it.
  void drop_if_visited() {
    if constexpr (std::is_same_v<Json, nlohmann::json>) {
      if (visit_ == nullptr || stack_.size() != 2 || !stack_[0]->is_object() ||
          !stack_[1]->is_array())
        return;
      (*visit_)(outer_key_, stack_[1]->back());
      stack_[1]->clear();
      ++num_visited_;
      num_values_ = counted_outside_;
    }
  }

  std::string_view text_;
  RepeatedKeys repeated_;
  std::size_t max_values_;
  const VisitElement* visit_ = nullptr;
  std::size_t num_values_ = 0;
  std::size_t num_visited_ = 0;      // elements of the list of outer_key_
  std::size_t counted_outside_ = 0;  // num_values_ without the elements visited
  Json root_;
  std::vector<Json*> stack_;  // the open lists and objects, outermost first
  std::string key_, outer_key_;
};

template <typename Json>
Json build(std::string_view text, Builder<Json> builder) {
  Json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace

nlohmann::json parse_json(std::string_view text, RepeatedKeys repeated) {
  return build<nlohmann::json>(text, {text, repeated, kMaxJsonValues});
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, std::size_t max_values) {
  return build<nlohmann::ordered_json>(text, {text, RepeatedKeys::kLastWins, max_values});
}

nlohmann::json parse_json_lists(std::string_view text, const VisitElement& visit) {
  Builder<nlohmann::json> builder(text, RepeatedKeys::kRefused, kMaxJsonValues);
  builder.visit_lists(&visit);
  return build<nlohmann::json>(text, std::move(builder));
}

const nlohmann::json* member_of(const nlohmann::json& value, const std::string& key) {
  const auto found = value.find(key);
  return found == value.end() || found->is_null() ? nullptr : &*found;
}

static const nlohmann::json& required_member(const nlohmann::json& object, const std::string& key) {
  if (const nlohmann::json* member = member_of(object, key)) return *member;
  throw JsonFault(0, "has no \"" + key + "\"");
}

const std::string& text_at(const nlohmann::json& object, const std::string& key) {
  const nlohmann::json& value = required_member(object, key);
  if (value.is_string()) return value.get_ref<const std::string&>();
  throw JsonFault(0, "\"" + key + "\" is " + json_kind(value) + " instead of a string");
}

std::int64_t integer_at(const nlohmann::json& object, const std::string& key) {
  const nlohmann::json& value = required_member(object, key);
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  if (value.is_number_integer() && !too_large) return value.get<std::int64_t>();
  throw JsonFault(0, "\"" + key + "\" is " + (value.is_number() ? value.dump() : json_kind(value)) +
                         " instead of an integer");
}

std::string json_kind(const nlohmann::json& value) {
  if (value.is_null()) return "null";
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "true or false";
  return "a number";
}

std::string quote_json(std::string_view text) {
  try {
    return nlohmann::json(text).dump(-1, ' ', true);
  } catch (const nlohmann::json::exception&) {
    throw std::invalid_argument("not UTF-8");
  }
}

}  // namespace kiln
