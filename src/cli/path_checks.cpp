// Checks whether folders on a command line overlap.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cli/binder.h"

namespace kiln {
namespace {

std::filesystem::path resolved(const std::string& path) {
  std::error_code failure;
  std::filesystem::path absolute = std::filesystem::absolute(path, failure);
  std::filesystem::path canonical = std::filesystem::weakly_canonical(absolute, failure);
  if (failure) canonical = absolute.lexically_normal();
  // "a/b/" and "a/b" are one folder.
  return canonical.has_filename() ? canonical : canonical.parent_path();
}

bool is_same_or_inside(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  const auto [end, rest] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

}  // namespace

bool lies_inside(const std::string& inner, const std::string& outer) {
  return !inner.empty() && !outer.empty() && is_same_or_inside(resolved(inner), resolved(outer));
}

std::string overlap_of(const char* output_name, const std::string& output, const char* input_name,
                       const std::string& input) {
  if (output.empty() || input.empty()) return {};
  const std::filesystem::path out = resolved(output);
  const std::filesystem::path in = resolved(input);
  std::string relation;
  if (out == in) {
    relation = "is the same folder as";
  } else if (is_same_or_inside(out, in)) {
    relation = "is inside";
  } else if (is_same_or_inside(in, out)) {
    relation = "contains";
  } else {
    return {};
  }
  return std::string("--") + output_name + " '" + output + "' " + relation + " --" + input_name +
         " '" + input + "': choose a separate folder for the output.";
}

void require_apart(Binder& binder, const char* output_name, const std::string& output,
                   const char* input_name, const std::string& input) {
  const std::string overlap = overlap_of(output_name, output, input_name, input);
  if (!overlap.empty()) binder.fault(output_name, ErrorCode::kParameterParsing, overlap);
}

}  // namespace kiln
