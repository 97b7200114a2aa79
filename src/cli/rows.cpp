#include "cli/rows.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "base/files.h"
#include "base/path_pattern.h"
#include "base/text.h"
#include "model/catalogue.h"
#include "record/run_file.h"

namespace kiln {
namespace {

[[noreturn]] void refuse_value(const std::string& text, const std::string& where,
                               const std::string& reason) {
  refuse_text(where + " is " + (text.empty() ? "empty" : "'" + excerpt(text) + "'") + ", " +
              reason + ".");
}

[[noreturn]] void fail_to_parse(const std::string& text, const std::string& where,
                                const std::string& expected) {
  refuse_value(text, where, "but must be " + expected);
}

Error misfit(ErrorCode code, const std::string& text, const std::string& where,
             const std::string& expected) {
  return {code, where + " is " + excerpt(text) + ", but must be " + expected + "."};
}

[[noreturn]] void fail_range(const Option& option, const std::string& text,
                             const std::string& where, bool is_above) {
  const std::string range = " (range " + range_text(option) + ")";
  // For an integer whose minimum is 1, the designer has the error code for "greater than 0".
  const bool exclusive = option.kind == ValueKind::kNumber ||
                         option.kind == ValueKind::kChoiceOrNumber || option.minimum == 1;
  const bool near_zero = exclusive || option.minimum == 0;
  if (!near_zero) throw misfit(ErrorCode::kNotInRangeValue, text, where, range_text(option));
  if (is_above)
    throw misfit(ErrorCode::kLessThanOrEqualTo, text, where,
                 "at most " + std::to_string(option.maximum) + range);
  if (exclusive) throw misfit(ErrorCode::kGreaterThan, text, where, "greater than 0" + range);
  throw misfit(ErrorCode::kGreaterThanOrEqualTo, text, where, "0 or greater" + range);
}

bool is_whole_number(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool has_auto(const Option& option) {
  return option.kind == ValueKind::kAutoOrInteger || option.kind == ValueKind::kCropSize ||
         option.kind == ValueKind::kAutoOrSize;
}

// Accepts what std::from_chars accepts, and a leading plus sign. Returns false if `text` is not a
// number. Values that are too large become infinite, and those that are too small become 0.
bool read_number(std::string_view text, double* value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with('+')) return false;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (result.ptr != text.data() + text.size() || result.ec == std::errc::invalid_argument)
    return false;
  if (result.ec == std::errc::result_out_of_range)
    *value = std::strtod(std::string(text).c_str(), nullptr);
  return true;
}

// What a number with a unit counts.
enum class Counted { kEpochs, kSteps, kTime };

struct Unit {
  std::string_view word;
  Counted counted;
  int factor = 1;  // seconds, of kTime
};
constexpr std::array<Unit, 7> kUnits = {{
    {"epoch", Counted::kEpochs},
    {"epochs", Counted::kEpochs},
    {"step", Counted::kSteps},
    {"steps", Counted::kSteps},
    {"s", Counted::kTime, 1},
    {"min", Counted::kTime, 60},
    {"h", Counted::kTime, 3600},
}};

struct Amount {
  Counted counted;
  std::int64_t number = 0;  // of kTime, seconds
};

// A whole number of at least 1 with a unit, such as 30min; empty if the text is none.
std::optional<Amount> amount_in(const Option& option, const std::string& text,
                                const std::string& where) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto* const unit = std::ranges::find(kUnits, text.substr(digits), &Unit::word);
  if (unit == kUnits.end() || text.find_first_not_of('0') >= digits) return {};
  return Amount{unit->counted, integer_value(option, text.substr(0, digits), where) * unit->factor};
}

Allowance allowance_value(const Option& option, const std::string& text, const std::string& where) {
  if (text == "auto") return {};
  const bool is_share = text.ends_with('%');
  double percent = 0;
  if (is_share ? !read_number(std::string_view(text).substr(0, text.size() - 1), &percent) ||
                     !std::isfinite(percent)
               : !is_whole_number(text))
    fail_to_parse(text, where, "auto, a whole number of images, or a share such as 1%");
  if (!is_share)
    return {.value = static_cast<double>(integer_value(option, text, where)),
            .is_share = false,
            .is_auto = false};
  if (percent < 0) fail_range(option, text, where, /*is_above=*/false);
  if (percent > 100)
    throw misfit(ErrorCode::kLessThanOrEqualTo, text, where,
                 "at most 100% (range " + range_text(option) + ")");
  return {.value = percent / 100, .is_share = true, .is_auto = false};
}

// The value of --checkpoint-every.
CheckpointEvery every_value(const Option& option, const std::string& text,
                            const std::string& where) {
  std::array<std::int64_t, 3> counts{};  // by Counted
  for (const std::string& item : items_of(text)) {
    const std::optional<Amount> amount = amount_in(option, item, where);
    if (!amount)
      fail_to_parse(text, where,
                    "whole numbers of at least 1 with a unit (epoch, step, s, min or h), joined by "
                    "commas, such as 1epoch,10min");
    std::int64_t& count = counts.at(static_cast<std::size_t>(amount->counted));
    if (count > 0) refuse_value(text, where, "with two numbers of one kind: keep one of them");
    count = amount->number;
  }
  return {.epochs = static_cast<int>(counts[0]),
          .steps = counts[1],
          .seconds = static_cast<double>(counts[2])};
}

double duration_value(const Option& option, const std::string& text, const std::string& where) {
  const std::optional<Amount> amount = amount_in(option, text, where);
  if (!amount || amount->counted != Counted::kTime)
    fail_to_parse(text, where,
                  "a whole number of at least 1 with a unit (s, min or h), such as 30min");
  return static_cast<double>(amount->number);
}

std::string seconds_text(const Option& /*option*/, const double& seconds) {
  if (seconds == 0) return "";
  const Unit* longest = nullptr;
  for (const Unit& unit : kUnits)
    if (unit.counted == Counted::kTime && std::fmod(seconds, unit.factor) == 0) longest = &unit;
  return formatted("%.0f", seconds / longest->factor) + std::string(longest->word);
}

std::string every_text(const Option& option, const CheckpointEvery& value) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ",") + part; };
  if (value.epochs > 0)
    add(std::to_string(value.epochs) + (value.epochs == 1 ? "epoch" : "epochs"));
  if (value.steps > 0) add(std::to_string(value.steps) + (value.steps == 1 ? "step" : "steps"));
  if (value.seconds > 0) add(seconds_text(option, value.seconds));
  return text;
}

