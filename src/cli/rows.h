// A row of the table of options: an option together with the field that it fills. The field's
// initializer is the default, and its type says how a text is read:
//
//   opt(&RecipeConfig::clip_norm, "clip-norm", from(0, kMillion), kRecipe, "Clip …").is(kResult)
//
// A command is a list of such rows for its struct, and a function for what no row says by itself:
// faults of several options together, and values that follow from others.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/binder.h"
#include "cli/options.h"
#include "cli/values.h"

namespace kiln {

inline const std::string kPaths = "Inputs and outputs";
inline const std::string kTraining = "Training";
inline const std::string kRecipe = "Recipe";
inline const std::string kImages = "Images";
inline const std::string kMachine = "Machine";
inline const std::string kRanks = "Distributed training";
inline const std::string kReporting = "Reporting";
inline const std::string kModel = "Model";

// How the text of an option is read.
template <typename Value>
struct Reader {
  Option option = {};  // its kind, range, choices, unit and value_name
  Value (*parse)(const Option&, const std::string& text, const std::string& where) = nullptr;
  // The default as text; empty: none.
  std::string (*print)(const Option&, const Value& value) = nullptr;
};

// Numbers in a range. 0 stands for `auto`, if that is allowed; elsewhere a default that is not in
// the range is none.
struct Range {
  ValueKind kind = ValueKind::kInteger;
  std::int64_t minimum = 0, maximum = 0;
  std::string unit = {};
};
Range from(std::int64_t minimum, std::int64_t maximum, std::string unit = "");
Range above_zero(std::int64_t maximum);
Range auto_or(std::int64_t minimum, std::int64_t maximum, std::string unit);

// The words of an option with the values that they stand for.
template <typename Value>
using Words = std::vector<std::pair<std::string, Value>>;

Reader<std::string> path(std::string value_name);
Reader<std::string> regular_expression();  // for paths
Reader<std::string> one_of(std::vector<std::string> choices);
Reader<std::string> network_name();
Reader<bool> true_or_false();
Reader<bool> on_off();  // True if given without a value
Reader<bool> flag();    // takes no value
Reader<double> share(std::string value_name);
Reader<Allowance> allowance();
Reader<Augment> augmentation();

inline const Words<DeviceChoice> kDevices = {
    {"auto", DeviceChoice::kAuto}, {"cuda", DeviceChoice::kCuda}, {"cpu", DeviceChoice::kCpu}};
inline const Words<std::optional<Precision>> kPrecisions = {{"fp32", Precision::kFp32},
                                                            {"tf32", Precision::kTf32},
                                                            {"bf16", Precision::kBf16},
                                                            {"fp16", Precision::kFp16},
                                                            {"auto", std::nullopt}};

// A choice of the rows of a catalogue, and their descriptions.
Reader<std::string> named(const auto& catalogue) {
  std::vector<std::string> names;
  names.reserve(catalogue.size());
  for (const auto& row : catalogue) names.emplace_back(row.name);
  return one_of(std::move(names));
}
std::string descriptions(const auto& catalogue) {
  std::string text;
  for (const auto& row : catalogue)
    text += (text.empty() ? "" : " ") + std::string(row.name) + ": " +
            std::string(row.description) + ".";
  return text;
}

// What else is said of an option, besides its Effect and its place on the Canvas.
enum class Mark {
  kPositional,   // required, and its name may be omitted
  kOfRecipe,     // Option::is_of_recipe
  kNotRepeated,  // not Option::is_repeated
  kMayDiffer,    // Option::may_differ
  kFirst,        // Option::is_on_first_screen
};
void mark(Option& option, Mark what);
void mark(Option& option, Effect effect);
void mark(Option& option, Canvas role);

template <typename Config>
struct Row {
  Option option;
  std::function<void(Config&, const Option&, const std::string& text, const std::string& where)>
      fill;
  std::function<std::string(Config&, const Option&)> default_text;

