#include "base/output_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <exception>
#include <set>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kJournalName = ".kiln-journal";
// The journal is the magic, followed by two names for each file: its temporary name, or an empty
// one if the file is to be removed, and its final name. Names are relative to the folder, and each
// ends with a zero byte.
constexpr std::string_view kMagic{"kiln-journal-1\0", 15};
constexpr std::uint64_t kMaxJournalBytes = std::uint64_t{1} << 30;

struct Entry {
  std::string temporary, name;  // an empty `temporary`: the file is to be removed
};
using Journal = std::vector<Entry>;

[[noreturn]] void fail_at(const fs::path& folder, const std::string& name, int error) {
  fail_output_folder(folder, "cannot be changed: '" + name + "': " + system_words(error),
                     "Check its permissions and that its device is healthy.");
}

bool has_entry(const fs::path& path) {
  return fs::exists(fs::file_status(type_of_entry(path)));
}

void remove_if_there(const fs::path& folder, const std::string& name) {
  if (::unlink((folder / name).c_str()) != 0 && errno != ENOENT) fail_at(folder, name, errno);
}

// Returns true if `name` lies in or below the folder without going through links. The journal is
// untrusted, since the folder may be someone else's.
bool stays_inside(const fs::path& folder, const std::string& name) {
  if (!fault_of_relative_path(name).empty()) return false;
  for (fs::path parent = fs::path(name).parent_path(); !parent.empty();
       parent = parent.parent_path())
    if (type_of_entry(folder / parent) != fs::file_type::directory) return false;
  return true;
}

bool is_plausible(const fs::path& folder, const Entry& entry) {
  if (!stays_inside(folder, entry.name)) return false;
  if (entry.temporary.empty()) return true;
  const fs::path temporary = entry.temporary;
  return stays_inside(folder, entry.temporary) &&
         temporary.parent_path() == fs::path(entry.name).parent_path() &&
         is_temporary_name(temporary.filename().string());
}

Journal read_journal(const fs::path& folder) {
  std::string bytes;
  try {
    bytes = read_file(folder / kJournalName, kMaxJournalBytes);
  } catch (const std::system_error& fault) {
    fail_at(folder, std::string(kJournalName), fault.code().value());
  } catch (const std::length_error&) {
  }
  Journal journal;
  bool good = bytes.starts_with(kMagic) && bytes.ends_with('\0');
  std::string_view rest = bytes;
  rest.remove_prefix(good ? kMagic.size() : rest.size());
  const auto take = [&] {
    const std::size_t end = rest.find('\0');
    good = good && end != rest.npos;
    std::string name(rest.substr(0, end));
    rest.remove_prefix(good ? end + 1 : rest.size());
    return name;
  };
  while (good && !rest.empty()) {
    Entry entry{take(), ""};
    entry.name = take();
    good = good && is_plausible(folder, entry);
    journal.push_back(std::move(entry));
  }
  if (!good || journal.empty() || journal.back().temporary.empty())
    fail_output_folder(
        folder, "was left by a killed run, and its " + std::string(kJournalName) + " is damaged",
        "Empty it or choose another output.");
  return journal;
}

std::set<fs::path> folders_of(const fs::path& folder, const Journal& journal) {
  std::set<fs::path> folders{folder};
  for (const Entry& entry : journal) folders.insert((folder / entry.name).parent_path());
  return folders;
}

void end_journal(const fs::path& folder) {
  remove_if_there(folder, std::string(kJournalName));
  sync_folder(folder);
}

// If this is interrupted, it can be run again from the start. Files are renamed in order, so once
// the last one has been renamed, all of them have.
void put_in_place(const fs::path& folder, const Journal& journal) {
  if (has_entry(folder / journal.back().temporary)) {
    remove_if_there(folder, journal.back().name);
    sync_folder(folder);
    for (const auto& [temporary, name] : journal)
      if (temporary.empty())
        remove_if_there(folder, name);
      else if (::rename((folder / temporary).c_str(), (folder / name).c_str()) != 0 &&
               (errno != ENOENT || !has_entry(folder / name)))
        fail_at(folder, name, errno);
  }
  for (const fs::path& changed : folders_of(folder, journal)) sync_folder(changed);
  end_journal(folder);
}

void discard(const fs::path& folder, const Journal& journal) {
  for (const auto& [temporary, name] : journal) {
    if (temporary.empty()) continue;
    remove_if_there(folder, temporary);
    remove_if_there(folder, name);
  }
  end_journal(folder);
}

}  // namespace

