#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <span>
#include <utility>

#include "base/files.h"
#include "base/names.h"
#include "base/text.h"
#include "data/dataset/listing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnusedName = "Others";  // the designer's, of ids without a category

using Reason = LeftOut::Reason;

// In the order of Reason; the text of kUnread is that of its kind.
constexpr std::array<const char*, static_cast<std::size_t>(Reason::kOther) + 1> kTexts = {
    "links to a folder above them, skipped",
    "broken or circular links, skipped",
    "links out of the archive, skipped",
    "links to folders that are already included, skipped",
    "folders without images, which are not classes",
    "folders inside class folders, skipped",
    "images in folders inside class folders, skipped",
    "images next to the class folders, skipped",
    "lists, archives and record files next to the class folders, not read",
    "lists next to the class folders that name their images, which nevertheless have the names of "
    "the folders as classes, unless a list is given as the data or as --labels",
    "lists in the archive, not read (if one has the labels, unpack the archive and give it)",
    "images that belong to the sample of another image, skipped",
    "files that are there twice with the same content, used once",
    "label files that belong to no image",
    "records with several labels, of which only the first is used",
    "images that are not in the list, skipped",
    "images whose names begin with a dot, skipped",
    "pipes, sockets and devices, skipped",
    "",
    "files without an image extension, skipped",
};

// Whether the names are consecutive numbers, or dates.
bool are_consecutive(const std::vector<std::string>& names) {
  static const std::regex kDate("(19|20)[0-9]{2}[-_.]?(0[1-9]|1[0-2])([-_.]?[0-3][0-9])?"),
      kNumber("[0-9]{1,18}");
  const auto all_are = [&](const std::regex& form) {
    return std::ranges::all_of(names, [&](auto& name) { return std::regex_match(name, form); });
  };
  if (all_are(kDate) || !all_are(kNumber)) return all_are(kDate);
  std::set<std::int64_t> numbers;
  for (const std::string& name : names) numbers.insert(std::stoll(name));
  return numbers.size() == names.size() &&
         *numbers.rbegin() - *numbers.begin() == std::ssize(names) - 1;
}

}  // namespace

// ---- what is left out ----

void FewNames::add(std::string name) {
  ++count_;
  if (names_.size() < kMostNamed) names_.push_back(std::move(name));
}

void FewNames::add_all(const FewNames& inside, const std::string& prefix) {
  count_ += inside.count_;
  for (const std::string& name : inside.names_)
    if (names_.size() < kMostNamed) names_.push_back(prefix + name);
}

std::string FewNames::quoted() const {
  return "'" + joined(names_, "', '") + "'" + (count_ > names_.size() ? ", …" : "");
}

void LeftOut::add_file(std::string_view path) {
  const UnreadKind* kind = unread_kind_of_name(path);
  groups_[{kind == nullptr ? Reason::kOther : Reason::kUnread, kind}].add(std::string(path));
}

void LeftOut::add_all(const LeftOut& inside, const std::string& prefix) {
  for (const auto& [group, names] : inside.groups_) groups_[group].add_all(names, prefix);
}

void LeftOut::forget(Reason why) {
  std::erase_if(groups_, [&](const auto& group) { return group.first.first == why; });
}

FewNames LeftOut::of(Reason why) const {
  const auto found = groups_.find({why, nullptr});
  return found == groups_.end() ? FewNames() : found->second;
}

std::vector<std::string> LeftOut::notes(Reason first, Reason last) const {
  std::vector<std::string> notes;
  for (const auto& [group, names] : groups_) {
    const auto& [why, kind] = group;
    if (why < first || why > last) continue;
    const std::string text =
        kind == nullptr ? kTexts[static_cast<std::size_t>(why)] : unread_clause(kind->many, *kind);
    notes.push_back(text + ": " + grouped(names.count()) + " (" + names.quoted() + ")");
  }
  return notes;
}

std::string LeftOut::instead_of_images() const {
  const std::vector<std::string> pictures = notes(Reason::kUnread, Reason::kUnread);
  return pictures.empty() ? "it contains no images"
                          : "it contains no images that Kiln reads: " + joined(pictures, "; ");
}

// ---- options ----

std::string without_effect(const std::vector<std::string>& options, const std::string& why) {
  return joined(options, ", ") + (options.size() == 1 ? " has" : " have") + " no effect: " + why;
}

