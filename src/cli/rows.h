// A row of the table of options: an option together with the field that it fills. The field's
// initializer is the default, and its type says how a text is read:
//
//   opt(&RecipeConfig::clip_norm, "clip-norm", from(0, kMillion), {kRecipe, kResult}, "Clip …")
//
// A command is a list of such rows for its struct, and a function for what no row says by itself:
// faults of several options together, and values that follow from others.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/given.h"
#include "cli/options.h"

namespace kiln {

inline const std::string kPaths = "Inputs and outputs";
inline const std::string kTraining = "Training";
inline const std::string kRecipe = "Recipe";
inline const std::string kImages = "Images";
inline const std::string kMachine = "Machine";
inline const std::string kRanks = "Distributed training";
inline const std::string kReporting = "Reporting", kOfCheckpoints = "Checkpoints";
inline const std::string kModel = "Model";
inline const std::string kAnswers = "Answers";

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

// The text of one option as a value. `where` starts every message: "--epochs is 0, but must be …".
// Malformed text is Error kParameterParsing; a value out of range is error 4, 5, 7 or 8.

[[noreturn]] void refuse_text(const std::string& message);  // Error kParameterParsing
// Also for a placeholder that Kubeflow Pipelines did not substitute.
void refuse_placeholder(const std::string& text, const std::string& where);
// 0 stands for `auto`.
std::int64_t integer_value(const Option& option, const std::string& text, const std::string& where);
double number_value(const Option& option, const std::string& text, const std::string& where);
bool boolean_value(const Option& option, const std::string& text, const std::string& where);
double share_value(const Option& option, const std::string& text, const std::string& where);
std::string choice_value(const Option& option, const std::string& text, const std::string& where);
std::string text_value(const Option& option, const std::string& text, const std::string& where);
// The values as text, as they are given; empty if they are not in the option's range.
std::string integer_text(const Option& option, std::int64_t value);
std::string number_text(const Option& option, const double& value);

// How the text of an option is read.
template <typename Value>
struct Reader {
  Option option = {};  // its kind, range, choices, unit and value_name
  std::function<Value(const Option&, const std::string& text, const std::string& where)> parse = {};
  std::function<std::string(const Option&, const Value&)> print = {};  // empty: no default
};

// Numbers in a range. 0 stands for `auto`, if that is allowed; elsewhere a default that is not in
// the range is none.
struct Range {
  ValueKind kind = ValueKind::kInteger;
  std::int64_t minimum = 0, maximum = 0;
  std::string unit = {};
};
inline Range from(std::int64_t minimum, std::int64_t maximum, std::string unit = "") {
  return {ValueKind::kInteger, minimum, maximum, std::move(unit)};
}
inline Range above_zero(std::int64_t maximum) {
  return {ValueKind::kNumber, 0, maximum};
}
inline Range auto_or(std::int64_t minimum, std::int64_t maximum, std::string unit) {
  return {ValueKind::kAutoOrInteger, minimum, maximum, std::move(unit)};
}

// The words of an option with the values that they stand for.
template <typename Value>
using Words = std::vector<std::pair<std::string, Value>>;

Reader<std::string> path(std::string value_name, ValueKind kind = ValueKind::kPath);
Reader<std::string> input_path(std::string value_name);  // that may be in a bucket
Reader<std::string> model_path(std::string value_name);  // or the folder of a run that has one
Reader<std::string> regular_expression();                // for paths
Reader<std::string> one_of(std::vector<std::string> choices);
Reader<std::string> network_name(bool or_auto = false);
Reader<bool> true_or_false();
Reader<bool> on_off();  // True if given without a value
Reader<bool> flag();    // takes no value
Reader<double> share(std::string value_name);
Reader<double> duration();  // seconds
Reader<Allowance> allowance();
Reader<Augment> augmentation();
Reader<CheckpointEvery> intervals();  // parts that the text does not mention are 0
Reader<RateScaling> rate_scaling();
Reader<CropSize> crop_size();
Reader<ImageSize> image_size();
Reader<ClassWeighting> class_weighting();
std::string text_of(const ClassWeighting& weights);  // as it may be given, not as a file

inline const Words<DeviceChoice> kDevices = {
    {"auto", DeviceChoice::kAuto}, {"cuda", DeviceChoice::kCuda}, {"cpu", DeviceChoice::kCpu}};
inline const Words<std::optional<Precision>> kPrecisions = {{"fp32", Precision::kFp32},
                                                            {"tf32", Precision::kTf32},
                                                            {"bf16", Precision::kBf16},
                                                            {"fp16", Precision::kFp16},
                                                            {"auto", std::nullopt}};

// A choice of the rows of a catalogue, and their descriptions.
Reader<std::string> named(const auto& catalogue) {
  return one_of(list_from(catalogue, [](auto& row) { return std::string(row.name); }));
}
std::string descriptions(const auto& catalogue) {
  const auto sentence = [](auto& row) {
    return std::string(row.name) + ": " + std::string(row.description) + ".";
  };
  return joined(list_from(catalogue, sentence), " ");
}

// What else is said of an option, besides its Effect and its role on the Canvas.
using Mark = bool Option::*;
constexpr Mark kRequired = &Option::required, kPositional = &Option::positional,
               kOfRecipe = &Option::is_of_recipe, kForOneRun = &Option::is_for_one_run,
               kMayDiffer = &Option::may_differ, kFirst = &Option::is_on_first_screen;

// The group of an option, or in braces the group and marks: {kRecipe, kResult, kOfRecipe}.
class Under {
 public:
  template <typename... Marks>
  Under(std::string group, Marks... marks)  // NOLINT: a group without marks is just a group
      : group_(std::move(group)), marks_{marks...} {}
  void apply(Option& option) const {
    option.group = group_;
    for (const auto& mark : marks_) {
      if (const auto* flag = std::get_if<Mark>(&mark)) option.** flag = true;
      if (const auto* effect = std::get_if<Effect>(&mark)) option.effect = *effect;
      if (const auto* role = std::get_if<Canvas>(&mark)) option.canvas = *role;
    }
  }