OutputFolder::OutputFolder(fs::path folder, Interrupted interrupted)
    : folder_(std::move(folder)), created_(new std::vector<fs::path>, remove_if_empty) {
  for (fs::path made = folder_; !made.empty() && !is_there(made); made = made.parent_path())
    created_->push_back(made);
  make_folders(folder_);
  lock_ = Descriptor(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock_.number() >= 0 && lock_soon(lock_.number(), {}) == LockResult::kInUse) {
    created_->clear();  // the other run needs them
    fail_output_folder(folder_, "is in use by another run, which is writing to it",
                       "Wait until it ends, or choose another output.");
  }
  if (!is_half_replaced(folder_)) return;
  const Journal journal = read_journal(folder_);
  (interrupted == Interrupted::kFinish ? put_in_place : discard)(folder_, journal);
}

void OutputFolder::remove_if_empty(std::vector<fs::path>* folders) {
  std::error_code fault;
  if (std::uncaught_exceptions() > 0 && !folders->empty()) {
    std::vector<fs::path> inside;
    for (fs::recursive_directory_iterator entry(folders->front(), fault), end;
         !fault && entry != end; entry.increment(fault))
      inside.push_back(entry->path());
    folders->insert(folders->begin(), inside.rbegin(), inside.rend());
    for (const fs::path& folder : *folders) ::rmdir(folder.c_str());  // of an empty folder only
  }
  delete folders;
}

void OutputFolder::prepare() const {
  remove_leftovers(folder_);
  rehearse_write(folder_ / "probe");
}

void OutputFolder::require_empty() const {
  std::error_code fault;
  for (const std::string& name : names_in(folder_, fault))
    if (!is_ignored_name(name))
      fail_output_folder(folder_, "is not empty ('" + name + "' is in it)",
                         "Empty it, or choose another output.");
  if (fault) fail_output_folder(folder_, "cannot be read: " + fault.message(), "Choose another.");
}

void OutputFolder::replace(std::vector<DurableFile> files,
                           const std::vector<fs::path>& removed) const {
  std::set<fs::path> names;
  for (const DurableFile& file : files) names.insert(file.final_path().lexically_relative(folder_));
  Journal journal;
  for (const fs::path& name : removed)
    if (!names.contains(name)) journal.push_back({"", name.string()});
  for (DurableFile& file : files) {
    const fs::path name = file.final_path().lexically_relative(folder_);
    if (type_of_entry(file.final_path()) == fs::file_type::directory)
      fail_at(folder_, name.string(), EISDIR);
    file.finish();
    journal.push_back({file.temporary_path().lexically_relative(folder_).string(), name.string()});
  }
  for (const fs::path& changed : folders_of(folder_, journal)) sync_folder(changed);
  DurableFile list(folder_ / kJournalName);
  list.write(kMagic);
  for (const auto& [temporary, name] : journal)
    list.write(temporary + std::string(1, '\0') + name + std::string(1, '\0'));
  try {
    list.commit();
  } catch (...) {
    ::unlink(list.final_path().c_str());
    throw;
  }
  for (DurableFile& file : files) file.release();
  put_in_place(folder_, journal);
}

void OutputFolder::replace(const std::vector<OutputFile>& files,
                           const std::vector<fs::path>& removed) const {
  std::vector<DurableFile> complete;
  complete.reserve(files.size());
  for (const auto& [name, bytes] : files) {
    make_folders((folder_ / name).parent_path());
    complete.push_back(complete_file(folder_ / name, bytes));
  }
  replace(std::move(complete), removed);
}

fs::path path_of_before(const fs::path& folder) {
  std::error_code fault;
  const fs::path itself = fs::canonical(folder, fault);
  struct stat inside {
  }, outside{};
  if (fault || ::stat(itself.c_str(), &inside) != 0 ||
      ::stat(itself.parent_path().c_str(), &outside) != 0 || inside.st_dev != outside.st_dev ||
      inside.st_ino == outside.st_ino || ::access(itself.parent_path().c_str(), W_OK | X_OK) != 0)
    return {};
  return itself.string() + ".before";
}

bool is_half_replaced(const fs::path& folder) {
  return has_entry(folder / kJournalName);
}

void fail_output_folder(const fs::path& folder, const std::string& fault,
                        const std::string& remedy) {
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "The output folder " + quoted_path(folder) + " " + fault + ". " + remedy);
}

}  // namespace kiln
