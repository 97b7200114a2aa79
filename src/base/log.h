// The program's messages, line by line. The only user of spdlog, whose fmt clashes with LibTorch's.
//
// Lines go to standard output as plain text, and to the driver log (once opened) in the designer's
// format: `YYYY-MM-DD HH:MM:SS,mmm kiln                 INFO       text`. Thread-safe.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// Lines on standard output or standard error. At first it waits for whoever reads them, as any
// program does; after never_hold(), a reader who does not read (a paused terminal, a pager, a stuck
// collector) delays a line by a second at most, and nothing more until he reads again: lines are
// then left out, and their number precedes the next one. One thread at a time.
class Console {
 public:
  explicit Console(std::FILE* stream) : stream_(stream) {}
  void never_hold() { may_hold_ = false; }

  void write(std::string_view lines);     // each ends with a newline
  void draw(std::string_view live_line);  // left out without a word while nobody reads
  // Shows the number of lines left out since the last line; true if nothing remains to be told.
  bool log_left_out();
  // Lines left out since construction.
  long long num_left_out() const { return num_left_out_; }

 private:
  bool put(std::string_view text);

  std::FILE* stream_;
  bool may_hold_ = true;
  bool is_stuck_ = false;
  bool is_cut_ = false;  // a line was shown in part
  long long num_left_out_ = 0;
  long long num_told_ = 0;  // of these
};

class Log {
 public:
  Log();
  ~Log();  // leaves a terminal at the start of a line
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // From now on a console that nobody reads delays this program by a second at most, and lines are
  // left out there (see Console). For commands whose lines nobody has to read.
  void never_hold();

  // From now on writes console lines to standard error, because standard output carries a result.
  void use_standard_error();

  // Declares this process to be rank `rank` of several. Names the rank in lines of files opened
  // later and, for ranks above 0, in console lines, which are then limited to warnings and errors.
  // Disables the progress line.
  void speak_for_rank(int rank);

  // Appends every line to `path` from now on. Throws Error kFailedToWriteOutputs. Later write
  // failures cause one warning and are counted.
  void open_file(const std::filesystem::path& path);
  std::string lost() const;  // "12 lines of the log: …"; empty: none

  void info(std::string_view text);
  // To the driver log only.
  void detail(std::string_view text);
  // A line of a job whose progress() is shown: as info(), but not on a terminal.
  void milestone(std::string_view text);
  void warning(std::string_view text);
  void error(std::string_view text);  // console: standard error

  // Shows a line of another process on standard output or standard error, as it is; not written to
  // the file.
  void echo(std::string_view line, bool is_error);

  // The warnings since the last call; only the first ones if there are very many.
  std::vector<std::string> take_warnings();

  // Rewrites a single line in place, cut to the terminal's width. Does nothing if standard output
  // is not a terminal. Never written to the file.
  void progress(std::string_view text);
  bool on_terminal() const;

 private:
  struct Sinks;
  std::unique_ptr<Sinks> sinks_;
};

// Columns available to a line rewritten in place: the width of the terminal (80 if unknown), minus
// the echo of Ctrl-C.
int live_columns();

// Whether standard output is a terminal on which a line can be rewritten in place, and NO_COLOR is
// not set (https://no-color.org).
bool rewrites_lines();

// Whether the locale's encoding is UTF-8 (LC_ALL, LC_CTYPE or LANG, whichever is set first).
bool locale_is_utf8();

}  // namespace kiln
