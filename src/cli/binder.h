// Converts option texts to values, for the functions that fill the structs of run_config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/options.h"
#include "cli/run_config.h"

namespace kiln {

// The value of --image-size. Both are 0 for auto; `first` is 0 if the size does not grow.
struct ImageSizes {
  int first = 0, last = 0;
};

// The value of --eval-crop. `side` is 0 for auto and for larger.
struct CropSize {
  int side = 0;
  bool is_larger = false;
};

// Reads options by name: the given value, or else the default. Faults are collected in `raw`, which
// must outlive the binder; an invalid value reads as empty or 0. Each name must be an option of the
// command.
class Binder {
 public:
  // Records missing required options as faults.
  Binder(const CommandInfo& command, RawArguments& raw);

  std::string path(const char* name);
  std::vector<std::string> paths(const char* name);  // of a repeatable option, in order
  std::int64_t integer(const char* name);
  int small_integer(const char* name);
  double number(const char* name);
  bool boolean(const char* name);
  std::optional<double> share(const char* name);  // empty: not given
  Allowance allowance(const char* name);
  RateScaling rate_scaling(const char* name);
  CheckpointEvery every(const char* name);
  double duration(const char* name);  // seconds; 0: not given
  std::string image_size(const char* name);
  std::string choice(const char* name);
  ImageSizes image_sizes(const char* name);
  CropSize crop_size(const char* name);
  ExchangePlan exchange();

  // Options shared by several commands.
  Augment augment();
  DeviceChoice device();
  std::optional<int> ranks();  // 0: auto; empty: not given

  bool given(const char* name) const { return raw_.find(name) != nullptr; }
  // Whether the option is given with this value; an empty `text` is any value but the default.
  bool is_set(const char* name, const std::string& text) const;

  // Unless option `name` is given, treats it as given with the value `text`, because of option
  // `by`, which is given.
  void imply(const char* name, const std::string& text, const char* by);

  void fault(const char* name, ErrorCode code, const std::string& message);
  // Turns an Error thrown by `check` into a fault of this option.
  template <typename Check>
  void check(const char* name, Check&& check) {
    raw_.faults.collect(position(name), check);
  }

  // Every option and its text, in table order. URLs are shown without parts that may be secret.
  std::vector<std::pair<std::string, std::string>> effective_options() const;
  const std::string& overridden() const { return raw_.overridden; }
  const std::vector<std::string>& words() const { return raw_.words; }

 private:
  template <typename Value>
  Value read(const char* name,
             Value (*parse)(const Option&, const std::string& text, const std::string& where));
  int position(const char* name) const;
  void report_if_missing(const Option& option);

  const CommandInfo& command_;
  RawArguments& raw_;
};

// These convert the text of one option to its value and check it. `where` starts every message:
// "--epochs is 0, but must be …". Malformed text is Error kParameterParsing; a value out of range
// is error 4, 5, 7 or 8.

// 0 stands for `auto`.
std::int64_t integer_value(const Option& option, const std::string& text, const std::string& where);
double number_value(const Option& option, const std::string& text, const std::string& where);
bool boolean_value(const std::string& text, const std::string& where);
double share_value(const Option& option, const std::string& text, const std::string& where);
Allowance allowance_value(const Option& option, const std::string& text, const std::string& where);
RateScaling rate_scaling_value(const Option& option, const std::string& text,
                               const std::string& where);
// Parts that the text does not mention are 0.
CheckpointEvery every_value(const Option& option, const std::string& text,
                            const std::string& where);
Augment augment_value(const Option& option, const std::string& text, const std::string& where);
// As JSON: "256" or "[224, 160]". In transform_options.cpp.
std::string image_size_value(const Option& option, const std::string& text,
                             const std::string& where);
double duration_value(const Option& option, const std::string& text, const std::string& where);
std::string choice_value(const Option& option, const std::string& text, const std::string& where);
ImageSizes image_sizes_value(const Option& option, const std::string& text,
                             const std::string& where);
CropSize crop_size_value(const Option& option, const std::string& text, const std::string& where);
// The value of --exchange: a choice, or parameter-server:N.
ExchangePlan exchange_value(const Option& option, const std::string& text,
                            const std::string& where);
// True if two texts of an option have the same value; false if one of them is invalid.
bool is_same_setting(const Option& option, const std::string& a, const std::string& b);
// Throws Error kParameterParsing for a placeholder that Kubeflow Pipelines did not substitute.
void refuse_placeholder(const std::string& text, const std::string& where);
std::string path_value(const Option& option, const std::string& text, const std::string& where);

// Checks that folders on the command line do not overlap.

// Also true if both are the same folder. The paths need not exist; an empty path is inside nothing.
bool lies_inside(const std::string& inner, const std::string& outer);

// A sentence if the output is inside, contains or is the input; otherwise empty.
std::string overlap_of(const char* output_name, const std::string& output, const char* input_name,
                       const std::string& input);

// Adds a fault to option `output_name` if the output is inside, contains or is the input: it would
// be read as data, or would overwrite it.
void require_apart(Binder& binder, const char* output_name, const std::string& output,
                   const char* input_name, const std::string& input);

}  // namespace kiln
