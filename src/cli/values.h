// Converts the text of one option to its value and checks it. `where` starts every message:
// "--epochs is 0, but must be …". Malformed text is Error kParameterParsing; a value out of range
// is error 4, 5, 7 or 8.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "cli/options.h"
#include "cli/run_config.h"

namespace kiln {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

// 0 stands for `auto`.
std::int64_t integer_value(const Option& option, const std::string& text, const std::string& where);
double number_value(const Option& option, const std::string& text, const std::string& where);
bool boolean_value(const Option& option, const std::string& text, const std::string& where);
double share_value(const Option& option, const std::string& text, const std::string& where);
Allowance allowance_value(const Option& option, const std::string& text, const std::string& where);
RateScaling rate_scaling_value(const Option& option, const std::string& text,
                               const std::string& where);
// Parts that the text does not mention are 0.
CheckpointEvery every_value(const Option& option, const std::string& text,
                            const std::string& where);
double duration_value(const Option& option, const std::string& text,
                      const std::string& where);  // seconds
Augment augment_value(const Option& option, const std::string& text, const std::string& where);
std::string choice_value(const Option& option, const std::string& text, const std::string& where);
ImageSizes image_sizes_value(const Option& option, const std::string& text,
                             const std::string& where);
CropSize crop_size_value(const Option& option, const std::string& text, const std::string& where);
std::string path_value(const Option& option, const std::string& text, const std::string& where);
// Throws Error kParameterParsing for a placeholder that Kubeflow Pipelines did not substitute.
void refuse_placeholder(const std::string& text, const std::string& where);

// The values as text, as they are given; empty if they are not in the option's range.
std::string integer_text(const Option& option, std::int64_t value);
std::string number_text(const Option& option, const double& value);
std::string allowance_text(const Option& option, const Allowance& value);
std::string rate_scaling_text(const Option& option, const RateScaling& value);
std::string every_text(const Option& option, const CheckpointEvery& value);
std::string duration_text(const Option& option, const double& seconds);
std::string image_sizes_text(const Option& option, const ImageSizes& value);
std::string crop_size_text(const Option& option, const CropSize& value);

}  // namespace kiln
