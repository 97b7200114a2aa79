// The sentence of a failure where a platform looks for it and shows it to its user.
#pragma once

#include <string>

namespace kiln {

// Into Kubernetes' /dev/termination-log and SageMaker's output/failure, each where it is there and
// can be written. Cut to the 1024 bytes that SageMaker takes. Never throws.
void leave_failure_note(const std::string& text);

// Takes an earlier run's out of SageMaker's output/failure.
void remove_failure_note();

// What stands in SageMaker's output/failure.
std::string failure_note();

}  // namespace kiln
