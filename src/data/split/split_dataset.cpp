#include "data/split/split_dataset.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/text.h"
#include "data/dataset/label_list.h"
#include "data/dataset/listing.h"

namespace kiln {
namespace {

struct ImageRow {
  int line = 0;
  std::string value;                  // from the requested column
  std::vector<std::uint32_t> images;  // in the set, usually one; empty: there is no such path
  std::string path;
  std::optional<std::string> decision;  // from the column of this name, if there is one
};

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

Error unusable(const std::string& name, const std::string& fault) {
  return {ErrorCode::kUserError, name + " cannot be used: " + fault};
}

std::string at_line(int line) {
  return "line " + std::to_string(line) + ": ";
}

// Looks up images of a set by their paths. Where both are in order, as usual, nothing is sorted or
// searched for.
class PathIndex {
 public:
  explicit PathIndex(const Dataset& set) : samples_(set.samples), order_(set.samples.size()) {
    const auto precedes = [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(samples_.file_name(a), a) < std::pair(samples_.file_name(b), b);
    };
    std::iota(order_.begin(), order_.end(), 0U);
    if (!std::ranges::is_sorted(order_, precedes)) std::ranges::sort(order_, precedes);
    next_ = order_.begin();
  }

  // Returns all images with this path, since a list may name a file more than once; else the one
  // that has it but for the ending.
  std::vector<std::uint32_t> images_of(std::string_view path) {
    std::vector<std::uint32_t> found = images_named(path);
    if (!found.empty()) return found;
    const std::string stem = std::string(path) + ".";
    const auto begins = [&](Place place) {
      return place != order_.end() && samples_.file_name(*place).starts_with(stem);
    };
    const Place first = first_of(stem);
    if (!begins(first) || samples_.file_name(*first).find('/', stem.size()) != stem.npos) return {};
    found = images_named(samples_.file_name(*first));
    return begins(next_) ? std::vector<std::uint32_t>() : found;
  }

 private:
  using Place = std::vector<std::uint32_t>::const_iterator;

  Place first_of(std::string_view path) const {
    return std::ranges::lower_bound(order_, path, {},
                                    [&](std::uint32_t i) { return samples_.file_name(i); });
  }

  std::vector<std::uint32_t> images_named(std::string_view path) {
    auto begin = next_;
    if (begin == order_.end() || samples_.file_name(*begin) != path) begin = first_of(path);
    next_ = begin;
    while (next_ != order_.end() && samples_.file_name(*next_) == path) ++next_;
    return {begin, next_};
  }

