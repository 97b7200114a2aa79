#include "base/log.h"

#include <poll.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"

namespace kiln {
namespace {

constexpr double kPatienceSeconds = 1;

// Whether a few bytes can be written, or writing fails at once.
bool is_ready(int descriptor, double patience) {
  const int milliseconds = static_cast<int>(std::ceil(1e3 * std::max(0.0, patience)));
  pollfd wait{descriptor, POLLOUT, 0};
  return ::poll(&wait, 1, milliseconds) > 0;
}

}  // namespace

// When poll() says so, a pipe takes at least PIPE_BUF bytes without blocking, but a terminal
// perhaps only one.
bool Console::put(std::string_view text) {
  if (may_hold_) {
    std::fwrite(text.data(), 1, text.size(), stream_);
    std::fflush(stream_);
    return true;
  }
  const int descriptor = ::fileno(stream_);
  const std::size_t most = ::isatty(descriptor) == 1 ? 1 : PIPE_BUF;
  const Stopwatch watch;
  while (!text.empty()) {
    if (!is_ready(descriptor, is_stuck_ ? 0 : kPatienceSeconds - watch.seconds())) break;
    const ssize_t count = ::write(descriptor, text.data(), std::min(most, text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) return true;  // closed, or a full disk: nobody to wait for
    if (count < 0) break;
    text.remove_prefix(static_cast<std::size_t>(count));
    is_cut_ = !text.empty();
  }
  is_stuck_ = !text.empty();
  return !is_stuck_;
}

bool Console::log_left_out() {
  const long long untold = num_left_out_ - num_told_;
  if (untold == 0) return true;
  if (!put(formatted("%s[%s left out here, because nobody read them]\n", is_cut_ ? "\n" : "",
                     plural(untold, "line was", "lines were").c_str())))
    return false;
  num_told_ = num_left_out_;
  return true;
}

void Console::write(std::string_view lines) {
  if (!log_left_out() || !put(lines)) num_left_out_ += std::count(lines.begin(), lines.end(), '\n');
}

void Console::draw(std::string_view live_line) {
  if (log_left_out()) put(live_line);
}

namespace {

constexpr std::size_t kMaxWarnings = 1000;

// The levels under their names in Python's logging, which none of spdlog's flags prints.
constexpr std::string_view kInfo = "INFO", kWarning = "WARNING", kError = "ERROR";

}  // namespace

struct Log::Sinks {
  std::mutex mutex;
  std::shared_ptr<spdlog::logger> file;
  bool terminal = rewrites_lines();
  Console output{stdout}, errors{stderr};
  Console* console = &output;  // for everything except errors
  bool progress_shown = false;
  int rank = 0;
  std::string name = "kiln";  // as shown in each line of the file
  std::vector<std::string> warnings;
  std::string file_path;
  std::string file_fault;  // why the first line was lost
  int num_lost_lines = 0;  // not written to the file

  // Called under the mutex when the file cannot be written.
  void add_lost_line(const std::string& reason) {
    if (num_lost_lines++ > 0) return;
    file_fault =
        for_people("'" + file_path + "' cannot be written:" + reason.substr(reason.rfind(':') + 1));
    warnings.push_back(file_fault + ". Training continues without it.");
    errors.write("warning: " + warnings.back() + "\n");
  }

  void keep(std::string_view level, const std::string& text) {
    if (file) file->info("{:<10} {}", level, text);
  }

  // The file has all lines, whoever reads the console.
  void say(Console& where, std::string_view prefix, std::string_view raw, std::string_view level) {
    const std::string text = for_people(raw);
    const std::lock_guard lock(mutex);
    keep(level, text);
    if (level == kWarning && warnings.size() < kMaxWarnings) warnings.push_back(text);
    if (rank != 0 && level == kInfo) return;
    show(where, (rank == 0 ? "" : "rank " + std::to_string(rank) + ": ") + std::string(prefix) +
                    text + "\n");
  }

  void show(Console& where, const std::string& line) {
    if (std::exchange(progress_shown, false)) output.draw("\r\x1b[K");
    where.write(line);
  }
};

Log::Log() : sinks_(std::make_unique<Sinks>()) {}
Log::~Log() {
  Sinks& sinks = *sinks_;
  if (sinks.progress_shown) sinks.output.draw("\n");
  sinks.output.log_left_out();
  sinks.errors.log_left_out();
  const long long left_out = sinks.output.num_left_out() + sinks.errors.num_left_out();
  if (left_out > 0)
    sinks.keep(kInfo, std::to_string(left_out) + " of these lines were left out on the console, " +
                          "because nobody read them.");
}

void Log::never_hold() {
  const std::lock_guard lock(sinks_->mutex);
  sinks_->output.never_hold();
  sinks_->errors.never_hold();
}

void Log::use_standard_error() {
  const std::lock_guard lock(sinks_->mutex);
  sinks_->console = &sinks_->errors;
  sinks_->terminal = false;
}

void Log::speak_for_rank(int rank) {
  const std::lock_guard lock(sinks_->mutex);
  sinks_->rank = rank;
  sinks_->name = "kiln rank " + std::to_string(rank);
  sinks_->terminal = false;  // mpirun gives each rank a pseudo-terminal and copies its bytes
}

void Log::open_file(const std::filesystem::path& path) {
  if (type_at(path) == std::filesystem::file_type::fifo)
    throw Error(ErrorCode::kFailedToWriteOutputs, "The log file '" + path.string() +
                                                      "' is a pipe: remove it, or choose another "
                                                      "--log-path.");
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string(), true);
    sink->set_pattern("%Y-%m-%d %H:%M:%S,%e %-20n %v");
    auto logger = std::make_shared<spdlog::logger>(sinks_->name, std::move(sink));
    logger->flush_on(spdlog::level::info);
    logger->set_error_handler(
        [sinks = sinks_.get()](const std::string& reason) { sinks->add_lost_line(reason); });
    const std::lock_guard lock(sinks_->mutex);
    sinks_->file = std::move(logger);
    sinks_->file_path = path.string();
  } catch (const spdlog::spdlog_ex& failure) {
    throw Error(ErrorCode::kFailedToWriteOutputs, "The log file '" + path.string() +
                                                      "' cannot be written (" + failure.what() +
                                                      "): set --log-path to a writable folder.");
  }
}