  // `instead`: the option that may be given instead; empty: none.
  Row& required(std::string instead = "") {
    option.required = true;
    option.instead = std::move(instead);
    return *this;
  }
  Row& shown_as(std::string value_name) {
    option.value_name = std::move(value_name);
    return *this;
  }
  template <typename... Marks>
  Row& is(Marks... marks) {
    (mark(option, marks), ...);
    return *this;
  }
  // Notes in `is_given` whether the option is given, and valid.
  Row& noted_in(bool Config::*is_given) {
    fill = [fill_field = std::move(fill), is_given](Config& config, const Option& row,
                                                    const std::string& text,
                                                    const std::string& where) {
      fill_field(config, row, text, where);
      config.*is_given = true;
    };
    return *this;
  }
};

// Rows in table order.
template <typename Config>
class Rows {
 public:
  Rows(Row<Config> row) { rows_.push_back(std::move(row)); }  // NOLINT: a row is a list of one
  Rows(std::initializer_list<Rows> parts) {
    for (const Rows& part : parts) rows_.insert(rows_.end(), part.rows_.begin(), part.rows_.end());
  }
  auto begin() { return rows_.begin(); }
  auto end() { return rows_.end(); }
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }

  Rows& is(Effect effect) {
    for (Row<Config>& row : rows_) row.is(effect);
    return *this;
  }
  Rows& on_canvas(const std::string& name, Canvas role) {
    for (Row<Config>& row : rows_)
      if (row.option.name == name) row.is(role);
    return *this;
  }

 private:
  std::vector<Row<Config>> rows_;
};

namespace rows {

template <typename Type>
struct Element {
  using type = Type;
};
template <typename Type>
struct Element<std::optional<Type>> {
  using type = Type;
};

template <typename Number>
Reader<Number> reader_of(const Range& range) {
  constexpr bool kIsWhole = std::is_integral_v<Number>;
  Option option = {
      .value_name = range.kind == ValueKind::kAutoOrInteger ? "auto|N"
                    : kIsWhole                              ? "N"
                                                            : "X",
      .unit = range.unit,
      .kind = range.kind == ValueKind::kInteger && !kIsWhole ? ValueKind::kNumberFrom : range.kind,
      .minimum = range.minimum,
      .maximum = range.maximum};
  if constexpr (kIsWhole)
    return {std::move(option),
            [](const Option& row, const std::string& text, const std::string& where) {
              return static_cast<Number>(integer_value(row, text, where));
            },
            [](const Option& row, const Number& value) { return integer_text(row, value); }};
  else
    return {std::move(option), number_value, number_text};
}

// The default of a field as text; that of a list is empty.
template <typename Value, typename Field, typename Print>
std::string text_of(const Option& row, const Field& field, [[maybe_unused]] const Print& print) {
  if constexpr (std::same_as<Field, Value>) return print(row, field);
  if constexpr (std::same_as<Field, std::optional<Value>>)
    if (field) return print(row, *field);
  return "";
}

// The row of the field that `place` returns a reference to.
template <typename Config, typename Place, typename Value, typename Parse, typename Print>
Row<Config> row(Place place, const char* name, Option option, std::type_identity<Value>,
                Parse parse, Print print, const std::string& group, std::string help) {
  using Field = std::remove_cvref_t<std::invoke_result_t<Place, Config&>>;
  constexpr bool kIsList = std::same_as<Field, std::vector<Value>>;
  option.name = name;
  option.group = group;
  option.help = std::move(help);
  option.repeatable = kIsList;
  option.same_value = [parse](const Option& row, const std::string& a, const std::string& b) {
    return parse(row, a, "") == parse(row, b, "");
  };
  return {std::move(option),
          [place, parse](Config& config, const Option& row, const std::string& text,
                         const std::string& where) {
            if constexpr (kIsList)
              std::invoke(place, config).push_back(parse(row, text, where));
            else
              std::invoke(place, config) = parse(row, text, where);
          },
          [place, print](Config& config, const Option& row) {
            return text_of<Value>(row, std::invoke(place, config), print);
          }};
}

}  // namespace rows

