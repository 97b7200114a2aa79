// Lines on standard output or standard error, for a person who may have stopped reading.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace kiln {

// Writes lines to a stream. At first it waits for whoever reads them, as any program does; after
// never_hold(), a reader who does not read (a paused terminal, a pager, a stuck collector) delays a
// line by a second at most, and nothing more until he reads again: lines are then left out, and the
// first line that can be shown again is preceded by their number. One thread at a time.
class Console {
 public:
  explicit Console(std::FILE* stream) : stream_(stream) {}
  void never_hold() { may_hold_ = false; }

  void write(std::string_view lines);     // each ends with a newline
  void draw(std::string_view live_line);  // left out without a word while nobody reads
  // Shows the number of lines left out since the last line, if somebody reads by now.
  void end();
  // Lines left out since construction.
  long long num_left_out() const { return num_left_out_; }

 private:
  bool put(std::string_view text);
  bool tell_left_out();

  std::FILE* stream_;
  bool may_hold_ = true;
  bool is_stuck_ = false;
  bool is_cut_ = false;  // a line was shown in part
  long long num_left_out_ = 0;
  long long num_told_ = 0;  // of these
};

}  // namespace kiln
