#include "data/split/split_dataset.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/unicode_form.h"
#include "data/split/split_files.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxNamed = 5;

[[noreturn]] void fail(const Dataset& set, const std::string& text) {
  throw Error(ErrorCode::kInvalidDataset, set.name + " '" + set.root.string() + "': " + text);
}

std::string plural(std::size_t count, const std::string& one, const std::string& more) {
  return grouped(static_cast<long long>(count)) + " " + (count == 1 ? one : more);
}

std::string named(const char* option, const std::string& path) {
  return std::string("--") + option + " '" + path + "'";
}

const std::string& class_of(const Dataset& set, std::uint32_t i) {
  return set.classes[static_cast<std::size_t>(set.samples.label(i))];
}

void refuse_one_class(const Dataset& set) {
  const std::vector<long long> counts = counts_by_class(set, set.classes.size());
  if (std::count_if(counts.begin(), counts.end(), [](long long count) { return count > 0; }) > 1)
    return;
  fail(set, "all its images belong to one class, '" + class_of(set, 0) +
                "', so there is nothing to learn. Give the folder that contains the class folders, "
                "or add images of another class.");
}

// Throws the error for a dataset of which no group can be spared for validation.
[[noreturn]] void fail_unsplittable(const SplitDataset& split, const SplitRequest& request) {
  const std::size_t num_images = split.groups.size();
  const std::size_t num_groups =
      std::size_t{*std::max_element(split.groups.begin(), split.groups.end())} + 1;
  const std::string advice =
      " Add images, or give a separate validation dataset (--train-data-path and "
      "--valid-data-path).";
  if (num_groups == num_images)
    fail(split.set,
         "each of its classes has only one image, so none are left for validation." + advice);
  const std::string groups = num_groups == 1 ? "one group" : "one group for each class";
  if (!request.group_by.empty())
    fail(split.set, "--group-by '" + request.group_by + "' puts its " + std::to_string(num_images) +
                        " images into " + groups +
                        ", so none are left for validation. Give a regular expression whose first "
                        "capture group distinguishes them, such as '(patient[0-9]+)_'.");
  fail(split.set, "its " + std::to_string(num_images) + " images are duplicates of each other, " +
                      groups + ", so none are left for validation." + advice);
}

void note_contradictions(const DuplicatePairs& pairs, Dataset& set) {
  std::size_t count = 0;
  std::string first;
  for (const auto& [a, b] : pairs.exact) {
    if (set.samples.label(a) == set.samples.label(b) || count++ > 0) continue;
    first = "'" + printable(set.samples.file_name(a)) + "' and '" +
            printable(set.samples.file_name(b)) + "'";
  }
  if (count > 0)
    set.notes.push_back(plural(count, "image has", "images have") +
                        " the same bytes as an image with another label, such as " + first);
}

// Counts the groups of more than one image.
std::size_t count_groups(const std::vector<std::uint32_t>& groups) {
  std::vector<std::uint32_t> sizes(groups.size());
  for (const std::uint32_t group : groups) ++sizes[group];
  return static_cast<std::size_t>(
      std::count_if(sizes.begin(), sizes.end(), [](std::uint32_t size) { return size > 1; }));
}

std::string summary_of(const SplitDataset& split, const std::string& how) {
  const auto num_valid =
      static_cast<long long>(std::count(split.sides.begin(), split.sides.end(), Side::kValid));
  const auto num_train = static_cast<long long>(split.sides.size()) - num_valid;
  return grouped(num_train) + " training, " + grouped(num_valid) + " validation images (" + how +
         ")";
}

std::string in_words(const LabelChanges& changes) {
  std::string text;
  if (changes.num_changed > 0)
    text += "; " + plural(changes.num_changed, "label", "labels") + " corrected";
  if (!changes.left_out.empty())
    text += "; " + plural(changes.left_out.size(), "image", "images") + " dropped by --labels";
  return text;
}

void note_classes(const LabelChanges& changes, Dataset& set) {
  if (!changes.new_classes.empty())
    set.notes.push_back("--labels adds the class " +
                        quoted_among(changes.new_classes, set.classes, kMaxNamed));
  if (!changes.gone_classes.empty())
    set.notes.push_back("--labels leaves no image of the class " +
                        quoted_names(changes.gone_classes, kMaxNamed) +
                        ", which is therefore dropped");
}

// Returns how the images were split, for the summary.
std::string split_by_images(const SplitRequest& request, const ScanPlan& scan,
                            SplitDataset& split) {
  Dataset& set = split.set;
  refuse_one_class(set);
  refuse_idle_pattern(set, request.group_by);
  const ScannedImages scanned = scan_images(set, scan);
  split.duplicates = find_duplicates(scanned);
  split.groups = groups_of(set, split.duplicates, request.group_by);
  note_contradictions(split.duplicates, set);
  SplitImages images{.labels = std::vector<std::int32_t>(set.samples.size()),
                     .keys = split_keys(set, scanned, request.seed),
                     .groups = split.groups,
                     .num_classes = set.classes.size()};
  for (std::size_t i = 0; i < set.samples.size(); ++i) images.labels[i] = set.samples.label(i);
  const bool is_divided = request.fraction > 0;
  if (is_divided)
    split.sides = choose_sides(images, request.fraction);
  else
    split.sides.assign(set.samples.size(), Side::kTrain);
  if (is_divided && std::count(split.sides.begin(), split.sides.end(), Side::kValid) == 0)
    fail_unsplittable(split, request);
  const std::size_t num_copied = count_groups(groups_of(set, split.duplicates, ""));
  const std::size_t num_groups = request.group_by.empty() ? 0 : count_groups(split.groups);
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
  note_classes(changes, split.set);
  std::string how;
  if (!request.split_file.empty())
    problems.collect([&] {
      const std::string name = named("split", request.split_file);
      SplitFile file =
          parse_split(read_image_rows(request.split_file, name), name, split.set, changes.left_out);
      split.sides = std::move(file.sides);
      how = "from '" + request.split_file + "'";
      if (file.num_other_labels > 0 && request.labels_file.empty())
        split.set.notes.push_back(plural(file.num_other_labels, "image has", "images have") +
                                  " a different label in '" + request.split_file +
                                  "' than in the dataset, whose labels are used");
    });
  problems.throw_if_any();
  if (request.split_file.empty()) how = split_by_images(request, scan, split);
  split.summary = summary_of(split, how + in_words(changes));
  return split;
}

}  // namespace kiln