void Log::info(std::string_view text) {
  sinks_->say(*sinks_->console, "", text, kInfo);
}
void Log::detail(std::string_view text) {
  const std::lock_guard lock(sinks_->mutex);
  sinks_->keep(kInfo, for_people(text));
}
void Log::milestone(std::string_view text) {
  on_terminal() ? detail(text) : info(text);
}
void Log::warning(std::string_view text) {
  sinks_->say(*sinks_->console, "warning: ", text, kWarning);
}
std::vector<std::string> Log::take_warnings() {
  const std::lock_guard lock(sinks_->mutex);
  return std::exchange(sinks_->warnings, {});
}
void Log::error(std::string_view text) {
  sinks_->say(sinks_->errors, "error: ", text, kError);
}

void Log::progress(std::string_view text) {
  if (!sinks_->terminal) return;
  const std::lock_guard lock(sinks_->mutex);
  sinks_->output.draw("\r\x1b[K" + cut_to(for_people(text), live_columns()));
  sinks_->progress_shown = true;
}

void Log::echo(std::string_view line, bool is_error) {
  const std::lock_guard lock(sinks_->mutex);
  sinks_->show(is_error ? sinks_->errors : sinks_->output, std::string(line) + "\n");
}

std::string Log::lost() const {
  const std::lock_guard lock(sinks_->mutex);
  if (sinks_->num_lost_lines == 0) return "";
  return plural(sinks_->num_lost_lines, "line", "lines") + " of the log: " + sinks_->file_fault;
}

bool Log::on_terminal() const {
  return sinks_->terminal;
}

int live_columns() {
  constexpr int kEcho = 3;  // "^C" and the cursor after it
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : 80) - kEcho;
}

bool rewrites_lines() {
  return ::isatty(STDOUT_FILENO) == 1 && environment("TERM") != "dumb" &&
         environment("NO_COLOR").empty();
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = environment(name);
    if (locale.empty()) continue;
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

}  // namespace kiln
