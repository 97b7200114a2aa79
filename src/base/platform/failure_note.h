// Writes a failure's message where the platform looks for it, so that it can show it to the user.
#pragma once

#include <string>

namespace kiln {

// Writes `text` to Kubernetes' /dev/termination-log and SageMaker's output/failure, if present and
// writable. Truncates it to the 1024 bytes that SageMaker accepts. Never throws.
void leave_failure_note(const std::string& text);

// Removes an earlier run's output/failure, on SageMaker.
void remove_failure_note();

// The contents of SageMaker's output/failure.
std::string failure_note();

}  // namespace kiln