  const SampleTable& samples_;
  std::vector<std::uint32_t> order_;
  Place next_;  // after the images found last
};

// Returns the position of the column, or of one that lists of images may have in its place. Throws
// Error kUserError if it is missing or repeated.
std::size_t place_of(const std::string& column, const std::vector<std::string>& header,
                     const std::string& name) {
  const ListColumns::Pairs as_usual;
  ListColumns columns(as_usual);
  const bool is_named = std::ranges::count(header, column) > 0;
  const auto is_it = [&, field = columns.field_of(column)](const std::string& found) {
    return is_named ? found == column : columns.field_of(found) == field;
  };
  const auto count = std::ranges::count_if(header, is_it);
  if (count == 0)
    throw unusable(name, "its first line is '" + excerpt(joined(header, ",")) +
                             "', but must name the columns, one of them '" + column + "'.");
  if (count > 1)
    throw unusable(name, "its first line names the column '" + column + "' more than once.");
  return static_cast<std::size_t>(std::ranges::find_if(header, is_it) - header.begin());
}

// Reads all rows. Those of a path that was there before with the same value are left out; a path
// with two values is added to `contradictions`, such as "'a' (lines 3 and 7)".
std::vector<ImageRow> read_rows(std::string_view text, const std::string& name,
                                const std::string& column, const Dataset& set,
                                std::vector<std::string>& contradictions) {
  CsvReader reader(text);
  PathIndex index(set);
  std::vector<std::string> fields;
  const auto next = [&] {
    try {
      return reader.next(fields);
    } catch (const std::invalid_argument& fault) {
      throw unusable(name, at_line(reader.line()) + fault.what() + ".");
    }
  };
  if (!next()) throw unusable(name, "it is empty. Its first line must name the columns.");
  const std::size_t num_columns = fields.size();
  Problems missing;
  std::size_t path_at = 0, value_at = 0;
  missing.collect([&] { path_at = place_of("path", fields, name); });
  missing.collect([&] { value_at = place_of(column, fields, name); });
  missing.throw_if_any();
  const auto decision_at =
      static_cast<std::size_t>(std::ranges::find(fields, "decision") - fields.begin());
  std::vector<ImageRow> rows;
  // By the first image of a path, or by a path without images: the end of its row's place; 0: none.
  std::vector<std::size_t> row_of_image(set.samples.size());
  std::unordered_map<std::string, std::size_t> row_of_unknown;
  while (next()) {
    if (fields.size() != num_columns)
      throw unusable(name, at_line(reader.line()) + std::to_string(fields.size()) +
                               " fields, but the first line names " + std::to_string(num_columns) +
                               " columns. Put a path with a comma in double quotes.");
    const std::string &path = fields[path_at], &value = fields[value_at];
    std::vector<std::uint32_t> images = index.images_of(path);
    std::optional<std::string> decision;
    if (decision_at < num_columns)
      decision = in_small_letters(std::string(trimmed(fields[decision_at])));
    std::size_t& end = images.empty() ? row_of_unknown[path] : row_of_image[images[0]];
    if (end == 0) {
      rows.push_back({reader.line(), value, std::move(images), path, decision});
      end = rows.size();
    } else if (const ImageRow& row = rows[end - 1];
               row.value != value || row.decision != decision) {
      contradictions.push_back("'" + path + "' (lines " + std::to_string(row.line) + " and " +
                               std::to_string(reader.line()) + ")");
    }
  }
  return rows;
}

// Parses a CSV file with the columns `path` and `column` in any order; other columns are ignored.
// All faults are added to `problems` at once, as Error kUserError: not a CSV file, a column missing
// or repeated, rows of different lengths, a path with two values. Paths that are not in the set are
// left to the caller. `name` is the file as the user gave it: "--labels 'x.csv'".
std::vector<ImageRow> parse_image_rows(std::string_view text, const std::string& name,
                                       const std::string& column, const Dataset& set,
                                       Problems& problems) {
  std::vector<ImageRow> rows;
  std::vector<std::string> contradictions;
  problems.collect([&] { rows = read_rows(text, name, column, set, contradictions); });
  if (contradictions.empty()) return rows;
  problems.add(unusable(name, "it gives a path more than one " + column + ": " +
                                  few_of(std::move(contradictions), kMaxNamedOfSplit) +
                                  ". Keep one line for each."));
  return rows;
}

// The paths of rows without images that are not in `known` (sorted) either.
std::vector<std::string> unknown_paths(const std::vector<ImageRow>& rows,
                                       const std::vector<std::string>& known) {
  std::vector<std::string> unknown;
  for (const ImageRow& row : rows)
    if (row.images.empty() && !std::binary_search(known.begin(), known.end(), row.path))
      unknown.push_back(row.path);
  return unknown;
}

void refuse_unknown_paths(const std::vector<std::string>& unknown, const std::string& name,
                          const Dataset& set, Problems& problems) {
  if (unknown.empty()) return;
  problems.add(
      unusable(name, plural(std::ssize(unknown), "path is", "paths are") + " not in '" +
                         set.root.string() + "': " + quoted_names(unknown, kMaxNamedOfSplit) +
                         ". Write each as in the dataset, such as '" +
                         std::string(set.samples.file_name(0)) + "', or remove its line."));
}

constexpr std::size_t kLongestLabel = 200;
constexpr int kLeftOut = -1;

// Returns the label of each image, and adds new classes to `classes`.
std::vector<int> relabeled(const Dataset& set, const std::vector<ImageRow>& rows,
                           std::vector<std::string>& classes) {
  std::unordered_map<std::string, int> ids;
  for (std::size_t c = classes.size(); c-- > 0;) ids[classes[c]] = static_cast<int>(c);
  std::vector<int> labels = set.samples.labels();
  for (const ImageRow& row : rows) {
    int id = kLeftOut;
    if (!trimmed(row.value).empty()) {
      // Without blanks around it, as in lists, unless they are in the name of a class.
      const std::string label(ids.contains(row.value) ? row.value : trimmed(row.value));
      const auto [known, is_new] = ids.emplace(label, static_cast<int>(classes.size()));
      if (is_new) classes.push_back(label);
      id = known->second;
    }
    for (const std::uint32_t i : row.images) labels[i] = id;
  }
  return labels;
}

constexpr std::string_view kRight = "right", kRelabel = "relabel", kLeaveOut = "leave out";

// Checks the decisions, and empties the labels of rows that leave their images out.
void read_decisions(std::vector<ImageRow>& rows, const std::string& name, Problems& problems) {
  for (ImageRow& row : rows) {
    const std::string decision = row.decision.value_or("");
    const bool has_label = !trimmed(row.value).empty();
    if (decision == kLeaveOut)
      row.value.clear();
    else if (decision != kRight && decision != kRelabel && !decision.empty())
      problems.add(unusable(name, at_line(row.line) + "the decision '" + excerpt(decision) +
                                      "' must be right, relabel, leave out or empty."));
    else if (!decision.empty() && !has_label)
      problems.add(unusable(name, at_line(row.line) + "the decision '" + decision +
                                      "' needs a label. Write it, or leave out instead."));
  }
}

// By image: whether its row says that the label is right, or gives the present one as decided.
std::vector<bool> confirmed(const Dataset& set, const std::vector<ImageRow>& rows,
                            const std::vector<int>& labels) {
  std::vector<bool> are_right(labels.size());
  for (const ImageRow& row : rows)
    for (const std::uint32_t i : row.images)
      are_right[i] =
          row.decision == kRight || (labels[i] == set.samples.label(i) && row.decision != "");
  return are_right;
}

// By class: true if it had images and has none now.
std::vector<bool> gone_classes(const Dataset& set, const std::vector<int>& labels,
                               std::size_t num_classes) {
  std::vector<bool> had(num_classes), has(num_classes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    had[set.samples.label(i)] = true;
    if (labels[i] >= 0) has[labels[i]] = true;
  }
  for (std::size_t c = 0; c < had.size(); ++c) had[c] = had[c] && !has[c];
  return had;
}

}  // namespace

std::string read_image_rows(const std::string& path, const std::string& name) {
  try {
    return read_text(path, kMaxBytes);
  } catch (const std::system_error& fault) {
    throw Error(ErrorCode::kUserError,
                name + " cannot be read: " + why_unreadable(fault) + "." + did_you_mean_path(path));
  } catch (const std::length_error&) {
    throw unusable(name, "it is larger than 1 GiB.");
  }
}

LabelChanges apply_labels(std::string_view text, const std::string& name, Dataset& set,
                          bool may_name_others) {
  Problems problems;
  std::vector<ImageRow> rows = parse_image_rows(text, name, "label", set, problems);
  read_decisions(rows, name, problems);
  LabelChanges changes;
  changes.unknown = unknown_paths(rows, {});
  if (!may_name_others) refuse_unknown_paths(changes.unknown, name, set, problems);
  for (const ImageRow& row : rows) {
    if (row.value.size() > kLongestLabel || !is_clean(row.value) ||
        row.value.find('\t') != row.value.npos)
      problems.add(
          unusable(name, at_line(row.line) + "the label '" + excerpt(row.value) +
                             "' must be UTF-8 of at most 200 bytes, without control characters."));
  }
  std::vector<std::string> all = set.classes;  // and new ones
  const std::vector<int> labels = relabeled(set, rows, all);
  if (problems.empty() && std::ranges::all_of(labels, [](int id) { return id < 0; }))
    problems.add(Error(ErrorCode::kUserError,
                       name + " drops every image in '" + set.root.string() + "'. Keep some."));
  if (problems.empty() && all.size() > std::max(kMaxClasses, set.classes.size()))
    problems.add(unusable(name, "it results in more than 100,000 classes."));
  problems.throw_if_any();

  changes.new_classes.assign(all.begin() + std::ssize(set.classes), all.end());
  const std::vector<bool> gone = gone_classes(set, labels, all.size());
  std::vector<int> new_ids(gone.size());
  std::vector<std::string> classes;
  for (std::size_t c = 0; c < gone.size(); ++c) {
    new_ids[c] = static_cast<int>(classes.size());
    (gone[c] ? changes.gone_classes : classes).push_back(all[c]);
  }
  const std::vector<bool> are_right = confirmed(set, rows, labels);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const bool is_left = labels[i] >= 0, is_changed = labels[i] != set.samples.label(i);
    if (!is_left) changes.left_out.emplace_back(set.samples.file_name(i));
    if (is_left) changes.are_right.push_back(are_right[i]);
    if (is_left && is_changed) ++changes.num_changed;
    if (is_changed || are_right[i]) ++changes.num_decided;
    set.samples.set_label(i, labels[i] < 0 ? kLeftOut : new_ids[labels[i]]);
  }
  std::ranges::sort(changes.left_out);
  if (!changes.left_out.empty()) set.samples.remove_unlabeled();
  if (!changes.new_classes.empty() || !changes.gone_classes.empty()) {
    set.classes = std::move(classes);
    set.schema_json = schema_text(set.classes);
    set.found = {};  // of the labels before
  }
  return changes;
}

