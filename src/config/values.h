// The text of one option -> its value, checked. `where` begins every message: "--epochs is 0, but
// must be …". Text that is no such value is Error kParameterParsing; a value out of range is 4, 5,
// 7 or 8.
#pragma once

#include <cstdint>
#include <string>

#include "config/options.h"
#include "config/run_config.h"

namespace kiln {

// `text` as a message shows it: its beginning, where it is long.
std::string excerpt(const std::string& text);

// 0 stands for `auto`.
std::int64_t integer_value(const Option& option, const std::string& text, const std::string& where);
double number_value(const Option& option, const std::string& text, const std::string& where);
bool boolean_value(const std::string& text, const std::string& where);
Allowance allowance_value(const Option& option, const std::string& text, const std::string& where);
RateScaling rate_scaling_value(const Option& option, const std::string& text,
                               const std::string& where);
std::string choice_value(const Option& option, const std::string& text, const std::string& where);
// Error kParameterParsing for a placeholder that Kubeflow Pipelines has passed on as it stands.
void refuse_placeholder(const std::string& text, const std::string& where);
std::string path_value(const std::string& text, const std::string& where);

}  // namespace kiln