 private:
  std::string group_;
  std::vector<std::variant<Mark, Effect, Canvas>> marks_;
};

template <typename Config>
struct Row {
  Option option;
  std::function<void(Config&, const Option&, const std::string& text, const std::string& where)>
      fill;
  std::function<std::string(Config&, const Option&)> default_text;

  // What few options say besides.
  Row& with(std::string Option::*member, std::string text) {
    option.*member = std::move(text);
    return *this;
  }
  // Is treated as given with this text if it is not.
  Row& otherwise(std::string text) {
    option.default_text = std::move(text);
    option.is_implied = true;
    return *this;
  }
};

// Rows in table order.
template <typename Config>
struct Rows {
  Rows(Row<Config> row) { all.push_back(std::move(row)); }  // NOLINT: a row is a list of one
  Rows(std::initializer_list<Rows> parts) {
    for (const Rows& part : parts) all.insert(all.end(), part.all.begin(), part.all.end());
  }

  Rows& is(Effect effect) {
    for (Row<Config>& row : all) row.option.effect = effect;
    return *this;
  }
  Rows& on_canvas(const std::string& name, Canvas role) {
    for (Row<Config>& row : all)
      if (row.option.name == name) row.option.canvas = role;
    return *this;
  }

  std::vector<Row<Config>> all;
};

namespace rows {

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
            [](const auto&... text) { return static_cast<Number>(integer_value(text...)); },
            integer_text};
  else
    return {std::move(option), number_value, number_text};
}

template <typename Value>
Reader<Value> reader_of(const Words<Value>& words) {
  std::vector<std::string> choices = list_from(words, [](auto& row) { return row.first; });
  Reader<Value> reader = {.option = one_of(std::move(choices)).option};
  reader.parse = [words](const auto&... text) {
    return std::ranges::find(words, choice_value(text...), &Words<Value>::value_type::first)
        ->second;
  };
  reader.print = [words](const Option&, const Value& chosen) -> std::string {
    for (const auto& [word, value] : words)
      if (value == chosen) return word;
    return "";
  };
  return reader;
}

}  // namespace rows

Option cache_option();  // --cache-path, of all commands that read paths