namespace {

// A side without images, and classes that could not be learned. `column` is that of the sides.
std::vector<std::string> faults_of_sides(const Dataset& set, const std::vector<Side>& sides,
                                         const std::string& column) {
  std::vector<long long> train(set.classes.size()), valid(set.classes.size());
  for (std::size_t i = 0; i < sides.size(); ++i)
    set.for_each_class(set.samples.label(i),
                       [&](int id) { ++(sides[i] == Side::kValid ? valid : train)[id]; });
  std::vector<std::string> faults;
  if (std::ranges::count(sides, Side::kValid) == 0)
    faults.push_back("it has no image with the " + column + " 'valid'. Give some of each class.");
  std::vector<std::string> only_valid;
  for (std::size_t c = 0; c < train.size(); ++c)
    if (train[c] == 0 && valid[c] > 0) only_valid.push_back(set.classes[c]);
  if (!only_valid.empty())
    faults.push_back("no image of class " + quoted_names(only_valid, kMaxNamedOfSplit) +
                     " has the " + column + " 'train', so it cannot be learned.");
  return faults;
}

// The sides that the file gives. Throws Problems; see parse_split().
std::vector<Side> sides_in(std::string_view text, const std::string& name, const Dataset& set,
                           const std::vector<std::string>& left_out) {
  Problems problems;
  const std::vector<ImageRow> rows = parse_image_rows(text, name, "set", set, problems);
  if (rows.empty()) problems.throw_if_any();  // otherwise all images would be reported missing
  refuse_unknown_paths(unknown_paths(rows, left_out), name, set, problems);
  std::vector<Side> sides(set.samples.size(), Side::kTrain);
  std::vector<bool> is_named(sides.size());
  std::vector<std::string> other_words, unnamed;
  for (const ImageRow& row : rows) {
    if (row.value != "train" && row.value != "valid")
      other_words.push_back(row.value + "' (line " + std::to_string(row.line) + ")");
    for (const std::uint32_t i : row.images) {
      is_named[i] = true;
      if (row.value == "valid") sides[i] = Side::kValid;
    }
  }
  if (!other_words.empty())
    problems.add(unusable(
        name, "the column 'set' must be 'train' or 'valid', but is '" + other_words.front() +
                  (other_words.size() == 1
                       ? "."
                       : formatted(", and %zu more lines are wrong.", other_words.size() - 1))));
  for (std::size_t i = 0; i < sides.size(); ++i)
    if (!is_named[i]) unnamed.emplace_back(set.samples.file_name(i));
  if (!unnamed.empty())
    problems.add(unusable(
        name, formatted("it lacks %zu of the %zu images in '", unnamed.size(), sides.size()) +
                  set.root.string() + "': " + quoted_names(unnamed, kMaxNamedOfSplit) +
                  ". Add a line for each, or leave --split out to split all images again."));
  problems.throw_if_any();
  for (const std::string& fault : faults_of_sides(set, sides, "set"))
    problems.add(unusable(name, fault));
  problems.throw_if_any();
  return sides;
}

// The groups that the file gives, numbered from 0; empty if it has none. An image whose group is
// empty is alone.
std::vector<std::uint32_t> groups_in(std::string_view text, const std::string& name,
                                     const Dataset& set) {
  Problems unimportant;
  std::vector<std::string> given(set.samples.size());
  bool has_groups = false;
  for (const ImageRow& row : parse_image_rows(text, name, "group", set, unimportant))
    for (const std::uint32_t i : row.images) {
      given[i] = row.value;
      has_groups = has_groups || !row.value.empty();
    }
  if (!has_groups) return {};
  std::vector<std::uint32_t> groups;
  std::unordered_map<std::string, std::uint32_t> numbers;
  std::uint32_t count = 0;
  for (const std::string& group : given) {
    const bool is_new = group.empty() || numbers.emplace(group, count).second;
    groups.push_back(is_new ? count++ : numbers.at(group));
  }
  return groups;
}

}  // namespace

