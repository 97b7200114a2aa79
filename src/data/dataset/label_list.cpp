#include "data/dataset/label_list.h"

#include <algorithm>
#include <functional>
#include <system_error>
#include <unordered_set>

#include "base/content_hash.h"
#include "base/files.h"
#include "base/names.h"
#include "base/text.h"
#include "base/url.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr double kMaxWeight = 1e6;

// Calls `visit` with what is between the marks, without blanks and empty parts.
template <typename Visit>
void for_each_part(std::string_view text, char mark, Visit&& visit) {
  for (std::size_t size = 0; !text.empty(); text.remove_prefix(std::min(size + 1, text.size()))) {
    size = std::min(text.find(mark), text.size());
    if (const std::string_view part = trimmed(text.substr(0, size)); !part.empty()) visit(part);
  }
}

std::string several_text(const std::string& labels) {
  return "has several labels ('" + excerpt(labels) +
         "'): `kiln train --task multi-label` trains on several for each image, with ';' between "
         "them, and --task single-label takes them as one name";
}

bool is_in_brackets(std::string_view label) {
  return (label.starts_with('[') && label.ends_with(']')) ||
         (label.starts_with('{') && label.ends_with('}'));
}

// Whether the row has a confidence of 0, as of Open Images: the image is not of the class.
bool denies_label(const ListedRow& row) {
  std::string_view text = trimmed(row[ListField::kConfidence]);
  if (text.empty()) return false;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto confidence = number_in<double>(text);
  if (!confidence)
    throw RowFault("the confidence '" + excerpt(std::string(text)) + "' is no number");
  return *confidence == 0;
}

// The part of a path of another machine for which a folder must be given: "s3://bucket/".
std::string prefix_of(std::string_view path) {
  const std::size_t scheme = path.find("://");
  constexpr std::string_view kPaths = "/paths/";  // azureml://subscriptions/…/datastores/…/paths/
  const std::size_t paths = path.starts_with("azureml://") ? path.find(kPaths) : path.npos;
  const std::size_t end =
      paths == path.npos ? path.find_first_of("/?#", scheme + 3) : paths + kPaths.size() - 1;
  const std::size_t slash = end < path.size() && path[end] == '/' ? 1 : 0;
  return std::string(path.substr(0, std::min(end, path.size()) + slash));
}

// With a slash at its end.
std::string absolute_folder(const fs::path& folder) {
  return (fs::absolute(folder) / "").lexically_normal().string();
}

// Without empty parts, "." and "..".
std::string normal_path(std::string path) {
  if (path.find("//") == path.npos && path.find("/.") == path.npos) return path;
  return fs::path(path).lexically_normal().string();
}

// Shortens a folder, with a slash at its end, to what an absolute path shares with it.
void shorten_to_common(std::string_view path, std::string& folder) {
  if (folder.empty()) folder = path.substr(0, path.rfind('/') + 1);
  while (!path.starts_with(folder)) folder.resize(folder.rfind('/', folder.size() - 2) + 1);
}

// The first faults of `count`, and how many there are beside them.
std::string faults_text(const std::vector<std::string>& faults, std::size_t count) {
  return joined(faults, "; ") +
         (count > kMostNamed ? "; and " + std::to_string(count - kMostNamed) + " more" : "");
}

}  // namespace

ListRows::ListRows(const DatasetContext& a_context)
    : context(a_context),
      columns(a_context.records.columns, a_context.records.task == TaskKind::kMultiLabel) {
  fs::path root = is_folder(context.root) ? context.root : context.root.parent_path();
  for (const auto& [prefix, folder] : context.records.list_roots) {
    if (prefix.empty())
      root = folder;
    else
      prefixes_.emplace_back(plain_url(prefix), absolute_folder(folder));
  }
  // The longest one that a path has decides.
  std::ranges::stable_sort(prefixes_, std::greater(), [](auto& pair) { return pair.first.size(); });
  root_ = root.empty() ? "." : root.string();
  absolute_root_ = absolute_folder(root_);
}

