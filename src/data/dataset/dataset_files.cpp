// What the readers of lists, archives and record files share: files are found, opened and checked.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <unordered_map>
#include <unordered_set>

#include "base/content_hash.h"
#include "base/files.h"
#include "base/names.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"
#include "data/archive/record_reader.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/image/image.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxArchives = 65'535;
constexpr std::uint64_t kMaxSourceBytes = 256;

// Refuses files that hold the same images: links to one file, `t.tar` beside `t.tar.gz` or `t.zip`.
void require_each_once(const DatasetContext& context, const std::vector<std::string>& files) {
  std::vector<std::string> identities(files.size());
  in_parallel(files.size(), kScanThreads, [&](std::size_t i) {
    struct stat info {};
    if (::stat(path_of_archive(context, files[i]).c_str(), &info) == 0)
      identities[i] = "/" + std::to_string(info.st_dev) + "/" + std::to_string(info.st_ino);
  });
  std::unordered_map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (const std::string& key : {std::string(packed_stem(files[i])), identities[i]})
      if (const auto [found, is_new] = known.emplace(key, i); !is_new && !key.empty())
        context.fail("'" + files[found->second] + "' and '" + files[i] +
                     "' are one file under two names, or one in two forms. Remove one of them, or "
                     "give each a name of its own.");
}

// The files must be of one set; numbered ones below their total, too. Returns a note if some are
// missing.
std::vector<std::string> require_one_set(const DatasetContext& context,
                                         const std::vector<std::string>& files) {
  constexpr std::size_t kTotalBytes = 5;  // the number of files, at the end of a name
  const auto require_same = [&](bool is_same, const std::string& a, const std::string& b) {
    if (!is_same)
      context.fail("it has files of several datasets: '" + a + "' and '" + b +
                   "'. Put each into its own folder.");
  };
  std::string first, first_file;
  std::size_t count = 0;
  std::map<std::string, std::pair<std::string, std::string>> sets;  // words and files
  for (const std::string& file : files) {
    const std::string_view name = packed_stem(file);
    if (auto [word, rest] = word_of_name(name, kSetWords); !word.empty()) {
      const auto& [known, known_file] = sets.emplace(rest, std::pair(word, file)).first->second;
      require_same(known == word, known_file, file);
    }
    const std::string_view own = numbered_set_name(name);
    if (own.empty()) continue;
    const std::string total(name.substr(name.size() - kTotalBytes));
    if (name.substr(own.size() + 1, kTotalBytes) >= total)
      context.fail("the number of '" + file + "' is not below " + total +
                   ", the number of files. Rename it, or remove it.");
    const std::string whole = std::string(own) + "-of-" + total;
    if (count++ == 0) {
      first = whole;
      first_file = file;
    }
    require_same(whole == first, first_file, file);
  }
  const std::size_t of = count == 0 ? 0 : std::stoul(first.substr(first.size() - kTotalBytes));
  if (count >= of) return {};
  return {"only " + std::to_string(count) + " of the " + std::to_string(of) + " files of '" +
          first.substr(0, first.rfind("-of-")) + "' are present"};
}

constexpr std::size_t kOtherDescriptors = 256;  // beside those of the data set's files
constexpr std::size_t kWorthListing = 32;  // files; in smaller folders, each is checked on its own

// The positions of the samples in a folder, whose name has a slash at its end; empty: the root.
using ListedFolder = std::pair<std::string_view, std::vector<std::uint32_t>>;

// Which of them are no regular files, and why.
ListFaults faults_in(const ListedFolder& folder, const SampleTable& samples, const fs::path& root) {
  const auto& [name, positions] = folder;
  FolderEntries entries;
  if (positions.size() >= kWorthListing) entries = entries_if_readable(root / name);
  ListFaults faults;
  for (const std::uint32_t i : positions) {
    const std::string_view file = samples.file_name(i), own = file.substr(name.size());
    const auto found = std::ranges::lower_bound(entries, own, {}, &FolderEntry::name);
    if (found != entries.end() && found->name == own && found->type == fs::file_type::regular)
      continue;
    struct stat info {};
    if (::stat((root / file).c_str(), &info) != 0)
      faults.emplace(i, errno == ENOENT ? "is missing"
                                        : std::string("cannot be read: ") + std::strerror(errno));
    else if (!S_ISREG(info.st_mode))
      faults.emplace(i, "is not a file");
  }
  return faults;
}

}  // namespace

std::string meant_name(std::string name, const std::function<bool(const std::string&)>& is_there) {
  if (name.find_first_of("\\%") == name.npos || is_there(name)) return name;
  std::ranges::replace(name, '\\', '/');
  const std::string decoded = url_decoded(name);
  return decoded != name && !is_there(name) && is_there(decoded) ? decoded : name;
}

