// error_info.json, which reports to the designer whether and why a run failed; and error output on
// the console.
#pragma once

#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace kiln {

std::string error_info_of_success();  // `{"Exception": null}`, indented by 2 spaces
std::string error_info_of(const std::string& id, int code, const std::string& message);
// The message in the text of an error_info.json; empty if there is none.
std::string message_of_error_info(const std::string& text);

bool is_run_of_azure_ml();  // AZUREML_RUN_ID is set

// Where the file goes: `./outputs/module_statistics` under Azure ML, else inside `log_path`.
std::filesystem::path error_info_path(const std::filesystem::path& log_path);

// Creates the folder and writes the file atomically; failures are only logged, never thrown, since
// the error being reported matters more.
void write_error_info(const std::filesystem::path& path, const std::string& text, Log& log);

// The report of an exception: console lines, error_info.json, and exit code.
struct FailureReport {
  std::vector<std::string> messages;
  std::string error_info;  // empty: another rank writes it
  int exit_code = 70;
};
FailureReport report_failure(const std::exception_ptr& failure);

// Logs the messages. Unless another rank does it, writes error_info.json to `path`, if set, and the
// note that the platform shows (base/platform/sagemaker.h).
void tell(const FailureReport& failure, const std::optional<std::filesystem::path>& path, Log& log);

}  // namespace kiln