std::string format_split(const Dataset& set, const std::vector<Side>& sides,
                         const std::vector<std::uint32_t>& groups) {
  std::string text = "path,label,set,group\n";
  for (std::size_t i = 0; i < sides.size(); ++i) {
    text += csv_field(std::string(set.samples.file_name(i))) + "," +
            csv_field(set.label_text(set.samples.label(i))) +
            (sides[i] == Side::kValid ? ",valid," : ",train,") +
            (groups.empty() ? "" : std::to_string(groups[i])) + "\n";
  }
  return text;
}

SplitFile parse_split(std::string_view text, const std::string& name, const Dataset& set,
                      const std::vector<std::string>& left_out) {
  SplitFile file{.sides = sides_in(text, name, set, left_out),
                 .groups = groups_in(text, name, set)};
  Problems unimportant;  // such as a file without labels
  for (const ImageRow& row : parse_image_rows(text, name, "label", set, unimportant))
    for (const std::uint32_t i : row.images)
      if (row.value != set.label_text(set.samples.label(i))) ++file.num_other_labels;
  return file;
}

namespace {

std::string named(const char* option, const std::string& path) {
  return std::string("--") + option + " '" + path + "'";
}

void refuse_one_class(const Dataset& set) {
  const int label = set.samples.label(0);
  for (std::size_t i = 1; i < set.samples.size(); ++i)
    if (set.samples.label(i) != label) return;
  set.fail("all its images belong to one class, '" + set.label_text(label) +
           "', so there is nothing to learn. Give the folder that contains the class folders, "
           "or add images of another class.");
}

// Throws the error for a dataset of which no group can be spared for validation.
[[noreturn]] void fail_unsplittable(const SplitDataset& split, const SplitRequest& request) {
  split.set.fail("each of its classes has only one image, or one group of images" +
                 (request.group_by.empty() ? std::string(" that are duplicates")
                                           : " by --group-by '" + request.group_by + "'") +
                 ", so none are left for validation. Add images, or give a separate validation "
                 "dataset (--train-data-path and --valid-data-path).");
}

// Counts the groups of more than one image.
std::size_t count_groups(const std::vector<std::uint32_t>& groups) {
  std::vector<std::uint32_t> sizes(groups.size());
  for (const std::uint32_t group : groups) ++sizes[group];
  return std::ranges::count_if(sizes, [](std::uint32_t size) { return size > 1; });
}

std::string summary_of(const SplitDataset& split, const std::string& how) {
  const auto num_valid = static_cast<long long>(std::ranges::count(split.sides, Side::kValid));
  const auto num_train = static_cast<long long>(split.sides.size()) - num_valid;
  if (num_valid == 0)
    return plural(num_train, "training image", "training images") + " (" + how + ")";
  return grouped(num_train) + " training, " +
         plural(num_valid, "validation image", "validation images") + " (" + how + ")";
}

void log_changed_classes(const LabelChanges& changes, Dataset& set) {
  if (!changes.new_classes.empty()) {
    set.notes.push_back("--labels adds the class " +
                        quoted_among(changes.new_classes, set.classes, kMaxNamedOfSplit));
    const std::string twins = note_of_twins(set.classes);
    if (!twins.empty() && std::ranges::count(set.notes, twins) == 0) set.notes.push_back(twins);
  }
  if (!changes.gone_classes.empty())
    set.notes.push_back("--labels leaves no image of the class " +
                        quoted_names(changes.gone_classes, kMaxNamedOfSplit) +
                        ", which is therefore dropped");
}

// The sides that a list gives its images; empty if none is for validation.
std::vector<Side> sides_of_list(const Dataset& set, const SplitRequest& request) {
  std::vector<Side> sides(set.samples.size());
  for (std::size_t i = 0; i < sides.size(); ++i)
    sides[i] = set.samples.set(i) == ListedSet::kValid ? Side::kValid : Side::kTrain;
  if (std::ranges::count(sides, Side::kValid) == 0) return {};
  for (const auto& [option, value] :
       {std::pair{"split", &request.split_file}, std::pair{"group-by", &request.group_by}})
    if (!value->empty())
      throw Error(ErrorCode::kUserError,
                  named(option, *value) +
                      " cannot be used, since the list assigns each image by "
                      "its column split: leave it out, or ignore the column "
                      "with --columns split=.");
  Problems problems;
  for (const std::string& fault : faults_of_sides(set, sides, "split"))
    problems.collect([&] { set.fail(fault); });
  problems.throw_if_any();
  return sides;
}

// Returns how the images were split, for the summary.
std::string split_by_images(const SplitRequest& request, const ScanPlan& scan,
                            SplitDataset& split) {
  Dataset& set = split.set;
  refuse_one_class(set);
  check_pattern(request.group_by, set);
  const ScannedImages scanned = scan_images({&set}, scan);
  split.duplicates = find_duplicates(scanned);
  split.groups = groups_of(set, split.duplicates, request.group_by);
  SplitImages images{.labels = set.samples.labels(),
                     .keys = split_keys(set, scanned, request.seed),
                     .groups = split.groups,
                     .num_classes = set.classes.size() + 1,
                     .classes = set.labels};
  for (std::vector<int>& ids : images.classes.sets)  // those of no class are as good as a class
    if (ids.empty()) ids = {static_cast<int>(set.classes.size())};
  const bool is_divided = request.fraction > 0;
  if (is_divided)
    split.sides = choose_sides(images, request.fraction);
  else
    split.sides.assign(set.samples.size(), Side::kTrain);
  if (is_divided && std::ranges::count(split.sides, Side::kValid) == 0)
    fail_unsplittable(split, request);
  const std::size_t num_copied = count_groups(groups_of(set, split.duplicates, "", false));
  const bool has_groups = !request.group_by.empty() || set.samples.has_groups();
  const std::size_t num_groups = has_groups ? count_groups(split.groups) : 0;
  return (is_divided ? formatted("%.3g %% of each class", 100 * request.fraction)
                     : std::string("all are for training, and each is judged out of fold")) +
         (num_groups > 0 ? ", with " + plural(num_groups, "group", "groups") +
                               " of several images kept together"
                         : "") +
         (num_copied > 0
              ? "; " + plural(num_copied, "group", "groups") + " of duplicates kept together"
              : "");
}

}  // namespace