constexpr std::array<std::string_view, 3> kWeightRules = {"none", "sqrt", "balanced"};

// The rows of a CSV file of classes and their weights, or the items of cat=1,dog=2.5, where a comma
// in an item without = is one of the class's name.
std::vector<std::pair<std::string, std::string>> weights_in(const std::string& text, bool is_file,
                                                            const std::string& where) {
  std::vector<std::pair<std::string, std::string>> rows;
  if (is_file) {
    const auto refuse = [&](const std::string& why) {
      refuse_text(where + " " + quoted_path(text) + " " + why + ".");
    };
    const std::string file = read_text_or(text, 1 << 24, "is larger than 16 MiB", refuse);
    CsvReader reader(file);
    try {
      for (std::vector<std::string> row; reader.next(row); rows.emplace_back(row[0], row[1]))
        if (row.size() != 2) throw std::invalid_argument("it must have a class and its weight");
    } catch (const std::invalid_argument& fault) {
      refuse("has a fault in line " + std::to_string(reader.line()) + ": " + fault.what());
    }
    if (!rows.empty() && rows[0] == std::pair<std::string, std::string>("class", "weight"))
      rows.erase(rows.begin());
    return rows;
  }
  std::string name;
  for (const std::string& item : items_of(text)) {
    name += (name.empty() ? "" : ",") + item;
    const std::size_t sign = name.rfind('=');
    if (sign == name.npos) continue;
    rows.emplace_back(trimmed(name.substr(0, sign)), name.substr(sign + 1));
    name.clear();
  }
  if (!name.empty()) rows.emplace_back(name, "");
  return rows;
}