std::string note_of_unused(const RecordOptions& records, const std::vector<const Dataset*>& sets,
                           std::vector<std::string> others) {
  const auto is_list = [](const Dataset& set) { return set.kind == Dataset::Kind::kLabelList; };
  struct Use {
    const char* text;
    bool is_given;
    bool (*is_for)(const Dataset& set);
  };
  const Use uses[] = {
      {"--columns (for lists of labels)", !records.columns.empty(), is_list},
      {"--list-root (for lists of labels)", !records.list_roots.empty(), is_list},
      {"--split-name (for lists of labels)", records.requires_sets && !records.list_sets.empty(),
       is_list},
      {"--record-keys (for record files)", records.keys != RecordKeys{},
       [](const Dataset& set) { return set.kind == Dataset::Kind::kRecords || set.is_stream(); }},
      {"--first-label (for labels that are numbers)", records.first_label.has_value(),
       [](const Dataset& set) { return set.first_label || set.is_stream(); }}};
  for (const Use& use : uses)
    if (use.is_given && std::ranges::none_of(sets, [&](auto* set) { return use.is_for(*set); }))
      others.emplace_back(use.text);
  if (others.empty()) return "";
  std::vector<std::string> forms;
  for (const Dataset* set : sets)
    if (std::string form = describe(set->kind); std::ranges::count(forms, form) == 0)
      forms.push_back(std::move(form));
  return without_effect(others, "the data are of the form " + joined(forms, " and "));
}

void report_unused(const RecordOptions& records, Dataset& set) {
  set.add_note(note_of_unused(records, {&set}));
}

// ---- folders that may be no classes ----

std::string names_of_unread_labels(const SampleTable& images, const std::string& prefix,
                                   const std::function<bool(const std::string& name)>& is_file) {
  constexpr std::size_t kLookedAt = 10, kNamed = 2;
  constexpr std::string_view kImages = "images/", kLabels = "labels/";  // as YOLO has them
  const std::size_t count = std::min(kLookedAt, images.size());
  std::vector<std::string> found;
  for (std::size_t k = 0; k < count && 2 * (k - found.size()) < count; ++k) {
    const std::string image = prefix + std::string(images.file_name(k * images.size() / count));
    std::string stem(without_extension(image)), other = stem;
    if (const std::size_t at = other.rfind(kImages); at != other.npos)
      other.replace(at, kImages.size(), kLabels);
    const std::size_t before = found.size();
    for (const char* ending : {".txt", ".json", ".xml"})
      for (const std::string& text : {stem + ending, image + ending, other + ending})
        if (found.size() == before && is_file(text)) found.push_back(text.substr(prefix.size()));
  }
  if (2 * found.size() <= count) return {};
  found.resize(std::min(found.size(), kNamed));
  return quoted_names(found, kNamed);
}

void report_unread_labels(const DatasetContext& context, const std::string& names, Dataset& set) {
  const bool are_named = !set.found.labels.empty() || !context.records.classes_file.empty();
  if (names.empty() || are_named || !set.labeled()) return;
  const std::string note =
      "text files have the names of images, and probably their labels, which are not read (" +
      names + "): the folders " + quoted_names(set.classes, 5) +
      " are taken for the classes. Give a list of the images with their labels";
  if (context.is_for_training && set.classes.size() > 1 && are_consecutive(set.classes))
    context.fail(note + ". If the folders are the classes, name them in --classes FILE.",
                 ErrorCode::kNotLabeledDataset);
  set.notes.push_back(note);
}

void add_note_of_folders(const DatasetContext& context, Dataset& set) {
  // Of images, of what is known of their pixels, and of what else public datasets have.
  constexpr auto kBesideSets = std::to_array<std::string_view>(
      {"image",  "images",     "img",          "imgs",  "mask",         "masks",  "label",
       "labels", "annotation", "annotations",  "extra", "unlabeled",    "query",  "gallery",
       "meta",   "bounding",   "box",          "bbox",  "jpg",          "png",    "jpegimages",
       "input",  "segmim",     "segmentation", "class", "object",       "trimap", "trimaps",
       "ground", "truth",      "groundtruth",  "gt",    "segmentations"});
  constexpr auto kParts = std::to_array<std::string_view>(
      {"part", "fold", "batch", "split", "chunk", "shard", "subset", "images"});
  const bool has_folders =
      set.kind == Dataset::Kind::kClassFolders || set.kind == Dataset::Kind::kArchives;
  if (!has_folders || set.classes.size() < 2 || !set.found.labels.empty()) return;
  // In how many ways the names use the words, if that is all they differ in; otherwise 0.
  const auto words_in_names = [&](std::span<const std::string_view> words) {
    std::set<std::string> founds, rests;
    for (std::string rest : set.classes) {
      std::string found;
      for (WordOfName next = word_of_name(rest, words); !next.word.empty();
           next = word_of_name(rest, words)) {
        found += next.word + " ";
        rest = next.rest;
      }
      founds.insert(std::move(found));
      rests.insert(std::move(rest));
    }
    return founds.contains("") || rests.size() > 1 ? 0 : founds.size();
  };
  std::vector<std::string_view> all(kSetWords.begin(), kSetWords.end());
  all.insert(all.end(), kBesideSets.begin(), kBesideSets.end());
  std::vector<std::string> names;  // that are those of sets
  std::set<std::string> words;
  for (const std::string& name : set.classes) {
    const WordOfName found = word_of_name(name, kSetWords);
    if (found.word.empty() || (!found.rest.empty() && found.rest != "set")) continue;
    names.push_back(name);
    words.insert(found.word);
  }
  const bool may_be_vehicle = words.contains("train");  // beside a bus
  bool are_sets = words_in_names(all) > 1;
  std::string note;
  if (are_sets || words_in_names(kSetWords) + words_in_names(kParts) == 1) {
    note = "the folders have the names of " + std::string(are_sets ? "sets" : "parts") +
           " of a dataset (" + quoted_names(set.classes, kMostNamed) +
           "), and not of classes: put the images into one folder for each class, or give a list "
           "with their labels. If these are the classes, name them in --classes FILE";
  } else if (are_sets = words.size() > 1; are_sets || (!words.empty() && !may_be_vehicle)) {
    note = "folders beside those of classes have the names of sets of a dataset (" +
           quoted_names(names, kMostNamed) +
           "): move them out, and give the classes of each set as --train-data-path and "
           "--valid-data-path. If they are classes, name all in --classes FILE";
  }
  if (!note.empty()) set.notes.insert(set.notes.begin(), note);
  if (are_sets && context.is_for_training)
    context.fail(joined(set.notes, "; ") + ".", ErrorCode::kNotLabeledDataset);
}