void ListRows::fault(int line, const std::string& clause) {
  if (++num_faults_ <= kMostNamed)
    faults_.push_back((line > 0 ? std::string(unit) + " " + std::to_string(line) + ": " : "") +
                      clause);
}

bool ListRows::wants_flags() const {
  const std::pair<std::string, std::string> all_labels("label", "*");
  return context.records.task == TaskKind::kMultiLabel ||
         std::ranges::count(context.records.columns, all_labels) > 0;
}

void ListRows::name_classes(std::vector<std::string> names, const std::string& named_by) {
  if (!set.found.names.empty() && set.found.names != names)
    throw RowFault("has other names of classes than the files before it");
  set.found.names = std::move(names);
  set.found.named_by = named_by;
}

void ListRows::add(const ListedRow& row) {
  if (set.samples.size() == UINT32_MAX - 1) throw RowFault("has more than 4 billion rows");
  std::vector<int> flags = other_columns.end_row();
  try {
    const std::optional<ListedSet> of_set = set_of(row);
    if (!of_set) return pass_over(row);
    const std::optional<std::string> name = name_of(row);
    if (!name) return;
    Sample image{.file_name = *name,
                 .label = labels_of(row),
                 .id = static_cast<std::int64_t>(set.samples.size()),
                 .set = *of_set};
    const std::string_view group = plain_number(trimmed(row[ListField::kGroup]));
    if (is_missing_value(group))
      ++num_missing_groups_;
    else if (!group.empty())
      image.group = content_hash(group);
    if (const std::string_view text = trimmed(row[ListField::kWeight]); !text.empty()) {
      const auto weight = number_in<double>(text);
      if (!weight || !(*weight >= 0) || *weight > kMaxWeight)
        throw RowFault("the weight '" + std::string(text.substr(0, 40)) +
                       "' is no number from 0 to 1000000");
      image.weight = static_cast<float>(*weight);
    }
    set.samples.push_back(image, row.member);
    lines_.push_back(row.line);
    flags_of_rows_.push_back(flags_.label_of(std::move(flags)));
  } catch (const RowFault& found) {
    fault(row.line, found.what());
  }
}

// Empty if the set is not wanted.
std::optional<ListedSet> ListRows::set_of(const ListedRow& row) {
  const std::string word = in_small_letters(trimmed(row[ListField::kSet]));
  if (word.empty()) {
    if (has_sets_) throw RowFault("names no set (train, valid or test)");
    return ListedSet::kNone;
  }
  if (!has_sets_ && !set.samples.empty()) throw RowFault("names a set, but rows above it do not");
  has_sets_ = true;
  const std::optional<ListedSet> named = listed_set(word);
  if (!named)
    throw RowFault("the set '" + excerpt(word) +
                   "' is none of train, valid, validation, val and test");
  if (is_wanted(context.records, *named)) return named;
  ++num_left_out_[static_cast<std::size_t>(*named)];
  return std::nullopt;
}

// Of a set that is not wanted: an image's name must not depend on which sets are.
void ListRows::pass_over(const ListedRow& row) {
  try {
    if (row.member != nullptr) return;
    if (const std::optional<std::string> name = name_of(row, false))
      shorten_to_common(absolute(*name), common_);
  } catch (const RowFault&) {  // it is not used
  }
}

std::string ListRows::absolute(std::string_view name) const {
  return (name.starts_with('/') ? "" : absolute_root_) + std::string(name);
}

