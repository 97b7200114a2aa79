#include "base/error.h"

namespace kiln {

std::string_view error_id(ErrorCode code) {
  switch (code) {
    case ErrorCode::kParameterParsing:
      return "ParameterParsing";
    case ErrorCode::kGreaterThan:
      return "GreaterThan";
    case ErrorCode::kGreaterThanOrEqualTo:
      return "GreaterThanOrEqualTo";
    case ErrorCode::kLessThanOrEqualTo:
      return "LessThanOrEqualTo";
    case ErrorCode::kNotInRangeValue:
      return "NotInRangeValue";
    case ErrorCode::kInvalidDataset:
      return "InvalidDataset";
    case ErrorCode::kNotLabeledDataset:
      return "NotLabeledDataset";
    case ErrorCode::kNaN:
      return "NaN";
    case ErrorCode::kInfinity:
      return "Infinity";
    case ErrorCode::kFailedToCompleteOperation:
      return "FailedToCompleteOperation";
    case ErrorCode::kTimeoutOccured:
      return "TimeoutOccured";
    case ErrorCode::kModuleOutOfMemory:
      return "ModuleOutOfMemory";
    case ErrorCode::kInvalidModelDirectory:
      return "InvalidModelDirectory";
    case ErrorCode::kFailedToWriteOutputs:
      return "FailedToWriteOutputs";
    case ErrorCode::kFailedToDownloadFiles:
      return "FailedToDownloadFiles";
    case ErrorCode::kUserError:
      return "UserError";
  }
  throw InternalError("error_id: unknown code");
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kParameterParsing:
      return 2;
    case ErrorCode::kFailedToCompleteOperation:
    case ErrorCode::kTimeoutOccured:
    case ErrorCode::kModuleOutOfMemory:
    case ErrorCode::kFailedToWriteOutputs:
      return 3;
    default:
      return 1;
  }
}

Error::Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

void Problems::throw_if_any() const {
  if (!empty()) throw *this;
}

const char* Problems::what() const noexcept {
  return empty() ? "no problem" : errors_.front().what();
}

}  // namespace kiln
