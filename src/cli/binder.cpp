#include "cli/binder.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "base/url.h"

namespace kiln {

Binder::Binder(const CommandInfo& command, RawArguments& raw) : command_(command), raw_(raw) {
  for (const Option& option : command.options) report_if_missing(option);
}

template <typename Value>
Value Binder::read(const char* name, Value (*parse)(const Option&, const std::string& text,
                                                    const std::string& where)) {
  const Option& option = *find_option(command_, name);
  Value result{};
  if (const RawValue* value = raw_.find(name)) {
    raw_.faults.collect(value->position, [&] {
      refuse_placeholder(value->text, value->where);
      result = parse(option, value->text, value->where);
    });
  } else if (!option.default_text.empty()) {
    result = parse(option, option.default_text, "--" + option.name);
  }
  return result;
}

std::string Binder::path(const char* name) {
  return read<std::string>(name, path_value);
}

std::vector<std::string> Binder::paths(const char* name) {
  std::vector<std::string> values;
  for (const RawValue& value : raw_.values)
    if (value.option->name == name)
      raw_.faults.collect(value.position, [&] {
        values.push_back(path_value(*value.option, value.text, value.where));
      });
  return values;
}

std::int64_t Binder::integer(const char* name) {
  return read<std::int64_t>(name, integer_value);
}

int Binder::small_integer(const char* name) {
  return static_cast<int>(integer(name));
}

double Binder::number(const char* name) {
  return read<double>(name, number_value);
}

bool Binder::boolean(const char* name) {
  return read<bool>(name, [](const Option&, const std::string& text, const std::string& where) {
    return boolean_value(text, where);
  });
}

std::optional<double> Binder::share(const char* name) {
  if (!given(name)) return std::nullopt;
  return read<double>(name, share_value);
}

Allowance Binder::allowance(const char* name) {
  return read<Allowance>(name, allowance_value);
}

RateScaling Binder::rate_scaling(const char* name) {
  return read<RateScaling>(name, rate_scaling_value);
}

CheckpointEvery Binder::every(const char* name) {
  return read<CheckpointEvery>(name, every_value);
}

double Binder::duration(const char* name) {
  return read<double>(name, duration_value);
}

std::string Binder::image_size(const char* name) {
  return read<std::string>(name, image_size_value);
}

std::string Binder::choice(const char* name) {
  return read<std::string>(name, choice_value);
}

ImageSizes Binder::image_sizes(const char* name) {
  return read<ImageSizes>(name, image_sizes_value);
}

CropSize Binder::crop_size(const char* name) {
  return read<CropSize>(name, crop_size_value);
}

ExchangePlan Binder::exchange() {
  return read<ExchangePlan>("exchange", exchange_value);
}

bool Binder::is_set(const char* name, const std::string& text) const {
  const RawValue* value = raw_.find(name);
  if (value == nullptr) return false;
  const Option& option = *value->option;
  const std::string& other = text.empty() ? option.default_text : text;
  return is_same_setting(option, value->text, other) != text.empty();
}

Augment Binder::augment() {
  return read<Augment>("augment", augment_value);
}

DeviceChoice Binder::device() {
  const std::string word = choice("device");
  if (word == "cuda") return DeviceChoice::kCuda;
  return word == "cpu" ? DeviceChoice::kCpu : DeviceChoice::kAuto;
}

std::optional<int> Binder::ranks() {
  const int ranks = small_integer("ranks");
  return given("ranks") ? std::optional(ranks) : std::nullopt;
}

void Binder::imply(const char* name, const std::string& text, const char* by) {
  if (given(name)) return;
  const RawValue& reason = *raw_.find(by);
  raw_.values.push_back({find_option(command_, name), text,
                         std::string("--") + name + " (of --" + by + " " + reason.text + ")",
                         reason.position});
}

void Binder::fault(const char* name, ErrorCode code, const std::string& message) {
  raw_.faults.add(position(name), Error(code, message));
}

std::vector<std::pair<std::string, std::string>> Binder::effective_options() const {
  std::vector<std::pair<std::string, std::string>> options;
  for (const Option& option : command_.options) {
    const RawValue* value = raw_.find(option.name);
    options.emplace_back(option.name,
                         value == nullptr ? option.default_text : without_secrets(value->text));
  }
  return options;
}

int Binder::position(const char* name) const {
  const RawValue* value = raw_.find(name);
  return value == nullptr ? kMissingPosition : value->position;
}

void Binder::report_if_missing(const Option& option) {
  const auto is_mentioned = [&](const Option* other) {
    return std::find(raw_.mentioned.begin(), raw_.mentioned.end(), other) != raw_.mentioned.end();
  };
  const Option* instead = option.instead.empty() ? nullptr : find_option(command_, option.instead);
  if (instead != nullptr && given(option.name.c_str()) && given(instead->name.c_str()))
    fault(instead->name.c_str(), ErrorCode::kParameterParsing,
          "--" + option.name + " and --" + instead->name +
              " are both given, but mean the same thing: use only one of them.");
  if (!option.required || is_mentioned(&option) || (instead != nullptr && is_mentioned(instead)))
    return;
  std::string purpose = option.help.substr(0, option.help.find(". "));  // the first sentence
  if (purpose.ends_with('.')) purpose.pop_back();
  raw_.faults.add(
      kMissingPosition,
      Error(ErrorCode::kParameterParsing,
            "--" + option.name + " " + option.value_name + " is missing (" + purpose + "): add it" +
                (instead == nullptr ? "" : ", or --" + instead->name) + "."));
}

namespace {

[[noreturn]] void fail_to_parse(const std::string& text, const std::string& where,
                                const std::string& expected) {
  throw Error(ErrorCode::kParameterParsing,
              where + " is " + (text.empty() ? "empty" : "'" + excerpt(text) + "'") +
                  ", but must be " + expected + ".");
}

// Which end of the range the value is beyond.
enum class Side { kBelow, kAbove };

[[noreturn]] void fail_range(const Option& option, const std::string& given,
                             const std::string& where, Side side) {
  const std::string text = excerpt(given);
  const std::string range = " (range " + range_text(option) + ").";
  // For an integer whose minimum is 1, the designer has the error code for "greater than 0".
  const bool exclusive = option.kind == ValueKind::kNumber ||
                         option.kind == ValueKind::kChoiceOrNumber || option.minimum == 1;
  const bool near_zero = exclusive || option.minimum == 0;
  if (!near_zero) {
    throw Error(ErrorCode::kNotInRangeValue,
                where + " is " + text + ", but must be " + range_text(option) + ".");
  }
  if (side == Side::kAbove) {
    throw Error(ErrorCode::kLessThanOrEqualTo, where + " is " + text + ", but must be at most " +
                                                   std::to_string(option.maximum) + range);
  }
  if (exclusive) {
    throw Error(ErrorCode::kGreaterThan,
                where + " is " + text + ", but must be greater than 0" + range);
  }
  throw Error(ErrorCode::kGreaterThanOrEqualTo,
              where + " is " + text + ", but must be 0 or greater" + range);
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool is_whole_number(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Accepts what std::from_chars accepts, and a leading plus sign. Returns false if `text` is not a
// number. Values that are too large become infinite, and those that are too small become 0.
bool read_number(std::string_view text, double* value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with('+')) return false;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (result.ptr != text.data() + text.size() || result.ec == std::errc::invalid_argument) {
    return false;
  }
  if (result.ec == std::errc::result_out_of_range)
    *value = std::strtod(std::string(text).c_str(), nullptr);
  return true;
}

}  // namespace

std::int64_t integer_value(const Option& option, const std::string& text,
                           const std::string& where) {
  const bool automatic = option.kind == ValueKind::kAutoOrInteger ||
                         option.kind == ValueKind::kTrainingSize ||
                         option.kind == ValueKind::kCropSize;
  if (automatic && lower(text) == "auto") return 0;
  if (!is_whole_number(text)) {
    fail_to_parse(text, where, automatic ? "auto or an integer" : "an integer");
  }
  const std::string_view digits = std::string_view(text).substr(text[0] == '+' ? 1 : 0);
  std::int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    fail_range(option, text, where, text[0] == '-' ? Side::kBelow : Side::kAbove);
  }
  if (value < option.minimum) fail_range(option, text, where, Side::kBelow);
  if (value > option.maximum) fail_range(option, text, where, Side::kAbove);
  return value;
}

double number_value(const Option& option, const std::string& text, const std::string& where) {
  double value = 0;
  if (!read_number(text, &value)) fail_to_parse(text, where, "a number");
  const std::string range = " (range " + range_text(option) + ").";
  if (std::isnan(value)) {
    throw Error(ErrorCode::kNaN, where + " is " + text + ", but must be a number" + range);
  }
  const bool spelled_out = lower(text).find("inf") != std::string::npos;
  if (std::isinf(value) && spelled_out) {
    throw Error(ErrorCode::kInfinity, where + " is " + text + ", but must be finite" + range);
  }
  const auto minimum = static_cast<double>(option.minimum);
  if (value < minimum || (value == minimum && option.kind != ValueKind::kNumberFrom))
    fail_range(option, text, where, Side::kBelow);
  if (value > static_cast<double>(option.maximum)) fail_range(option, text, where, Side::kAbove);
  return value;
}

bool boolean_value(const std::string& text, const std::string& where) {
  const std::string word = lower(text);
  if (word == "true" || word == "1") return true;
  if (word != "false" && word != "0") fail_to_parse(text, where, "True or False");
  return false;
}

double share_value(const Option& option, const std::string& text, const std::string& where) {
  const bool is_percent = text.ends_with('%');
  const std::string_view digits = std::string_view(text).substr(0, text.size() - is_percent);
  double value = 0;
  if (!read_number(digits, &value) || !std::isfinite(value))
    fail_to_parse(text, where, "a share such as 0.95 or 95%");
  if (is_percent) value /= 100;
  if (value > 0 && value <= 1) return value;
  throw Error(value > 1 ? ErrorCode::kLessThanOrEqualTo : ErrorCode::kGreaterThan,
              where + " is " + excerpt(text) + ", but must be " + range_text(option) + ".");
}

Allowance allowance_value(const Option& option, const std::string& text, const std::string& where) {
  if (!text.ends_with('%')) {
    if (!is_whole_number(text)) {
      fail_to_parse(text, where, "a whole number of images, or a share such as 1%");
    }
    return {.value = static_cast<double>(integer_value(option, text, where)), .is_share = false};
  }
  double percent = 0;
  if (!read_number(std::string_view(text).substr(0, text.size() - 1), &percent) ||
      !std::isfinite(percent)) {
    fail_to_parse(text, where, "a whole number of images, or a share such as 1%");
  }
  if (percent < 0) fail_range(option, text, where, Side::kBelow);
  if (percent > 100) {
    throw Error(ErrorCode::kLessThanOrEqualTo, where + " is " + excerpt(text) +
                                                   ", but must be at most 100% (range " +
                                                   range_text(option) + ").");
  }
  return {.value = percent / 100, .is_share = true};
}

std::int64_t Allowance::of(std::int64_t total) const {
  if (!is_share) return static_cast<std::int64_t>(value);
  // In floating point 100 * 0.29 is slightly less than 29, but 29% of 100 images must be 29.
  constexpr double kRounding = 1 + 1e-12;
  const auto share =
      static_cast<std::int64_t>(std::floor(value * static_cast<double>(total) * kRounding));
  return value > 0 ? std::max<std::int64_t>(share, 1) : 0;
}

RateScaling rate_scaling_value(const Option& option, const std::string& text,
                               const std::string& where) {
  double number = 0;
  if (read_number(text, &number))
    return {RateScaling::Rule::kFactor, number_value(option, text, where)};
  const std::string word = choice_value(option, text, where);
  if (word == "sqrt") return {RateScaling::Rule::kSqrt};
  return word == "none" ? RateScaling{RateScaling::Rule::kFactor, 1} : RateScaling{};
}

double RateScaling::of(int num_ranks) const {
  if (rule == Rule::kFactor) return factor;
  return rule == Rule::kSqrt ? std::sqrt(num_ranks) : num_ranks;
}

std::string choice_value(const Option& option, const std::string& text, const std::string& where) {
  const std::string word = lower(text);
  for (const std::string& choice : option.choices) {
    if (same_name(lower(choice), word)) return choice;
  }
  if (text.empty()) fail_to_parse(text, where, join_choices(option.choices));
  if (option.kind == ValueKind::kModelName) {
    throw Error(ErrorCode::kInvalidModelDirectory,
                where + " is '" + excerpt(text) + "', an unknown network. Known networks: " +
                    join_choices(option.choices) + "." + did_you_mean(word, option.choices));
  }
  throw Error(ErrorCode::kParameterParsing, where + " is '" + excerpt(text) + "', but must be " +
                                                join_choices(option.choices) + ".");
}

Augment augment_value(const Option& /*option*/, const std::string& text, const std::string& where) {
  try {
    return parse_augment(text);
  } catch (const AugmentFault& fault) {
    throw Error(ErrorCode::kParameterParsing, where + " " + fault.what() + ".");
  }
}

void refuse_placeholder(const std::string& text, const std::string& where) {
  if (!text.starts_with("{{$") && !text.starts_with("{\"IfPresent")) return;
  throw Error(
      ErrorCode::kParameterParsing,
      where + " is '" + excerpt(text) +
          "', a placeholder that the pipeline did not fill in: set this input in the pipeline.");
}

std::string path_value(const Option& option, const std::string& text, const std::string& where) {
  if (text.empty())
    fail_to_parse(text, where, option.value_name == "REGEX" ? "a regular expression" : "a path");
  return text;
}

}  // namespace kiln