std::string with_line_feeds(std::string text) {
  if (text.find('\n') == text.npos) std::ranges::replace(text, '\r', '\n');
  return text;
}

fs::path path_of_archive(const DatasetContext& context, const std::string& archive) {
  return archive.empty() ? context.root : context.root / archive;
}

std::vector<std::string> check_packed(const DatasetContext& context, Dataset::Kind kind,
                                      const std::vector<std::string>& files) {
  const bool are_records = kind == Dataset::Kind::kRecords;
  if (files.size() > kMaxArchives)
    context.fail(std::string("it contains more than 65535 ") +
                 (are_records ? kRecordFileKind : kArchiveKind) +
                 "s. Pack the images into larger ones.");
  for (const std::string& file : files)
    if (are_records && !is_utf8(file))
      context.fail("the name of the file '" + file + "' is not UTF-8. Rename it.");
  allow_open_files(files.size() + kOtherDescriptors);
  require_each_once(context, files);
  return require_one_set(context, files);
}

Listing merge_listings(const DatasetContext& context, const std::vector<std::string>& files,
                       std::vector<Listing> listings, FoundLabels given) {
  Listing all;
  Dataset& set = all.set;
  set.found = std::move(given);
  std::map<RawLabel, int> known;
  for (std::size_t f = 0; f < files.size(); ++f) {
    Dataset& part = listings[f].set;
    const std::string prefix = files.size() == 1 ? "" : files[f] + "/";
    std::vector<int> labels;
    for (const RawLabel& label : part.found.labels) {
      const auto [place, is_new] = known.emplace(label, static_cast<int>(known.size()));
      labels.push_back(place->second);
      if (!is_new) continue;
      set.found.labels.push_back(label);
      set.found.places.push_back(quoted_path(path_of_archive(context, files[f]).filename()));
    }
    for (std::size_t i = 0; i < part.samples.size(); ++i) {
      const ArchiveMember* found = part.samples.member(i);
      ArchiveMember member = found == nullptr ? ArchiveMember() : *found;
      member.archive = static_cast<std::uint16_t>(f);
      const int label = part.samples.label(i);
      set.samples.add(prefix + std::string(part.samples.file_name(i)),
                      label < 0 ? label : labels[label], found == nullptr ? nullptr : &member);
    }
    all.unread_labels = std::max(all.unread_labels, listings[f].unread_labels);
    all.left_out.add_all(listings[f].left_out, prefix);
    std::ranges::move(part.archives, std::back_inserter(set.archives));
    std::ranges::move(part.notes, std::back_inserter(set.notes));
  }
  return all;
}

OpenPacked open_packed(const DatasetContext& context, const std::string& archive,
                       const char* kind) {
  return with_archive_named(context, archive, kind, [&]() -> OpenPacked {
    const fs::path path =
        context.contents.empty() ? path_of_archive(context, archive) : context.contents;
    OpenFile file(path);
    if (is_compressed(file) && !is_record_file(file)) return {unpacked(path), true};
    return {std::move(file), false};
  });
}

bool is_record_file(const OpenFile& file) {
  return record_format(file.bytes_at(0, kTfRecordHeaderBytes)).has_value();
}

fs::path path_beside(const DatasetContext& context, const char* name) {
  return (is_folder(context.root) ? context.root : context.root.parent_path()) / name;
}

PackedFiles find_packed_files(const DatasetContext& context) {
  using Type = fs::file_type;
  using Reason = LeftOut::Reason;
  PackedFiles files;
  std::string lost;
  for (const auto& [name, type, may_be_link] : entries_if_readable(context.root)) {
    if (is_never_data(name)) continue;
    if (type == Type::directory || has_image_extension(name)) return {};
    const bool is_archive = has_archive_extension(name), is_list = has_extension(name, ".parquet"),
               is_packed = is_archive || is_list || has_record_name(name);
    if (type == Type::not_found && is_packed)
      lost = name;
    else if (type != Type::regular)
      files.left_out.add(type == Type::not_found ? Reason::kBrokenLink : Reason::kDevice,
                         std::string(name));
    else if (is_packed)
      (is_archive ? files.archives : is_list ? files.lists : files.records).emplace_back(name);
    else if (name != kClassesName && name != kSourceName && !has_extension(name, ".idx"))
      files.left_out.add_file(name);
  }
  if (!lost.empty() && !(files.archives.empty() && files.records.empty() && files.lists.empty()))
    context.fail("'" + lost +
                 "' is a broken or circular link. Restore the file that it "
                 "leads to, or remove the link.");
  return files;
}

std::string unpacked_note(const DatasetContext& context, const std::string& archive,
                          const OpenFile& file, const char* why) {
  return "'" + path_of_archive(context, archive).string() + "' " + why + ": it uses " +
         std::to_string(file.size() >> 20) + " MiB of '" + fs::temp_directory_path().string() +
         "' until this process ends (set TMPDIR to use another folder";
}

