#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/text.h"

namespace kiln {

int live_columns() {
  constexpr int kEcho = 3;  // "^C" and the cursor after it
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : 80) - kEcho;
}

bool rewrites_lines() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    return locale.find("UTF-8") != std::string_view::npos ||
           locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

std::string cut_to(std::string_view text, int columns) {
  std::size_t end = 0;
  for (int column = 0; column < columns && end < text.size(); ++column) {
    ++end;
    while (end < text.size() && !begins_character(text[end])) ++end;
  }
  return std::string(text.substr(0, end));
}

}  // namespace kiln
