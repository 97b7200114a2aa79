// A failure's message, written where a platform looks for it to show it to its user.
#pragma once

#include <string>

namespace kiln {

// Writes Kubernetes' /dev/termination-log and SageMaker's output/failure, if present and writable.
// Truncated to the 1024 bytes that SageMaker accepts. Never throws.
void leave_failure_note(const std::string& text);

// Removes SageMaker's output/failure of an earlier run.
void remove_failure_note();

// The contents of SageMaker's output/failure.
std::string failure_note();

}  // namespace kiln
