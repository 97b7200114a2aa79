// Errors in the designer's terms: an id, a number, a message for the user, and an exit code. Code
// anywhere throws `Error`; `main` catches it once. Faults that can be found together are collected
// in `Problems` and thrown together, so that the user can fix them all at once. A bug is an
// `InternalError`.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// Numbers and names are those of the designer's error list; both appear in error_info.json.
enum class ErrorCode {
  kParameterParsing = 2,
  kGreaterThan = 4,
  kGreaterThanOrEqualTo = 5,
  kLessThanOrEqualTo = 7,
  kNotInRangeValue = 8,
  kInvalidDataset = 18,
  kNotLabeledDataset = 24,
  kNaN = 32,
  kInfinity = 33,
  kFailedToCompleteOperation = 39,
  kTimeoutOccured = 72,
  kModuleOutOfMemory = 138,
  kInvalidTransformationDirectory = 158,
  kInvalidModelDirectory = 159,
  kFailedToWriteOutputs = 160,
  kFailedToDownloadFiles = 162,
  kUserError = 2000,
};

// "InvalidDataset" for kInvalidDataset, and so on.
std::string_view error_id(ErrorCode code);

// 2: invalid command line. 3: failures while running (39, 72, 138, 160). 1: everything else the
// user can fix.
int exit_code(ErrorCode code);

class Error : public std::exception {
 public:
  // `message` is one sentence, kept for_people(): what was found, where, and what to do about it.
  Error(ErrorCode code, std::string message);

  const char* what() const noexcept override { return message_.c_str(); }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  ErrorCode code_;
  std::string message_;
};

// Several errors, in the order in which they are shown. The first one determines the code and the
// exit status.
class Problems : public std::exception {
 public:
  void add(Error error) { errors_.push_back(std::move(error)); }
  // Runs `check`; if it throws an Error or Problems, collects that instead of letting it propagate.
  template <typename Check>
  void collect(Check&& check);
  bool empty() const { return errors_.empty(); }
  const std::vector<Error>& errors() const { return errors_; }
  // Throws *this if anything was collected.
  void throw_if_any() const;
  const char* what() const noexcept override {
    return empty() ? "no problem" : errors_.front().what();
  }

 private:
  std::vector<Error> errors_;
};

// A state that only a bug in this program can cause. Exit code 70.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Another rank of this job failed, so this one cannot continue. That rank reports the failure; this
// one only says which rank it was.
class FailedElsewhere : public std::exception {
 public:
  // `who`: "rank 1 on host node7". `text`: its failure in one line.
  FailedElsewhere(const std::string& who, const std::string& text, int exit_code)
      : message_(who + " failed: " + text), exit_code_(exit_code) {}
  const char* what() const noexcept override { return message_.c_str(); }
  int exit_code() const { return exit_code_; }

 private:
  std::string message_;
  int exit_code_;
};

// Translates failures that any library call may run into (out of memory, threads or file
// descriptors; a failed GPU or driver) to an Error. Returns any other failure unchanged.
std::exception_ptr explained(const std::exception_ptr& failure);

template <typename Check>
void Problems::collect(Check&& check) {
  try {
    check();
  } catch (const Error& error) {
    add(error);
  } catch (const Problems& problems) {
    for (const Error& error : problems.errors()) add(error);
  }
}

}  // namespace kiln