SplitDataset split_dataset(Dataset given, const SplitRequest& request, const ScanPlan& scan) {
  SplitDataset split;
  split.set = std::move(given);
  Problems problems;
  LabelChanges changes;
  if (!request.labels_file.empty())
    problems.collect([&] {
      const std::string name = named("labels", request.labels_file);
      changes = apply_labels(read_image_rows(request.labels_file, name), name, split.set);
    });
  log_changed_classes(changes, split.set);
  std::string how;
  problems.collect([&] {
    split.sides = sides_of_list(split.set, request);
    if (!split.sides.empty()) how = "as its column split says";
  });
  if (!request.split_file.empty())
    problems.collect([&] {
      const std::string name = named("split", request.split_file);
      SplitFile file =
          parse_split(read_image_rows(request.split_file, name), name, split.set, changes.left_out);
      split.sides = std::move(file.sides);
      split.groups = std::move(file.groups);
      how = "from '" + request.split_file + "'";
      if (file.num_other_labels > 0 && request.labels_file.empty())
        split.set.notes.push_back(plural(file.num_other_labels, "image has", "images have") +
                                  " a different label in '" + request.split_file +
                                  "' than in the dataset, whose labels are used");
    });
  problems.throw_if_any();
  if (how.empty()) how = split_by_images(request, scan, split);
  if (changes.num_changed > 0)
    how += "; " + plural(changes.num_changed, "label", "labels") + " corrected";
  if (!changes.left_out.empty())
    how += "; " + plural(changes.left_out.size(), "image", "images") + " dropped by --labels";
  split.summary = summary_of(split, how);
  return split;
}

}  // namespace kiln