ClassWeighting class_weights_value(const Option& option, const std::string& text,
                                   const std::string& where) {
  const bool is_file = in_small_letters(text).ends_with(".csv");
  if (!is_file && text.find('=') == text.npos) {
    const auto* const rule = std::ranges::find(kWeightRules, choice_value(option, text, where));
    return {static_cast<ClassWeights>(rule - kWeightRules.begin())};
  }
  ClassWeighting weights{ClassWeights::kGiven};
  for (const auto& [name, weight] : weights_in(text, is_file, where)) {
    double value = 0;
    if (!read_number(weight, &value) || !std::isfinite(value) || value <= 0)
      refuse_text(where + " has '" + excerpt(weight) + "' as the weight of '" + excerpt(name) +
                  "', but it must be a number greater than 0.");
    if (!weights.given.emplace(name, value).second)
      refuse_text(where + " has two weights of '" + excerpt(name) + "': keep one.");
  }
  return weights;
}

std::string same_text(const Option& /*option*/, const std::string& text) {
  return text;
}

Reader<bool> boolean(ValueKind kind, std::string value_name) {
  return {{.value_name = std::move(value_name), .kind = kind},
          boolean_value,
          [](const Option& option, bool value) -> std::string {
            if (option.kind == ValueKind::kFlag) return "";
            return value ? "True" : "False";
          }};
}

}  // namespace

void refuse_text(const std::string& message) {
  throw Error(ErrorCode::kParameterParsing, message);
}

void refuse_placeholder(const std::string& text, const std::string& where) {
  if (!text.starts_with("{{$") && !text.starts_with("{\"IfPresent")) return;
  refuse_text(
      where + " is '" + excerpt(text) +
      "', a placeholder that the pipeline did not fill in: set this input in the pipeline.");
}

std::int64_t integer_value(const Option& option, const std::string& text,
                           const std::string& where) {
  const bool automatic = has_auto(option);
  if (automatic && in_small_letters(text) == "auto") return 0;
  if (!is_whole_number(text))
    fail_to_parse(text, where, automatic ? "auto or an integer" : "an integer");
  const std::string_view digits = std::string_view(text).substr(text[0] == '+' ? 1 : 0);
  std::int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec == std::errc::result_out_of_range) fail_range(option, text, where, text[0] != '-');
  if (value < option.minimum) fail_range(option, text, where, /*is_above=*/false);
  if (value > option.maximum) fail_range(option, text, where, /*is_above=*/true);
  return value;
}

double number_value(const Option& option, const std::string& text, const std::string& where) {
  double value = 0;
  if (!read_number(text, &value)) fail_to_parse(text, where, "a number");
  const std::string range = " (range " + range_text(option) + ")";
  if (std::isnan(value)) throw misfit(ErrorCode::kNaN, text, where, "a number" + range);
  const bool spelled_out = in_small_letters(text).find("inf") != std::string::npos;
  if (std::isinf(value) && spelled_out)
    throw misfit(ErrorCode::kInfinity, text, where, "finite" + range);
  const auto minimum = static_cast<double>(option.minimum);
  if (value < minimum || (value == minimum && option.kind != ValueKind::kNumberFrom))
    fail_range(option, text, where, /*is_above=*/false);
  if (value > static_cast<double>(option.maximum))
    fail_range(option, text, where, /*is_above=*/true);
  return value;
}

bool boolean_value(const Option& /*option*/, const std::string& text, const std::string& where) {
  const std::string word = in_small_letters(text);
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
  throw misfit(value > 1 ? ErrorCode::kLessThanOrEqualTo : ErrorCode::kGreaterThan, text, where,
               range_text(option));
}