// The image's name. Empty if its prefix has no folder.
std::optional<std::string> ListRows::name_of(const ListedRow& row, bool is_wanted) {
  const std::string& path = row[ListField::kPath];
  const bool is_inside = row.member != nullptr;
  if (!set.samples.empty() && is_inside != (set.samples.member(0) != nullptr))
    throw RowFault("some images of the list are in it, and others are files");
  if (is_inside)  // the number is the same whatever rows are left out
    return formatted("%09d", row.line - 1) + path;
  if (path.empty()) throw RowFault("names no image");
  if (path.size() > kMaxPathBytes) throw RowFault("has a path longer than 4096 bytes");
  if (path.find('\0') != path.npos) throw RowFault("has a path with a zero byte");
  const auto is_named = [&](const std::string& file) {
    return is_there(fs::path(absolute_root_) / file);
  };
  std::string name = meant_name(plain_url(path), is_named);
  const auto mapped = std::ranges::find_if(
      prefixes_, [&](const auto& pair) { return name.starts_with(pair.first); });
  if (mapped != prefixes_.end()) {
    name = meant_name(mapped->second + name.substr(mapped->first.size()), is_named);
  } else if (name.starts_with("file:///")) {
    name.erase(0, std::string_view("file://").size());
  } else if (name.find("://") != name.npos) {
    if (!is_wanted) return {};
    const std::string prefix = prefix_of(name);
    if (unmapped_.contains(prefix) || unmapped_.size() < kMostNamed)
      ++unmapped_[prefix];
    else
      fault(row.line, "has the prefix '" + prefix + "'");
    return {};
  }
  name = with_extension(std::move(name));
  if (name.front() != '/' && name.find("/.") == name.npos && !name.starts_with('.') &&
      name.find("//") == name.npos && !name.ends_with('/'))
    return name;
  const std::string given = absolute(name), whole = normal_path(given);
  if (whole.ends_with('/')) throw RowFault("'" + name + "' is a folder");
  const std::string folder = given.substr(0, given.rfind('/') + 1);
  if (std::error_code fault; folder.find("/../") != folder.npos && folder != plain_folder_) {
    if (fs::weakly_canonical(folder, fault) != fs::weakly_canonical(normal_path(folder), fault))
      throw RowFault("'" + name + "' leads through a link and back: write it without '..'");
    plain_folder_ = folder;
  }
  if (whole.starts_with(absolute_root_)) return whole.substr(absolute_root_.size());
  has_absolute_ = true;
  return whole;
}

// The name of the only image that is named so before its extension, as in Kaggle's tables, if there
// is no file of the name itself.
std::string ListRows::with_extension(std::string name) {
  const std::size_t begin = name.rfind('/') + 1;
  if (has_image_extension(name) || begin == name.size()) return name;
  const auto [known, is_new] = folders_.try_emplace(name.substr(0, begin));
  FolderEntries& entries = known->second;
  if (is_new) entries = entries_if_readable(fs::path(absolute_root_) / known->first);
  const std::string own = name.substr(begin), start = own + ".";
  if (std::ranges::binary_search(entries, own, {}, &FolderEntry::name)) return name;
  std::vector<std::string> found;
  auto entry = std::ranges::lower_bound(entries, start, {}, &FolderEntry::name);
  for (; entry != entries.end() && entry->name.starts_with(start); ++entry)
    if (has_image_extension(entry->name) && without_extension(entry->name) == own)
      found.emplace_back(entry->name);
  if (found.size() > 1)
    throw RowFault("'" + name + "' may be " + quoted_names(found, 2) + ": write its extension");
  return found.empty() ? name : known->first + found.front();
}

// Several classes of an image, where that is the task.
int ListRows::labels_of(const ListedRow& row) {
  const bool is_denied = denies_label(row);
  std::string_view text = is_denied ? std::string_view() : row[ListField::kLabel];
  const bool is_list = has_marks && text.ends_with(kListedLabelEnd);
  if (context.records.task != TaskKind::kMultiLabel) {
    if (is_list) text.remove_suffix(1);
    std::string shown(text);
    if (has_marks) std::ranges::replace(shown, kListedLabelEnd, kLabelSeparator);
    if (shown != text) throw RowFault(several_text(shown));
    return label_of(text);
  }
  if (!row.has_label && !is_denied) return -1;
  has_lists_ = has_lists_ || is_list;
  std::vector<int> labels;
  std::map<std::string_view, int> flags;
  bool are_flags = true;
  for_each_part(text, is_list ? kListedLabelEnd : kLabelSeparator, [&](std::string_view part) {
    if (const int label = label_of(part); label >= 0) labels.push_back(label);
    are_flags = are_flags && (part == "0" || part == "1");
    ++flags[part];
  });
  if (are_flags && labels.size() > flags.size())
    throw RowFault(
        "has a 0 or a 1 for each class, or the number of a class twice: write the names or the "
        "numbers of its classes, each once");
  return sets_.label_of(std::move(labels));
}