// The row of the field that `place` returns a reference to.
template <typename Config, typename Place, typename Value>
Row<Config> row_of(Place place, const char* name, Reader<Value> reader, const Under& under,
                   std::string help) {
  using Field = std::remove_cvref_t<std::invoke_result_t<Place, Config&>>;
  constexpr bool kIsList = std::same_as<Field, std::vector<Value>>;
  Option option = std::move(reader.option);
  option.name = name;
  under.apply(option);
  option.help = std::move(help);
  option.repeatable = kIsList;
  option.same_value = [parse = reader.parse](const Option& row, const std::string& a,
                                             const std::string& b) {
    return parse(row, a, "") == parse(row, b, "");
  };
  return {std::move(option),
          [place, parse = reader.parse](Config& config, const auto&... text) {
            if constexpr (kIsList)
              std::invoke(place, config).push_back(parse(text...));
            else
              std::invoke(place, config) = parse(text...);
          },
          [place, print = reader.print](Config& config, const Option& row) -> std::string {
            const Field& field = std::invoke(place, config);
            if constexpr (std::same_as<Field, Value>)
              if (print) return print(row, field);
            if constexpr (std::same_as<Field, std::optional<Value>>)
              if (field) return print(row, *field);
            return "";
          }};
}

template <typename Config, typename Field, typename Value>
Row<Config> opt(Field Config::*field, const char* name, Reader<Value> reader, const Under& under,
                std::string help) {
  return row_of<Config>(field, name, std::move(reader), under, std::move(help));
}

template <typename Config, typename Field>
Row<Config> opt(Field Config::*field, const char* name, const Range& range, const Under& under,
                std::string help) {
  using Number = typename decltype(std::optional(std::declval<Field>()))::value_type;
  return row_of<Config>(field, name, rows::reader_of<Number>(range), under, std::move(help));
}

template <typename Config, typename Field>
Row<Config> opt(Field Config::*field, const char* name,
                const std::type_identity_t<Words<Field>>& words, const Under& under,
                std::string help) {
  return row_of<Config>(field, name, rows::reader_of<Field>(words), under, std::move(help));
}

template <typename Config>
Row<Config> seed_row(const Under& under, const std::string& help) {
  return opt(&Config::random_seed, "random-seed", from(kLowest, kHighest), under, help);
}

// The rows of a struct that is a member of another.
template <typename Outer, typename Inner>
Rows<Outer> within(Inner Outer::*member, const Rows<Inner>& rows) {
  Rows<Outer> outer = {};
  for (const Row<Inner>& row : rows.all)
    outer = {outer,
             Row<Outer>{row.option,
                        [member, fill = row.fill](Outer& config, const auto&... text) {
                          fill(config.*member, text...);
                        },
                        [member, text = row.default_text](Outer& config, const Option& option) {
                          return text(config.*member, option);
                        }}};
  return outer;
}

// The command whose options are `rows`. `check` reports faults of several options together, and
// sets what follows from them. Each of `implies` treats options as given because of others
// (Given::imply).
template <typename Config>
CommandInfo command(
    std::string name, std::string summary, std::string usage, Rows<Config> rows,
    std::type_identity_t<void (*)(Given&, Config&)> check = nullptr,
    std::type_identity_t<std::vector<void (*)(Given&, const Config&)>> implies = {}) {
  CommandInfo info{
      .name = std::move(name), .summary = std::move(summary), .usage = std::move(usage)};
  Config defaults;
  for (Row<Config>& row : rows.all) {
    if (!row.option.required && !row.option.is_implied)
      row.option.default_text = row.default_text(defaults, row.option);
    info.options.push_back(row.option);
  }
  if (std::ranges::any_of(info.options, &Option::is_read)) info.options.push_back(cache_option());
  info.bind = [rows = std::move(rows), check, implies](Given& given) -> Command {
    for (const Row<Config>& row : rows.all)
      if (row.option.is_implied)
        given.imply(row.option.name, row.option.default_text, "", Origin::kDefault);
    const auto filled = [&] {
      Config config;
      for (const Row<Config>& row : rows.all)
        given.read(row.option.name, [&](const std::string& text, const std::string& where) {
          refuse_placeholder(text, where);
          row.fill(config, row.option, text, where);
        });
      return config;
    };
    Config config = filled();
    for (const auto imply : implies) {
      imply(given, config);
      config = filled();
    }
    given.report_missing();
    if (check != nullptr) check(given, config);
    return config;
  };
  return info;
}

