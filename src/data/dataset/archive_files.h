// What the readers of archives and of record files share: how their errors name a file, and files
// of class names.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "data/archive/archive.h"
#include "data/dataset/readers.h"

namespace kiln {

constexpr std::size_t kMaxArchives = 65'535;
constexpr std::size_t kMaxClasses = 100'000;  // ids have five digits

// `archive` is relative to the root; empty: the root itself.
std::filesystem::path path_of_archive(const DatasetContext& context, const std::string& archive);

// Every archive stays open, which may exceed the default limit of 1024 files.
void allow_open_files(std::size_t count);

// "'PATH' is compressed: it uses N MiB of 'FOLDER' until this process ends (set TMPDIR to use
// another folder", which the caller ends.
std::string unpacked_note(const DatasetContext& context, const std::string& archive,
                          const OpenFile& file);

// The lines of a file, which may begin with a byte-order mark and end with carriage returns.
// `shown` is its name in errors. Error kInvalidDataset.
std::vector<std::string> read_class_lines(const std::filesystem::path& file,
                                          const std::string& shown, const DatasetContext& context);

// Throws Error kInvalidDataset or, of kSpool, kUserError. `kind` is "archive" or "record file".
enum class ArchiveTrouble { kUnusable, kSpool, kUnreadable };
[[noreturn]] void fail_archive(const DatasetContext& context, const std::string& archive,
                               const std::string& kind, ArchiveTrouble trouble,
                               const std::string& reason);

// Adds the file's name to errors of `action`.
template <typename Action>
auto with_archive_named(const DatasetContext& context, const std::string& archive,
                        const std::string& kind, Action&& action) {
  try {
    return action();
  } catch (const ArchiveFault& fault) {
    fail_archive(context, archive, kind, ArchiveTrouble::kUnusable, fault.what());
  } catch (const SpoolFault& fault) {
    fail_archive(context, archive, kind, ArchiveTrouble::kSpool, fault.what());
  } catch (const std::system_error& fault) {
    fail_archive(context, archive, kind, ArchiveTrouble::kUnreadable, fault.code().message());
  }
}

}  // namespace kiln
