#include "data/split/image_rows.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "base/csv.h"
#include "base/files.h"
#include "base/text.h"
#include "base/text_file.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;
constexpr std::size_t kMostNamed = 5;

[[noreturn]] void fail(const std::string& name, const std::string& fault) {
  throw Error(ErrorCode::kUserError, name + " cannot be used: " + fault);
}

std::string at_line(int line) {
  return "line " + std::to_string(line) + ": ";
}

// Looks up images of a set by their paths.
class PathIndex {
 public:
  explicit PathIndex(const Dataset& set) : samples_(set.samples), order_(set.samples.size()) {
    std::iota(order_.begin(), order_.end(), 0U);
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(samples_.file_name(a), a) < std::pair(samples_.file_name(b), b);
    });
  }

  // Returns all images with this path, since a list may name a file more than once.
  std::vector<std::uint32_t> images_of(std::string_view path) const {
    const auto begin = std::lower_bound(
        order_.begin(), order_.end(), path,
        [&](std::uint32_t i, std::string_view wanted) { return samples_.file_name(i) < wanted; });
    auto end = begin;
    while (end != order_.end() && samples_.file_name(*end) == path) ++end;
    return {begin, end};
  }

 private:
  const SampleTable& samples_;
  std::vector<std::uint32_t> order_;
};

// Returns the position of the column. Throws Error kUserError if it is missing or repeated.
std::size_t place_of(const std::string& column, const std::vector<std::string>& header,
                     const std::string& name) {
  const auto count = std::count(header.begin(), header.end(), column);
  if (count == 0)
    fail(name, "its first line is '" + excerpt(printable(joined(header, ","))) +
                   "', but must name the columns, one of them '" + column + "'.");
  if (count > 1) fail(name, "its first line names the column '" + column + "' more than once.");
  return static_cast<std::size_t>(std::find(header.begin(), header.end(), column) - header.begin());
}

class RowReader {
 public:
  RowReader(std::string_view text, const std::string& name, const std::string& column,
            const Dataset& set)
      : reader_(text), name_(name), column_(column), index_(set) {}

  std::vector<ImageRow> run() {
    std::vector<std::string> fields;
    if (!next(fields)) fail(name_, "it is empty. Its first line must name the columns.");
    const std::size_t num_columns = fields.size();
    Problems missing;
    std::size_t path_at = 0, value_at = 0;
    missing.collect([&] { path_at = place_of("path", fields, name_); });
    missing.collect([&] { value_at = place_of(column_, fields, name_); });
    missing.throw_if_any();
    while (next(fields)) {
      if (fields.size() != num_columns)
        fail(name_, at_line(reader_.line()) + std::to_string(fields.size()) +
                        " fields, but the first line names " + std::to_string(num_columns) +
                        " columns. Put a path with a comma in double quotes.");
      add(fields[path_at], fields[value_at]);
    }
    return std::move(rows_);
  }

  // Paths with two values, such as "a' (lines 3 and 7)"; first_of() adds the opening quote.
  const std::vector<std::string>& contradictions() const { return contradictions_; }

 private:
  bool next(std::vector<std::string>& fields) {
    try {
      return reader_.next(fields);
    } catch (const std::invalid_argument& fault) {
      fail(name_, at_line(reader_.line()) + fault.what() + ".");
    }
  }

  void add(const std::string& path, const std::string& value) {
    const auto [known, is_new] = row_of_.emplace(path, rows_.size());
    if (is_new) {
      rows_.push_back({reader_.line(), value, index_.images_of(path), path});
    } else if (const ImageRow& row = rows_[known->second]; row.value != value) {
      contradictions_.push_back(path + "' (lines " + std::to_string(row.line) + " and " +
                                std::to_string(reader_.line()) + ")");
    }
  }

  CsvReader reader_;
  const std::string &name_, &column_;
  PathIndex index_;
  std::vector<ImageRow> rows_;
  std::unordered_map<std::string, std::size_t> row_of_;
  std::vector<std::string> contradictions_;
};

std::string first_of(const std::vector<std::string>& texts) {
  std::string list;
  for (std::size_t i = 0; i < std::min(texts.size(), kMostNamed); ++i)
    list += (i == 0 ? "'" : ", '") + printable(texts[i]);
  if (texts.size() > kMostNamed)
    list += " and " + std::to_string(texts.size() - kMostNamed) + " more";
  return list;
}

}  // namespace

std::vector<ImageRow> parse_image_rows(std::string_view text, const std::string& name,
                                       const std::string& column, const Dataset& set,
                                       Problems& problems) {
  std::vector<ImageRow> rows;
  RowReader reader(text, name, column, set);
  problems.collect([&] { rows = reader.run(); });
  if (!reader.contradictions().empty())
    problems.add(Error(ErrorCode::kUserError,
                       name + " cannot be used: it gives a path more than one " + column + ": " +
                           first_of(reader.contradictions()) + ". Keep one line for each."));
  return rows;
}

void refuse_unknown_paths(const std::vector<ImageRow>& rows, const std::string& name,
                          const Dataset& set, const std::vector<std::string>& known,
                          Problems& problems) {
  std::vector<std::string> unknown;
  for (const ImageRow& row : rows)
    if (row.images.empty() && !std::binary_search(known.begin(), known.end(), row.path))
      unknown.push_back(row.path);
  if (unknown.empty()) return;
  problems.add(Error(ErrorCode::kUserError,
                     name + " cannot be used: " + std::to_string(unknown.size()) +
                         (unknown.size() == 1 ? " path is" : " paths are") + " not in '" +
                         set.root.string() + "': " + printable(quoted_names(unknown, kMostNamed)) +
                         ". Write each as in the dataset, such as '" +
                         printable(set.samples.file_name(0)) + "', or remove its line."));
}

std::string read_image_rows(const std::string& path, const std::string& name) {
  try {
    return read_text(path, kMaxBytes);
  } catch (const std::system_error& fault) {
    throw Error(ErrorCode::kUserError,
                name + " cannot be read: " + why_unreadable(fault) + "." + did_you_mean_path(path));
  } catch (const std::length_error&) {
    fail(name, "it is larger than 1 GiB.");
  }
}

}  // namespace kiln