// Unless --task single-label says what they are: labels in brackets, and with a mark beside a part
// that is in another label, too; with blanks, only if all words are labels and no image has several
// labels. Lists of labels need no mark.
void ListRows::refuse_several() {
  const bool is_open = context.records.task == TaskKind::kAuto;
  if (context.records.task == TaskKind::kSingleLabel || has_lists_) return;
  std::vector<bool> are_several = list_from(labels_, is_in_brackets);
  for (const char mark : is_open ? std::string{kLabelSeparator, '|'} : std::string{',', '|', ' '}) {
    std::unordered_map<std::string_view, int> counts;
    bool are_labels = std::ranges::none_of(sets_.sets(), [](auto& ids) { return ids.size() > 1; });
    for (const std::string& label : labels_)
      for_each_part(label, mark, [&](std::string_view part) {
        ++counts[part];
        are_labels = are_labels && label_ids_.contains(std::string(part));
      });
    if (mark == ' ' && !are_labels) continue;
    for (std::size_t i = 0; i < labels_.size(); ++i)
      for_each_part(labels_[i], mark, [&](std::string_view part) {
        if (part != labels_[i] && counts.at(part) > 1) are_several[i] = true;
      });
  }
  const LabelClasses classes{sets_.sets()};  // none: one each
  for (std::size_t i = 0; i < lines_.size(); ++i)
    classes.visit(set.samples.label(i), [&](int id) {
      const auto place = static_cast<std::size_t>(id);
      if (are_several[place])
        fault(lines_[i], is_open
                             ? several_text(labels_[place])
                             : "has the label '" + excerpt(labels_[place]) +
                                   "', which may be several: write ';' between them, or give a "
                                   "list that ends in .jsonl, with each image's labels as a list");
    });
}

int ListRows::label_of(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return -1;
  if (text.size() > kMaxLabelBytes) throw RowFault("has a label of more than 256 bytes");
  std::string label(text);
  if (!is_clean(label))
    throw RowFault("the label '" + excerpt(label) + "' has control characters, or is not UTF-8");
  if (set.found.named_by.starts_with("ClassLabel")) {
    if (label == "-1") return -1;  // of Hugging Face's test sets
    if (!is_class_number(label) ||
        static_cast<std::size_t>(class_number(label)) >= set.found.names.size())
      throw RowFault("the label " + label + " has no name in the schema");
  }
  const auto [known, is_new] = label_ids_.emplace(label, static_cast<int>(labels_.size()));
  if (is_new && labels_.size() == kMaxClasses) throw RowFault("is of more than 100000 classes");
  if (is_new) labels_.push_back(std::move(label));
  return known->second;
}

void ListRows::refuse_faults() const {
  std::vector<std::string> sentences;
  for (const auto& [prefix, count] : unmapped_)
    sentences.push_back(
        plural(static_cast<long long>(count), "path begins", "paths begin") + " with '" + prefix +
        (prefix.starts_with("http")
             ? "', but Kiln downloads no images. Download them, and say where they are: "
             : "', which is not on this machine. Say where its files are: ") +
        "--list-root '" + prefix + "=FOLDER/'" +
        (is_bucket(prefix)
             ? ", or have PATH copied: --list-root '" + prefix + "PATH/=" + prefix + "PATH/'."
             : "."));
  if (num_faults_ > 0)
    sentences.push_back(plural(static_cast<long long>(num_faults_), "fault", "faults") + ": " +
                        faults_text(faults_, num_faults_) + ". Correct the list.");
  if (!sentences.empty()) context.fail(joined(sentences, " "));
}

