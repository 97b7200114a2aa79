// The files of `assets/`, built in.
#pragma once

#include <string_view>

namespace kiln {

extern const std::string_view kPageHtml;  // with {{title}}, {{style}}, {{body}}, {{script}}
extern const std::string_view kReportCss;
extern const std::string_view kReportJs;

}  // namespace kiln