std::string choice_value(const Option& option, const std::string& text, const std::string& where) {
  const std::string word = in_small_letters(text);
  for (const std::string& choice : option.choices)
    if (same_name(in_small_letters(choice), word)) return choice;
  if (const KnownNetwork* network = find_network(word);
      network != nullptr && option.kind == ValueKind::kModelName)
    return std::string(network->name);
  if (option.kind == ValueKind::kModelName && !text.empty())
    throw Error(ErrorCode::kInvalidModelDirectory,
                where + " is '" + excerpt(text) + "', an unknown network. Known networks: " +
                    join_choices(option.choices) + "." + did_you_mean(word, option.choices));
  fail_to_parse(text, where, join_choices(option.choices));
}

std::string text_value(const Option& option, const std::string& text, const std::string& where) {
  if (text.empty())
    fail_to_parse(text, where, option.value_name == "REGEX" ? "a regular expression" : "a path");
  return text;
}

std::string integer_text(const Option& option, std::int64_t value) {
  if (value >= option.minimum && value <= option.maximum) return std::to_string(value);
  return value == 0 && has_auto(option) ? "auto" : "";
}

std::string number_text(const Option& option, const double& value) {
  const auto minimum = static_cast<double>(option.minimum);
  const bool is_valid = option.kind == ValueKind::kNumberFrom ? value >= minimum : value > minimum;
  return is_valid ? shortest_text(value, std::chars_format::fixed) : "";
}

Reader<std::string> path(std::string value_name, ValueKind kind) {
  return {{.value_name = std::move(value_name), .kind = kind}, text_value, same_text};
}

Reader<std::string> input_path(std::string value_name) {
  Reader<std::string> reader = path(std::move(value_name));
  reader.option.is_read = true;
  return reader;
}

Reader<std::string> model_path(std::string value_name) {
  Reader<std::string> reader = input_path(std::move(value_name));
  reader.parse = [](const auto&... text) { return model_of(text_value(text...)).string(); };
  return reader;
}

Option cache_option() {
  Option option = path("DIR").option;
  option.name = "cache-path";
  Under(kMachine, Effect::kFree, kMayDiffer).apply(option);
  option.help =
      "Folder for copies of what paths in buckets (s3://, gs://, abfss://) name. Default: "
      "kiln/buckets in $XDG_CACHE_HOME, else in ~/.cache.";
  return option;
}

Reader<std::string> regular_expression() {
  return {{.value_name = "REGEX"},
          [](const Option& option, const std::string& text, const std::string& where) {
            std::string pattern = text_value(option, text, where);
            try {
              const PathPattern valid(pattern);
            } catch (const std::invalid_argument& fault) {
              refuse_text(where + " " + quoted_path(pattern) +
                          " cannot be used as a regular expression: " + fault.what() +
                          ". An example is '(patient[0-9]+)_'.");
            }
            return pattern;
          },
          same_text};
}

Reader<std::string> one_of(std::vector<std::string> choices) {
  return {{.value_name = joined(choices, "|"),
           .kind = ValueKind::kChoice,
           .choices = std::move(choices)},
          choice_value,
          same_text};
}

Reader<std::string> network_name(bool or_auto) {
  std::vector<std::string> names = network_names();
  if (or_auto) names.emplace_back(kAutoNetwork);
  return {{.value_name = "MODEL", .kind = ValueKind::kModelName, .choices = std::move(names)},
          choice_value,
          same_text};
}

Reader<bool> true_or_false() {
  return boolean(ValueKind::kBoolean, "True|False");
}

Reader<bool> on_off() {
  return boolean(ValueKind::kSwitch, "[True|False]");
}

Reader<bool> flag() {
  return boolean(ValueKind::kFlag, "");
}

Reader<double> share(std::string value_name) {
  return {
      {.value_name = std::move(value_name), .kind = ValueKind::kShare}, share_value, number_text};
}

Reader<double> duration() {
  return {{.value_name = "TIME",
           .kind = ValueKind::kDuration,
           .minimum = 1,
           .maximum = 1000 * kMillion},
          duration_value,
          seconds_text};
}

Reader<Allowance> allowance() {
  return {{.value_name = "auto|N|N%",
           .unit = "images, or percent of a dataset",
           .kind = ValueKind::kAllowance,
           .maximum = 1000 * kMillion},
          allowance_value,
          [](const Option& option, const Allowance& value) {
            if (value.is_auto) return std::string("auto");
            return value.is_share ? number_text(option, value.value * 100) + "%"
                                  : number_text(option, value.value);
          }};
}