// Keeps the images with keep[i]. Where paths lead out of the root, they are named from the deepest
// folder with all of them.
void ListRows::place(const std::vector<bool>& keep) {
  const SampleTable rows = std::exchange(set.samples, {});
  const std::vector<int> lines = std::exchange(lines_, {});
  set.folder = has_absolute_ ? common_ : root_;
  for (std::size_t i = 0; has_absolute_ && i < rows.size(); ++i)
    shorten_to_common(absolute(rows.file_name(i)), set.folder);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!keep[i]) continue;
    Sample image = rows[i];
    const std::string name = has_absolute_ ? absolute(image.file_name).substr(set.folder.size())
                                           : std::string(image.file_name);
    image.file_name = name;
    image.id = static_cast<std::int64_t>(set.samples.size());
    set.samples.push_back(image, rows.member(i));
    lines_.push_back(lines[i]);
  }
}

// Which rows are the first of their image. Later ones must say the same.
std::vector<bool> ListRows::first_of_each() {
  const SampleTable& rows = set.samples;
  std::vector<bool> is_first(rows.size(), true);
  if (!rows.empty() && rows.member(0) != nullptr) return is_first;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> order(rows.size());
  for (std::uint32_t i = 0; i < rows.size(); ++i) order[i] = {content_hash(rows.file_name(i)), i};
  std::ranges::sort(order);
  for (std::size_t k = 1, begin = 0; k < order.size(); ++k) {
    if (order[k - 1].first != order[k].first) begin = k;  // names hardly ever share a hash
    const std::uint32_t i = order[k].second;
    for (std::size_t earlier = begin; earlier < k && is_first[i]; ++earlier)
      if (const std::uint32_t first = order[earlier].second;
          is_first[first] && rows.file_name(first) == rows.file_name(i)) {
        is_first[i] = false;
        repeat(first, i);
      }
  }
  return is_first;
}

// A row that names the image of an earlier one: with --task multi-label it may add classes.
void ListRows::repeat(std::size_t earlier, std::size_t later) {
  const Sample first = set.samples[earlier], row = set.samples[later];
  const bool is_same = row.label == first.label;
  num_repeated_ += is_same ? 1 : 0;
  std::string has, had;
  if (!is_same && (sets_.sets().empty() || row.label < 0 || first.label < 0)) {
    has = shown_label(row.label), had = shown_label(first.label);
  } else if (row.set != first.set) {
    const auto shown = [](ListedSet of) { return "the set " + std::string(set_name(of)); };
    has = shown(row.set), had = shown(first.set);
  } else if (row.weight != first.weight) {
    has = formatted("the weight %g", static_cast<double>(row.weight));
    had = formatted("%g", static_cast<double>(first.weight));
  } else if (row.group != first.group) {
    has = "another group", had = "one";
  }
  if (!has.empty())
    return fault(lines_[later],
                 "'" + std::string(row.file_name) + "' has " + has + ", but " + had + " in " +
                     unit + " " + std::to_string(lines_[earlier]) +
                     (!is_same && sets_.sets().empty()
                          ? ": an image has one label, so keep one of the rows, or train with "
                            "--task multi-label on both labels"
                          : ": keep one of the rows"));
  if (is_same) return;
  std::vector<int> all = sets_.sets()[static_cast<std::size_t>(first.label)];
  const std::vector<int>& more = sets_.sets()[static_cast<std::size_t>(row.label)];
  all.insert(all.end(), more.begin(), more.end());
  set.samples.set_label(earlier, sets_.label_of(std::move(all)));
}

std::string ListRows::shown_label(int label) const {
  if (label < 0) return "no label";
  if (!sets_.sets().empty()) return "labels";
  return "the label '" + labels_[static_cast<std::size_t>(label)] + "'";
}

