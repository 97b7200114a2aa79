// What the program says, a line at a time. The only user of spdlog, whose fmt clashes with
// LibTorch's.
//
// A line goes to standard output as plain text, and to the driver log (once opened) in the
// designer's form: `YYYY-MM-DD HH:MM:SS,mmm kiln                 INFO       text`. Safe to call
// from any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

class Log {
 public:
  Log();
  ~Log();  // leaves a terminal at the start of a line
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // From now on the console is standard error alone: standard output is for a result.
  void use_standard_error();

  // No progress line from now on, as if standard output were no terminal.
  void speak_plainly();

  // This process is rank `rank` of several. The lines of a file opened later carry it, and those of
  // ranks above 0 on the console, where only their warnings and errors appear. No progress line
  // from now on.
  void speak_for_rank(int rank);

  // From now on every line is appended to `path` too. Throws Error kFailedToWriteOutputs; what
  // cannot be written later is warned of once, and counted.
  void open_file(const std::filesystem::path& path);
  std::string lost() const;  // "12 lines of the log: …"; empty: nothing

  void info(std::string_view text);
  // As info(), but not on a terminal, where a progress line tells as much.
  void detail(std::string_view text);
  void warning(std::string_view text);
  void error(std::string_view text);  // console: standard error

  // The warnings since the last call; a flood of them only in part.
  std::vector<std::string> take_warnings();

  // Rewrites one line in place, cut to its width, when standard output is a terminal; otherwise
  // does nothing. Never in the file.
  void progress(std::string_view text);
  bool on_terminal() const;

 private:
  struct Sinks;
  std::unique_ptr<Sinks> sinks_;
};

// What a terminal can show.

// That a line may take which is rewritten in place: those of standard output (80 where nothing
// tells), less what a Ctrl-C echoes at its end.
int live_columns();

// Whether standard output is a terminal on which a line can be rewritten in place.
bool rewrites_lines();

// Whether the locale's characters are UTF-8 (LC_ALL, LC_CTYPE or LANG, the first that is set).
bool locale_is_utf8();

// The first `columns` characters of UTF-8 text, each taken for one column.
std::string cut_to(std::string_view text, int columns);

}  // namespace kiln