std::vector<std::string> read_class_lines(const fs::path& file, const std::string& shown,
                                          const DatasetContext& context) {
  try {
    return class_lines(read_file(file, kMaxClassesBytes), shown, context);
  } catch (const std::system_error& fault) {
    context.fail(shown + " cannot be read: " + why_unreadable(fault) + ".");
  } catch (const std::length_error&) {
    context.fail(shown + " is larger than 64 MiB: give one class name per line.");
  }
}

std::vector<std::string> class_lines(std::string_view bytes, const std::string& shown,
                                     const DatasetContext& context) {
  std::vector<std::string> classes;
  std::istringstream text{with_line_feeds(std::string(without_byte_order_mark(bytes)))};
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!is_clean(line))
      context.fail(
          "a class name in " + shown + ", '" + line.substr(0, 200) +
          "', is not UTF-8, or has control characters. Write one name per line, in UTF-8.");
    if (classes.size() == kMaxClasses)
      context.fail(shown + " has more than 100000 lines. Use fewer classes.");
    classes.push_back(line);
  }
  while (!classes.empty() && classes.back().empty()) classes.pop_back();
  if (classes.empty()) context.fail(shown + " is empty. Give one class name per line.");
  if (const std::string_view first = trimmed(classes.front());
      first == "{" || first == "[" || first.starts_with("{\"") || first.starts_with("[\""))
    context.fail(shown + " is JSON. Give one class name per line, in the order of the numbers.");
  if (const auto empty = std::ranges::find(classes, ""); empty != classes.end())
    context.fail(shown + ", line " + std::to_string(empty - classes.begin() + 1) +
                 ", is empty. Name the class.");
  // Two classes of one name would become one. "Others" stands for ids without a class.
  std::unordered_map<std::string_view, std::size_t> lines;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto [found, is_new] = lines.emplace(classes[i], i + 1);
    if (!is_new && classes[i] != "Others")
      context.fail(shown + " has '" + excerpt(classes[i]) + "' in lines " +
                   std::to_string(found->second) + " and " + std::to_string(i + 1) +
                   ". Use distinct names.");
  }
  return classes;
}

std::string fault_of_class_line(std::string_view name, bool is_first) {
  if (name.find('\n') != name.npos) return "contains an end of line";
  if (name.ends_with('\r')) return "ends with a carriage return";
  if (is_first && without_byte_order_mark(name) != name) return "begins with a byte-order mark";
  return {};
}

void read_source(const DatasetContext& context, Dataset& set) {
  const fs::path file = path_beside(context, kSourceName);
  if (!is_there(file)) return;
  try {
    std::string source = read_text(file, kMaxSourceBytes);
    source.erase(source.find_last_not_of(" \r\n") + 1);
    set.is_image_directory = source + '\n' == kImageDirectorySource;
  } catch (const std::length_error&) {  // other words
  } catch (const std::system_error& fault) {
    context.fail(std::string(kSourceName) + " cannot be read: " + why_unreadable(fault) + ".");
  }
}

void fail_archive(const DatasetContext& context, const std::string& archive, const char* kind) {
  const std::string shown =
      std::string("the ") + kind + " '" + path_of_archive(context, archive).string() + "' ";
  try {
    throw;
  } catch (const SpoolFault& fault) {
    context.fail(shown + "is compressed, but the folder for temporary files cannot hold it: " +
                     fault.what() +
                     ". Set TMPDIR to a folder on a local disk with enough space, or unpack the " +
                     kind + ".",
                 ErrorCode::kUserError);
  } catch (const std::system_error& fault) {
    context.fail(shown + "cannot be read: " + fault.code().message() +
                 ". Check the file and its permissions.");
  } catch (const std::runtime_error& fault) {  // ArchiveFault, LabelFault, ImageFault, RecordFault
    context.fail(shown + "cannot be used: " + fault.what() + ". Create it again, or remove it.");
  }
}

ListedFiles::ListedFiles(const Listing& listing, std::string_view base)
    : archive_(&listing.set.archives.front()) {
  for (const SampleTable* table : {&listing.set.samples, &listing.others})
    for (std::size_t i = 0; i < table->size(); ++i)
      if (std::string_view name = table->file_name(i); name.starts_with(base))
        members_.emplace_back(name.substr(base.size()), table->member(i));
  std::ranges::sort(members_);
}

const ArchiveMember* ListedFiles::find(std::string_view name) const {
  const std::string normal = normal_name(name);
  const auto found = std::ranges::lower_bound(members_, std::string_view(normal), {},
                                              [](const auto& member) { return member.first; });
  return found != members_.end() && found->first == normal ? found->second : nullptr;
}