void ListRows::find_files() {
  const DatasetContext folder{.root = set.folder, .name = context.name};
  const ListFaults missing = ListedFiles(folder).find_images(set);
  if (missing.empty()) return;
  for (const auto& [i, why] : missing)
    fault(lines_[i], "'" + std::string(set.samples.file_name(i)) + "' " + why);
  context.fail(plural(static_cast<long long>(missing.size()), "image", "images") + " of " +
               std::to_string(set.samples.size()) + " cannot be used, in '" + set.folder +
               "': " + faults_text(faults_, num_faults_) +
               (has_image_extension(set.samples.file_name(missing.begin()->first))
                    ? ""
                    : ". The names have no extension of images: add it, such as .jpg") +
               ". Say where they are with --list-root FOLDER, or with --list-root "
               "'/OLD/PREFIX/=FOLDER/' for paths of another machine, or remove the rows.");
}

// Where no column has labels: those of 0 and 1 say which classes an image has.
void ListRows::label_by_flags() {
  if (!labels_.empty()) return;
  std::vector<int> ids;
  for (const auto& [column, is_class] : other_columns.flags()) {
    ids.push_back(is_class ? static_cast<int>(labels_.size()) : -1);
    if (is_class) labels_.push_back(column);
  }
  if (!wants_flags()) {
    if (labels_.size() > 1)
      set.notes.push_back("the columns " + quoted_names(labels_, kMostNamed) +
                          " have a 0 or a 1 in each row, and may say which classes an image has: "
                          "read them with --task multi-label");
    labels_.clear();
    return;
  }
  if (labels_.empty()) return;
  std::vector<int> labels;
  for (const std::vector<int>& ones : flags_.sets()) {
    std::vector<int> own;
    for (const int place : ones)
      if (const int id = ids[static_cast<std::size_t>(place)]; id >= 0) own.push_back(id);
    labels.push_back(sets_.label_of(std::move(own)));
  }
  for (std::size_t i = 0; i < flags_of_rows_.size(); ++i)
    set.samples.set_label(i, labels[static_cast<std::size_t>(flags_of_rows_[i])]);
}

void ListRows::add_labels() {
  const auto is_whole = [](const std::string& label) {
    return label.ends_with(".0") && is_class_number(label.substr(0, label.size() - 2));
  };
  const bool has_class_label = set.found.named_by.starts_with("ClassLabel");
  const std::vector<std::string> own = set.found.names;
  if (!context.records.classes_file.empty()) read_given_names(context, set.found);
  const std::unordered_set<std::string> names(set.found.names.begin(), set.found.names.end());
  if (own.empty() && !labels_.empty() && std::ranges::all_of(labels_, is_whole) &&
      std::ranges::none_of(labels_, [&](auto& label) { return names.contains(label); })) {
    for (std::string& label : labels_) label.resize(label.size() - 2);
    set.notes.emplace_back("labels such as '0.0' and '1.0' are read as 0 and 1");
  }
  for (const std::string& label : labels_)
    set.found.labels.push_back({.text = has_class_label ? own[class_number(label)] : label});
  set.found.where = context.name + " '" + context.root.string() + "'";
  set.labels.sets = sets_.sets();
}

