#include "report/error_info.h"

#include <cstdlib>

#include "base/files.h"
#include "base/platform/sagemaker.h"
#include "base/text.h"
#include "base/url.h"
#include "record/run_json.h"

namespace fs = std::filesystem;

namespace kiln {
namespace {

FailureReport report_errors(const std::vector<Error>& errors) {
  std::vector<std::string> messages;
  messages.reserve(errors.size());
  for (const Error& error : errors) messages.push_back(error.message());
  const ErrorCode first = errors.front().code();
  return {
      messages,
      error_info_of(std::string(error_id(first)), static_cast<int>(first), joined(messages, "\n")),
      exit_code(first)};
}

}  // namespace

std::string error_info_of_success() {
  return "{\n  \"Exception\": null\n}";
}

std::string error_info_of(const std::string& id, int code, const std::string& message) {
  constexpr std::size_t kLongMessage = 9000, kCutMessage = 4096;
  const std::string text =
      message.size() >= kLongMessage ? cut_to_bytes(message, kCutMessage) : message;
  const Json exception = {{"ErrorId", id},
                          {"ErrorCode", code},
                          {"ExceptionType", code == 1000 ? "LibraryException" : "ModuleException"},
                          {"Traceback", ""},
                          {"Message", (code == 1000 ? "Library Error - " : "") + id + ": " + text}};
  return json_text({{"Exception", exception}}, 2);
}

std::string message_of_error_info(const std::string& text) {
  const Json info = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer id("/Exception/ErrorId"), message("/Exception/Message");
  for (const auto& field : {id, message})
    if (!info.contains(field) || !info[field].is_string()) return "";
  const std::string before = info[id].get<std::string>() + ": ";
  const std::string whole = info[message].get<std::string>();
  return whole.substr(whole.find(before) == whole.npos ? 0 : whole.find(before) + before.size());
}

bool is_run_of_azure_ml() {
  return std::getenv("AZUREML_RUN_ID") != nullptr;
}

fs::path error_info_path(const fs::path& log_path) {
  return (is_run_of_azure_ml() ? fs::path("outputs") : log_path) / "module_statistics" /
         "error_info.json";
}

void write_error_info(const fs::path& path, const std::string& text, Log& log) try {
  fs::create_directories(path.parent_path());
  write_file_durably(path, text);
} catch (const std::exception& failure) {
  log.warning(std::string("error_info.json could not be written: ") + failure.what());
}

void tell(const FailureReport& failure, const std::optional<fs::path>& path, Log& log) {
  for (const std::string& message : failure.messages) log.error(message);
  if (failure.error_info.empty()) return;
  if (path) write_error_info(*path, failure.error_info, log);
  leave_failure_note(joined(failure.messages, "\n"));
}

FailureReport report_failure(const std::exception_ptr& failure) try {
  std::rethrow_exception(explained(failure));
} catch (const Error& error) {
  return report_errors({error});
} catch (const Problems& problems) {
  return report_errors(problems.errors());
} catch (const fs::filesystem_error& fault) {  // the user's files: not a bug
  return report_errors(
      {Error(ErrorCode::kFailedToCompleteOperation,
             quoted_path(fault.path1()) + " cannot be used: " + system_words(fault.code().value()) +
                 ". Check the path and its permissions.")});
} catch (const FailedElsewhere& other) {
  return {{other.what()}, "", other.exit_code()};
} catch (const std::exception& other) {
  const std::string message = for_people("This is a bug in kiln: " + first_line(other.what()) +
                                         ". Please report it with the command line and the log.");
  return {{message}, error_info_of("InternalError", 1000, message)};
}

}  // namespace kiln