bool ListedFiles::holds(std::string_view name) const {
  if (archive_ != nullptr) return find(name) != nullptr;
  return fs::exists(fs::file_status(type_of_entry(root_ / name)));
}

std::vector<std::string> ListedFiles::json_names() const {
  const FolderEntries entries = archive_ == nullptr ? FolderEntries(root_) : FolderEntries();
  std::vector<std::string_view> names;
  for (const FolderEntry& entry : entries) names.push_back(entry.name);
  for (const auto& [name, member] : members_)
    if (name.find('/') == name.npos) names.push_back(name);
  std::unordered_set<std::string_view> keys;
  for (const std::string_view name : names)
    if (has_image_extension(name)) keys.insert(key_of(name));
  std::vector<std::string> found;
  for (const std::string_view name : names)
    if (has_extension(name, ".json") && !name.starts_with('.') && !keys.contains(key_of(name)))
      found.emplace_back(name);
  return found;
}

std::string ListedFiles::first_bytes(const std::string& name, std::size_t count) const {
  if (archive_ == nullptr) return kiln::first_bytes(root_ / name, count);
  const ArchiveMember* member = find(name);
  if (member == nullptr) throw std::system_error(ENOENT, std::generic_category(), name);
  std::string bytes;
  read_member(archive_->file, *member, count, bytes);
  return bytes;
}

std::string ListedFiles::read_text(const std::string& name, std::uint64_t max_bytes) const {
  if (archive_ == nullptr) return kiln::read_text(root_ / name, max_bytes);
  if (const ArchiveMember* member = find(name); member != nullptr && member->size > max_bytes)
    throw std::length_error(name + " is too large");
  return std::string(without_byte_order_mark(first_bytes(name, SIZE_MAX)));
}

ListFaults ListedFiles::find_images(Dataset& set) const {
  ListFaults faults;
  if (archive_ != nullptr) {
    SampleTable found;
    for (std::size_t i = 0; i < set.samples.size(); ++i) {
      if (const ArchiveMember* member = find(set.samples.file_name(i)))
        found.push_back(set.samples[i], member);
      else
        faults.emplace(i, "is missing");
    }
    if (!faults.empty()) return faults;
    set.samples = std::move(found);
    set.archives.push_back({archive_->name, archive_->file.duplicate()});
    return faults;
  }
  std::map<std::string_view, std::vector<std::uint32_t>> groups;
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const std::string_view file = set.samples.file_name(i);
    groups[file.substr(0, file.rfind('/') + 1)].push_back(static_cast<std::uint32_t>(i));
  }
  const std::vector<ListedFolder> folders(std::move_iterator(groups.begin()),
                                          std::move_iterator(groups.end()));
  std::mutex mutex;
  in_parallel(folders.size(), kScanThreads, [&](std::size_t i) {
    ListFaults found = faults_in(folders[i], set.samples, root_);
    const std::scoped_lock lock(mutex);
    faults.merge(found);
  });
  return faults;
}

std::vector<std::string> ListedFiles::unlisted(const SampleTable& samples) const {
  // Hashes of names, which take less memory.
  std::vector<std::uint64_t> listed = list_from(
      samples, [](const Sample& image) { return content_hash(normal_name(image.file_name)); });
  std::ranges::sort(listed);
  const auto is_listed = [&](std::string_view name) {
    return std::ranges::binary_search(listed, content_hash(name));
  };
  std::vector<std::string> found;
  for (const auto& [name, member] : members_)
    if (has_image_extension(name) && !is_listed(name)) found.emplace_back(name);
  if (archive_ != nullptr) return found;
  const fs::path root = fs::canonical(root_);
  std::set<fs::path> entered;
  std::mutex mutex;
  std::vector<std::string> folders = {""};  // with a slash at the end
  while (!folders.empty()) {
    std::vector<std::string> inner;
    in_parallel(folders.size(), kScanThreads, [&](std::size_t i) {
      const std::string& folder = folders[i];
      const FolderEntries entries = entries_if_readable(root_ / folder);
      for (const auto& [name, type, may_be_link] : entries) {
        std::string path = folder + std::string(name);
        if (is_never_data(name)) continue;
        const bool is_image = type == fs::file_type::regular && has_image_extension(name);
        if (!(is_image ? !is_listed(path) : type == fs::file_type::directory)) continue;
        const std::scoped_lock lock(mutex);
        if (is_image) {
          found.push_back(std::move(path));
          continue;
        }
        if (may_be_link) {
          std::error_code fault;
          const fs::path real = fs::canonical(root_ / path, fault);
          if (fault || is_inside(real, root) || is_inside(root, real)) continue;
          if (!entered.insert(real).second) continue;
        }
        inner.push_back(path + "/");
      }
    });
    folders = std::move(inner);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace kiln