std::string depth_advice(const Dataset& set) {
  if (set.kind != Dataset::Kind::kUnlabeledFolder) return "";
  const auto folder_of = [](const Sample& image) {
    return fs::path(image.file_name).parent_path();
  };
  const auto is_of_test = [](const fs::path& part) {
    const std::string word = word_of_name(part.string(), kSetWords).word;
    return !word.empty() && !word.starts_with("train");
  };
  // The example is no set to test with if there is another.
  const SampleTable& samples = set.samples;
  auto image = std::ranges::find_if(samples, [&](const Sample& one) {
    const fs::path folder = folder_of(one);
    return !folder.empty() && std::none_of(folder.begin(), folder.end(), is_of_test);
  });
  if (image == samples.end())
    image =
        std::ranges::find_if(samples, [&](const Sample& one) { return !folder_of(one).empty(); });
  if (image == samples.end()) return "";
  for (const char* valid : kValidationFolders)
    if (fs::is_directory(set.root / "train") && fs::is_directory(set.root / valid))
      return "It holds two datasets: give --train-data-path '" + (set.root / "train").string() +
             "' and --valid-data-path '" + (set.root / valid).string() + "'.";
  return "Its images are more than one folder deep: give the folder that contains the class "
         "folders, such as '" +
         (set.root / folder_of(*image).parent_path()).string() +
         "', or move the images up, so that the folder of each is its class.";
}

// ---- classes ----

std::string note_of_missing_values(const Dataset& set) {
  if (set.kind == Dataset::Kind::kCoco || set.kind == Dataset::Kind::kImageDirectory ||
      !set.found.named_by.empty())
    return {};
  std::vector<std::string> found;
  const std::vector<long long> counts = counts_by_class(set, set.classes.size());
  for (std::size_t id = 0; id < counts.size(); ++id)
    if (counts[id] > 0 && is_missing_value(set.classes[id]))
      found.push_back("'" + set.classes[id] + "' (" + plural(counts[id], "image", "images") + ")");
  if (found.empty()) return {};
  return "classes are named as programs write a missing value: " +
         few_of(std::move(found), kMostNamed) +
         ". Leave these images out, or their labels empty, if they have no class, or name the "
         "classes with --classes FILE";
}

std::string name_unused_ids(std::vector<std::string>& classes, const std::string& file) {
  const std::set<std::string> taken(classes.begin(), classes.end());
  std::vector<std::string> unused;
  std::string first;
  for (std::size_t id = 0; id < classes.size(); ++id) {
    std::string& name = classes[id];
    if (!name.empty()) continue;
    name = kUnusedName;
    if (taken.contains(name)) name += " (id " + std::to_string(id) + ")";
    while (taken.contains(name)) name += "_";
    if (unused.empty()) first = name;
    unused.push_back(std::to_string(id));
  }
  if (unused.empty()) return {};
  const std::string count = std::to_string(unused.size());
  return file + " has no category with id " + few_of(std::move(unused), kMostNamed) + ": " + count +
         " of the " + std::to_string(classes.size()) +
         " classes have no images and are named as '" + first +
         "'. Number the categories from 0 without gaps to be rid of them";
}

std::string note_of_repeated(std::size_t count, const std::string& list, const char* one,
                             const char* several) {
  if (count == 0) return {};
  return list + std::to_string(count) + " " +
         (count == 1 ? one + std::string(" repeats") : several + std::string(" repeat")) +
         " an image, and " + (count == 1 ? "counts" : "count") + " once";
}

}  // namespace kiln
