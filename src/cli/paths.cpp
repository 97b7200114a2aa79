#include "cli/paths.h"

#include <pwd.h>
#include <unistd.h>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"

namespace kiln {
namespace {

// Of this user, $HOME or what the system knows, for an empty name; empty: there is none.
std::string home_folder(const std::string& user) {
  if (std::string home = environment("HOME"); user.empty() && !home.empty()) return home;
  const passwd* known = user.empty() ? ::getpwuid(::getuid()) : ::getpwnam(user.c_str());
  return known == nullptr || known->pw_dir == nullptr ? "" : known->pw_dir;
}

}  // namespace

bool may_be_there(const std::string& path) {
  return type_at(path) != std::filesystem::file_type::not_found;
}

std::string local_path(const std::string& text, bool may_be_url) {
  const auto refuse = [&](const std::string& why) -> std::string {
    throw std::invalid_argument("'" + text + "' " + why);
  };
  const std::string first = text.substr(0, text.find('/')), rest = text.substr(first.size());
  const bool is_home = first.starts_with('~'), is_variable = first.starts_with('$');
  std::string name = first.substr(is_home || is_variable ? 1 : 0);
  if (is_variable && name.starts_with('{') && name.ends_with('}'))
    name = name.substr(1, name.size() - 2);
  if (first != "~" && may_be_there(text)) return text;
  if (first != "~" && !((is_home || is_variable) && is_host_name(name)))
    return may_be_url || !is_url(text)
               ? text
               : refuse(
                     "is a URL, but Kiln reads data only from s3://, gs:// and abfss:// buckets: "
                     "mount or copy what it names, and give the path of that");
  const std::string value = is_home ? home_folder(name) : environment(name.c_str());
  if (!value.starts_with('/'))
    return refuse("begins with '" + first +
                  "', which is no folder here: give the whole path, or './" + text +
                  "' for what has that name");
  return first == "~"
             ? value + rest
             : refuse("begins with '" + first + "', which a shell would have replaced: give " +
                      shell_word(value + rest));
}

bool lies_inside(const std::string& inner, const std::string& outer) {
  return !inner.empty() && !outer.empty() && is_inside(resolved(inner), resolved(outer));
}

std::string overlap_of(const char* output_name, const std::string& output, const char* input_name,
                       const std::string& input) {
  if (output.empty() || input.empty()) return {};
  const std::filesystem::path out = resolved(output);
  const std::filesystem::path in = resolved(input);
  const bool is_of_file = is_file(in);
  std::string relation;
  if (out == in) {
    relation = is_of_file ? "is the same file as" : "is the same folder as";
  } else if (is_inside(out, in)) {
    relation = "is inside";
  } else if (is_inside(in, out)) {
    relation = "contains";
  } else {
    return {};
  }
  return std::string("--") + output_name + " '" + output + "' " + relation + " --" + input_name +
         " '" + input + "': choose " + (is_of_file ? "another path" : "a separate folder") +
         " for the output.";
}

}  // namespace kiln