// ---- what the files of rows share ----

// --classes, --first-label, --record-keys, --columns and --list-root, for every command that reads
// datasets; data_options.cpp.
Rows<RecordOptions> record_rows();
// --split-name, for commands that read one dataset.
Rows<RecordOptions> list_set_rows();
// --task; task_options.cpp.
Rows<RecordOptions> task_rows();
// All three, for commands that take no images of several labels.
Rows<RecordOptions> one_label_rows();
// Whether it forbids an option; and its faults.
bool task_refuses(const Given& given, std::string_view name);
// Whether --task is multi-label.
bool has_several(const Given& given);
// Refuses those of the options that are set to what they name, with `clause` after their value.
void refuse_unfit(Given& given, std::span<const UnfitOption> all,
                  const std::function<std::string(const UnfitOption&)>& clause);
void check_task(Given& given, const TrainConfig& config);
// --json, of commands whose result is files or lines for people. `help` ends its text.
template <typename Config>
Row<Config> json_row(const Under& under, const std::string& help = "") {
  return opt(&Config::json, "json", flag(), under,
             "Print the result as a JSON object on standard output, and messages on standard "
             "error." +
                 help);
}
// When an image has no answer, and what is said beside it, of commands that answer.
template <typename Config>
Rows<Config> answer_rows() {
  return {opt(&Config::min_confidence, "min-confidence", share("P|P%"), kAnswers,
              "Confidence threshold: below it there is no label, and guess holds the most probable "
              "class."),
          opt(&Config::answer_at, "answer-at", share("P|P%"), kAnswers,
              "The same, at the threshold that gave this accuracy on the validation images of "
              "training. A lower value answers more images."),
          opt(&Config::neighbors, "neighbors", from(0, 100, "images"), kAnswers,
              "Name so many of the nearest training images with each answer: needs a model of "
              "train --keep-features."),
          opt(&Config::refuse_unlike, "refuse-unlike", share("P|P%"), kAnswers,
              "No label for images that are unlike the training images: whose alike is below this. "
              "Of images like those, that share is refused.")};
}
// What is done with EXIF orientations. `help` ends its text.
Row<RecordOptions> exif_row(const Under& under, const std::string& help);

// The options of train that describe a network; model_options.cpp.
Rows<NetworkConfig> network_rows();
void check_network(Given& given, const NetworkConfig& config);

// Options that are omitted, as the first minute with photos needs them: the network, and what helps
// if they are given as bare words; then those that --recipe sets. Then what follows from several
// options together. train_checks.cpp
void imply_usual(Given& given, const TrainConfig& config);
void imply_recipe(Given& given, const TrainConfig& config);
void check_train(Given& given, TrainConfig& config);
// Faults of an output that would replace one of a training job's inputs or its model, or be read as
// one.
Problems overlaps_with_job(const char* output_name, const std::string& output,
                           const TrainConfig& config);

// The network for which no other is named, or the one that the name of a file of weights begins
// with.
inline constexpr std::string_view kUsualNetwork = "resnet18";
std::string network_of(const std::string& weights);  // model_options.cpp

CommandInfo train_command();  // train_rows.cpp

// model_options.cpp
CommandInfo embed_command();
CommandInfo select_command();
CommandInfo score_command();
CommandInfo evaluate_command();
CommandInfo audit_command();
CommandInfo export_command();
CommandInfo init_model_command();

CommandInfo serve_command();  // serve_options.cpp

// data_options.cpp
CommandInfo convert_command();
CommandInfo split_command();
CommandInfo pack_command();
CommandInfo demo_data_command();
CommandInfo transform_init_command();
CommandInfo transform_apply_command();

// job_options.cpp
CommandInfo launch_command();
CommandInfo tune_command();
CommandInfo inspect_command();
CommandInfo report_command();
CommandInfo compare_command();
CommandInfo describe_command();

}  // namespace kiln