template <typename Config, typename Place, typename Value>
requires std::invocable<Place, Config&> Row<Config> opt(Place place, const char* name,
                                                        Reader<Value> reader,
                                                        const std::string& group,
                                                        std::string help) {
  return rows::row<Config>(place, name, std::move(reader.option), std::type_identity<Value>(),
                           reader.parse, reader.print, group, std::move(help));
}

template <typename Config, typename Field, typename Value>
Row<Config> opt(Field Config::*field, const char* name, Reader<Value> reader,
                const std::string& group, std::string help) {
  return opt<Config, Field Config::*>(field, name, std::move(reader), group, std::move(help));
}

template <typename Config, typename Field>
Row<Config> opt(Field Config::*field, const char* name, const Range& range,
                const std::string& group, std::string help) {
  return opt(field, name, rows::reader_of<typename rows::Element<Field>::type>(range), group,
             std::move(help));
}

template <typename Config, typename Field>
Row<Config> opt(Field Config::*field, const char* name, std::type_identity_t<Words<Field>> words,
                const std::string& group, std::string help) {
  Option option = {.kind = ValueKind::kChoice};
  for (const auto& [word, value] : words) {
    option.value_name += (option.value_name.empty() ? "" : "|") + word;
    option.choices.push_back(word);
  }
  const auto parse = [words](const Option& row, const std::string& text, const std::string& where) {
    const std::string found = choice_value(row, text, where);
    std::size_t i = 0;
    while (words[i].first != found) ++i;
    return words[i].second;
  };
  const auto print = [words](const Option&, const Field& chosen) -> std::string {
    for (const auto& [word, value] : words)
      if (value == chosen) return word;
    return "";
  };
  return rows::row<Config>(field, name, std::move(option), std::type_identity<Field>(), parse,
                           print, group, std::move(help));
}

// The rows of a struct that is a member of another.
template <typename Outer, typename Inner>
Rows<Outer> within(Inner Outer::*member, const Rows<Inner>& rows) {
  Rows<Outer> outer = {};
  for (const Row<Inner>& row : rows)
    outer = {
        outer,
        Row<Outer>{row.option,
                   [member, fill = row.fill](Outer& config, const Option& option,
                                             const std::string& text, const std::string& where) {
                     fill(config.*member, option, text, where);
                   },
                   [member, default_text = row.default_text](Outer& config, const Option& option) {
                     return default_text(config.*member, option);
                   }}};
  return outer;
}

// The command whose options are `rows`. `check` reports faults of several options together, and
// sets what follows from them. `imply` treats options as given because of others (Binder::imply).
template <typename Config>
CommandInfo command(std::string name, std::string summary, std::string usage, Rows<Config> rows,
                    void (*check)(Binder&, Config&) = nullptr,
                    void (*imply)(Binder&, const Config&) = nullptr) {
  CommandInfo info{
      .name = std::move(name), .summary = std::move(summary), .usage = std::move(usage)};
  Config defaults;
  for (Row<Config>& row : rows) {
    if (!row.option.required) row.option.default_text = row.default_text(defaults, row.option);
    info.options.push_back(row.option);
  }
  info.bind = [rows = std::move(rows), check, imply](Binder& binder) -> Command {
    const auto filled = [&] {
      Config config;
      for (const Row<Config>& row : rows)
        binder.read(row.option.name, [&](const std::string& text, const std::string& where) {
          refuse_placeholder(text, where);
          row.fill(config, row.option, text, where);
        });
      return config;
    };
    Config config = filled();
    if (imply != nullptr) {
      imply(binder, config);
      config = filled();
    }
    if (check != nullptr) check(binder, config);
    return config;
  };
  return info;
}

}  // namespace kiln
