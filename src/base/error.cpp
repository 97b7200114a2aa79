#include "base/error.h"

#include <cerrno>
#include <new>
#include <system_error>

namespace kiln {
namespace {

std::exception_ptr failure_of(ErrorCode code, std::string message) {
  return std::make_exception_ptr(Error(code, std::move(message)));
}

std::exception_ptr out_of_memory() {
  return failure_of(ErrorCode::kModuleOutOfMemory,
                    "Out of memory: use a smaller --batch-size or --image-size, or a machine with "
                    "more memory.");
}

// Of a call to the system. EAGAIN is a thread's: nothing else here is refused with it.
std::exception_ptr explained_refusal(const std::system_error& refusal) {
  const std::string found = refusal.what();
  switch (refusal.code().value()) {
    case EAGAIN:
      return failure_of(
          ErrorCode::kFailedToCompleteOperation,
          "There is no thread left (" + found +
              "): use fewer --loader-threads, or raise the limits of processes "
              "(ulimit -u, or the container's pids limit) and of memory (ulimit -v).");
    case EMFILE:
    case ENFILE:
      return failure_of(ErrorCode::kFailedToCompleteOperation,
                        found +
                            ". Raise the limit of open files (ulimit -n), or use fewer "
                            "--loader-threads.");
    case ENOMEM:
      return failure_of(ErrorCode::kModuleOutOfMemory,
                        found + ". Use a smaller --batch-size, or fewer --loader-threads.");
    default:
      return nullptr;
  }
}

}  // namespace

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

std::exception_ptr explained(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::system_error& refusal) {
    const std::exception_ptr explanation = explained_refusal(refusal);
    return explanation ? explanation : failure;
  } catch (const Error&) {
    return failure;
  } catch (const Problems&) {
    return failure;
  } catch (const FailedElsewhere&) {
    return failure;
  } catch (const std::exception& other) {
    const std::string_view what = other.what();  // LibTorch has two wordings
    const bool is_memory =
        what.find("out of memory") != what.npos || what.find("can't allocate memory") != what.npos;
    return is_memory ? out_of_memory() : failure;
  } catch (...) {
    return failure;
  }
}

}  // namespace kiln