Listing ListRows::take() {
  if (context.records.requires_sets && !context.records.list_sets.empty() && !has_sets_ &&
      num_faults_ == 0)
    context.fail(
        "it has no column that names sets (train, valid, test). Leave --split-name out, "
        "or name the column with --columns split=NAME.");
  set.kind = Dataset::Kind::kLabelList;
  refuse_several();
  if (const std::vector<std::string> none = columns.missing();
      !none.empty() && has_columns && (!lines_.empty() || num_faults_ > 0)) {
    ++num_faults_;
    faults_.insert(faults_.begin(),
                   "it has no column " + joined(none, ", ") + ", which --columns names");
    if (faults_.size() > kMostNamed) faults_.pop_back();
  }
  label_by_flags();
  const std::vector<bool> is_first = first_of_each();
  refuse_faults();
  std::vector<std::string> parts;
  for (std::size_t of = 1; of < num_left_out_.size(); ++of)
    if (num_left_out_[of] > 0)
      parts.push_back(plural(static_cast<long long>(num_left_out_[of]), "image", "images") +
                      " of the set " + std::string(set_name(static_cast<ListedSet>(of))));
  const std::string others = joined(parts, ", ");
  if (set.samples.empty())
    context.fail(others.empty()
                     ? "it names no image."
                     : "it has no image of the set " + joined(context.records.list_sets, " or ") +
                           ", but " + others + ".");
  place(is_first);
  if (set.samples.member(0) == nullptr) {
    set.archives.clear();
    find_files();
  } else {
    set.notes.push_back(
        unpacked_note(context, "", set.archives.front().file, "has its images in it") + ")");
  }
  add_labels();
  if (!others.empty()) set.notes.push_back("left out: " + others);
  if (!has_columns && !context.records.columns.empty())
    set.notes.emplace_back("a list of this form has no columns for --columns to name");
  set.add_note(note_of_repeated(num_repeated_, "", "row", "rows"));
  if (std::ranges::none_of(set.samples, [](const Sample& image) { return image.weight > 0; }))
    set.notes.emplace_back(
        "all images have the weight 0, so nothing can be learned from them: give those that count "
        "a weight above 0, or ignore the column with --columns weight=");
  if (num_missing_groups_ > 0)
    set.notes.push_back("the group of " + plural(num_missing_groups_, "row", "rows") +
                        " is written as programs write a missing value, such as NA, so that their "
                        "images are in no group");
  if (!has_sets_ && !columns.is_given(ListField::kSet)) set.add_note(other_columns.note());
  return {.set = std::move(set)};
}

namespace {

using ListReader = void (*)(ListRows& rows);

// nullptr: no list, by its name.
ListReader reader_of(const fs::path& file) {
  static constexpr std::pair<const char*, ListReader> kReaders[] = {
      {".csv", read_table},        {".tsv", read_table},          {".txt", read_plain_list},
      {".lst", read_mxnet_list},   {".json", read_json_list},     {".jsonl", read_json_list},
      {".ndjson", read_json_list}, {".manifest", read_json_list}, {".parquet", read_parquet_list}};
  const std::string name = file.filename().string();
  for (const auto& [extension, read] : kReaders)
    if (has_extension(name, extension)) return read;
  return nullptr;
}

}  // namespace

bool is_label_list(const fs::path& file) {
  return reader_of(file) != nullptr;
}

bool is_dataset_file(const fs::path& file) {
  const std::string name = file.filename().string();
  return has_archive_extension(name) || has_record_name(name) || is_label_list(file);
}

std::string text_of_list(const DatasetContext& context) {
  try {
    const std::string beginning = first_bytes(context.root, 4);
    if (beginning.starts_with("\xff\xfe") || beginning.starts_with("\xfe\xff") ||
        beginning.find('\0') != beginning.npos)
      context.fail("it is not UTF-8, but probably UTF-16. Save it again as UTF-8.");
    return with_line_feeds(read_text(context.root, kMaxListBytes));
  } catch (const std::system_error& fault) {
    context.fail("it cannot be read: " + why_unreadable(fault) + ".");
  } catch (const std::length_error&) {
    context.fail("it is larger than 2 GiB. Divide it.");
  }
}

Listing list_rows(const DatasetContext& context) {
  ListRows rows(context);
  if (has_extension(context.root.filename().string(), ".json"))
    if (std::optional<Listing> coco = list_coco_file(context, rows.root())) return *std::move(coco);
  try {
    rows.columns.refuse_repeats();
    if (is_folder(context.root))
      read_parquet_list(rows);
    else
      reader_of(context.root)(rows);
  } catch (const RowFault& fault) {
    rows.fault(0, fault.what());
  }
  return rows.take();
}

}  // namespace kiln
