// The manual page kiln(1), in roff.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "cli/describe.h"

namespace kiln {
namespace {

using Entry = std::pair<const char*, const char*>;

// Of every ErrorCode, as error_info.json has them.
constexpr int kErrors[] = {2, 4, 5, 7, 8, 18, 24, 32, 33, 39, 72, 138, 158, 159, 160, 162, 2000};

constexpr Entry kStatuses[] = {
    {"0", "Success."},
    {"1", "Something is wrong with a value or an input, or a check found something:"},
    {"2", "The command line cannot be read:"},
    {"3", "A failure while running:"},
    {"70", "A bug in kiln: InternalError (1000)."},
    {"129, 130, 138, 143", "Stopped by SIGHUP, SIGINT, SIGUSR1 or SIGTERM."}};

constexpr Entry kVariables[] = {
    {"XDG_CACHE_HOME, HOME", "Folder of caches: $XDG_CACHE_HOME/kiln, else $HOME/.cache/kiln."},
    {"TMPDIR", "Folder for temporary files."},
    {"NO_COLOR, TERM", "If NO_COLOR is set or TERM is dumb, no line is written over another."},
    {"LC_ALL, LC_CTYPE, LANG", "Whether the terminal shows UTF-8."},
    {"http_proxy, https_proxy, ALL_PROXY, no_proxy", "Proxies of downloads and MLflow."},
    {"CURL_CA_BUNDLE, SSL_CERT_FILE, SSL_CERT_DIR", "Certificates to trust."},
    {"MLFLOW_TRACKING_URI, MLFLOW_TRACKING_TOKEN, MLFLOW_EXPERIMENT_NAME, MLFLOW_RUN_ID",
     "The MLflow server to which training reports, its login, and where there."},
    {"GOMP_SPINCOUNT, OMP_WAIT_POLICY", "If set, they decide how compute threads wait."},
    {"NCCL_DEBUG, NCCL_DEBUG_FILE", "If set, they decide what NCCL logs, and where."},
    {"RANK, WORLD_SIZE, JOB_COMPLETION_INDEX, SLURM_ARRAY_TASK_ID", "The part of `--part auto`."},
    {"KILN_SHARE_GPU", "If set, ranks may share a GPU."},
    {"KILN_PASS_ON", "More variables for the ranks on other hosts: NAME,NAME."},
    {"KILN_HOSTS_KEY", "File of the ssh key of a SageMaker job's hosts."}};

constexpr Entry kFiles[] = {
    {"logs/report.html, logs/metrics.jsonl", "The report of a run in --log-path, and its record."},
    {"logs/module_statistics/error_info.json", "Why a run failed."},
    {"~/.cache/kiln", "Downloaded weights, and lists of what large datasets contain."}};

constexpr Entry kExamples[] = {
    {"kiln train --data-path photos --model-name resnet18 --trained-model-path model",
     "Train on a folder that has a folder of photos for each class."},
    {"kiln score --trained-model-path model --data-path photo.jpg", "Classify a photo."},
    {"kiln launch --ranks 2 -- train --config job.yaml", "Train in two processes."}};

// A line of text. What is between two backticks becomes bold.
std::string line(const std::string& text) {
  constexpr std::pair<char, const char*> kSigns[] = {
      {'\\', "\\e"}, {'-', "\\-"}, {'\'', "\\(aq"}, {'"', "\\(dq"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
  std::string out;
  bool bold = false;
  for (const char c : text) {
    const auto* sign = std::ranges::find(kSigns, c, &std::pair<char, const char*>::first);
    if (c == '`')
      out += (bold = !bold) ? "\\fB" : "\\fR";
    else
      out += sign == std::end(kSigns) ? std::string(1, c) : sign->second;
  }
  return (out.starts_with('.') ? "\\&" : "") + out + "\n";
}

// Of an exit status: the errors that end with it.
std::string errors_of(const std::string& status) {
  std::string ids;
  for (const int number : kErrors)
    if (const auto code = static_cast<ErrorCode>(number); std::to_string(exit_code(code)) == status)
      ids += (ids.empty() ? " " : ", ") + std::string(error_id(code)) + " (" +
             std::to_string(number) + ")";
  return ids;
}

std::string section(const std::string& title, const auto& entries) {
  std::string text = ".SH " + title + "\n";
  for (const auto& [label, about] : entries)
    text += ".TP\n" + line(std::string("`") + label + "`") + line(about + errors_of(label));
  return text;
}

std::string option_entry(const Option& option) {
  std::string about = option.help;
  if (option.required)
    about += option.instead.empty() ? " Required." : " Required, or `--" + option.instead + "`.";
  if (!option.default_text.empty()) about += " Default: " + option.default_text + ".";
  if (const std::string range = range_text(option);
      !range.empty() && option.kind != ValueKind::kChoice)
    about += " Range: " + range + ".";
  if (!option.unit.empty()) about += " Unit: " + option.unit + ".";
  const std::string value = option.value_name.empty() ? "" : " " + option.value_name;
  return ".TP\n" + line("`--" + option.name + "`" + value) + line(about);
}

std::string command_section(const CommandInfo& command) {
  std::string text = ".SS " + line("kiln " + command.name) + line(command.summary) + ".PP\n" +
                     line("`kiln " + command.name + "` " + command.usage);
  std::vector<std::string> groups;
  for (const Option& first : command.options) {
    if (std::ranges::count(groups, first.group) > 0) continue;
    groups.push_back(first.group);
    text += ".PP\n.I " + line(first.group);
    for (const Option& option : command.options)
      if (option.group == first.group) text += option_entry(option);
  }
  return text;
}

}  // namespace

std::string man_page(const std::string& version) {
  std::string text =
      ".TH KILN 1 \"\" \"kiln " + version + "\" \"User Commands\"\n" +
      ".SH NAME\nkiln \\- train image classifiers\n.SH SYNOPSIS\n" +
      line("`kiln` COMMAND [options]") + ".SH DESCRIPTION\n" +
      line(
          "Kiln trains image classifiers from folders of images, then classifies images. An option "
          "is --name value or --name=value; in names, _ and - are the same.") +
      ".SH COMMANDS\n";
  for (const CommandInfo& command : command_table()) text += command_section(command);
  return text + section("EXIT STATUS", kStatuses) + section("ENVIRONMENT", kVariables) +
         section("FILES", kFiles) + section("EXAMPLES", kExamples);
}

}  // namespace kiln
