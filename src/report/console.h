// A run as the console and the driver log tell it: the plan, the progress, the closing block. The
// same words for the run itself and for `kiln watch`.
#pragma once

#include <filesystem>
#include <memory>

#include "base/log.h"
#include "report/run_sink.h"

namespace kiln {

// `log` must outlive the sink. `page` is named at the end where the sink that writes it took all.
// To be added last: its end tells what the others have lost.
std::unique_ptr<RunSink> make_console(Log& log, const std::filesystem::path& page);

}  // namespace kiln