Reader<Augment> augmentation() {
  return {{.value_name = "none|flip|standard|strong|LIST", .kind = ValueKind::kAugment},
          [](const Option&, const std::string& text, const std::string& where) {
            try {
              return parse_augment(text);
            } catch (const std::invalid_argument& fault) {
              refuse_text(where + " " + fault.what() + ".");
            }
          },
          [](const Option&, const Augment& value) { return augment_name(value); }};
}

Reader<CheckpointEvery> intervals() {
  return {
      {.value_name = "LIST", .kind = ValueKind::kEvery, .minimum = 1, .maximum = 1000 * kMillion},
      every_value,
      every_text};
}

Reader<RateScaling> rate_scaling() {
  return {
      {.value_name = "linear|sqrt|none|X",
       .kind = ValueKind::kChoiceOrNumber,
       .maximum = 1000 * kMillion,
       .choices = {"linear", "sqrt", "none"}},
      [](const Option& option, const std::string& text, const std::string& where) -> RateScaling {
        double number = 0;
        if (read_number(text, &number))
          return {RateScaling::Rule::kFactor, number_value(option, text, where)};
        const std::string word = choice_value(option, text, where);
        if (word == "sqrt") return {RateScaling::Rule::kSqrt};
        return word == "none" ? RateScaling{RateScaling::Rule::kFactor, 1} : RateScaling{};
      },
      [](const Option& option, const RateScaling& value) -> std::string {
        if (value.rule == RateScaling::Rule::kFactor) return number_text(option, value.factor);
        return value.rule == RateScaling::Rule::kSqrt ? "sqrt" : "linear";
      }};
}

Reader<ImageSize> image_size() {
  return {{.value_name = "auto|N|HxW",
           .unit = "pixels",
           .kind = ValueKind::kAutoOrSize,
           .minimum = 16,
           .maximum = 2048},
          [](const Option& option, const std::string& text, const std::string& where) -> ImageSize {
            const std::size_t cross = text.find('x');
            const auto side = [&](const std::string& part) {
              if (cross == text.npos) return static_cast<int>(integer_value(option, part, where));
              const bool is_side = is_whole_number(part) && part.size() < 6;
              const int value = is_side ? std::stoi(part) : 0;
              if (value < option.minimum || value > option.maximum)
                fail_to_parse(text, where, range_text(option));
              return value;
            };
            const int height = side(text.substr(0, cross));
            return {height, cross == text.npos ? height : side(text.substr(cross + 1))};
          },
          [](const Option& option, ImageSize size) {
            return integer_text(option, size.height) +
                   (size.width == size.height ? "" : "x" + integer_text(option, size.width));
          }};
}

std::string text_of(const ClassWeighting& weights) {
  if (weights.rule != ClassWeights::kGiven)
    return std::string(kWeightRules.at(static_cast<std::size_t>(weights.rule)));
  return joined(
      list_from(weights.given,
                [](const auto& one) { return one.first + "=" + shortest_text(one.second); }),
      ",");
}

Reader<ClassWeighting> class_weighting() {
  return {{.value_name = "none|sqrt|balanced|LIST|FILE.csv",
           .choices = {kWeightRules.begin(), kWeightRules.end()}},
          class_weights_value,
          [](const Option&, const ClassWeighting& weights) { return text_of(weights); }};
}

Reader<CropSize> crop_size() {
  return {{.value_name = "auto|larger|N",
           .unit = "pixels",
           .kind = ValueKind::kCropSize,
           .minimum = 16,
           .maximum = 2048},
          [](const Option& option, const std::string& text, const std::string& where) -> CropSize {
            if (text == "larger" || text == "Larger" || text == "LARGER") return {0, true};
            return {static_cast<int>(integer_value(option, text, where)), false};
          },
          [](const Option& option, const CropSize& value) {
            return value.is_larger ? "larger" : integer_text(option, value.side);
          }};
}

}  // namespace kiln
