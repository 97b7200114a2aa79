// Code shared by the readers of archives and of record files: naming a file in errors, and reading
// files of class names.
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

// Opens an archive or a record file (`kind`, for errors), or its contents if they are compressed.
// Throws Error kInvalidDataset, kUserError.
inline constexpr const char *kArchiveKind = "archive", *kRecordFileKind = "record file";
struct OpenPacked {
  OpenFile file;
  bool is_unpacked = false;
};
OpenPacked open_packed(const DatasetContext& context, const std::string& archive, const char* kind);

// Whether the file begins as record files do. So may, by its length, data that looks compressed;
// but not with a correct checksum after it.
bool is_record_file(const OpenFile& file);

// The file of this name beside the archives or record files.
std::filesystem::path path_beside(const DatasetContext& context, const char* name);

// What lies beside a single file, and decides what an index of it holds; empty for a folder, whose
// stamps show it.
std::string text_beside(const std::filesystem::path& root);

// Raises the limit on open files, since every archive stays open and the default limit may be 1024.
void allow_open_files(std::size_t count);

// "'PATH' is compressed: it uses N MiB of 'FOLDER' until this process ends (set TMPDIR to use
// another folder"; the caller appends the end of the sentence.
std::string unpacked_note(const DatasetContext& context, const std::string& archive,
                          const OpenFile& file);

// The lines of a file, without a byte-order mark, carriage returns and empty lines at the end: at
// least one, all different. `shown` is the file's name in errors. Throws Error kInvalidDataset.
std::vector<std::string> read_class_lines(const std::filesystem::path& file,
                                          const std::string& shown, const DatasetContext& context);
// The same of a file's contents.
std::vector<std::string> class_lines(std::string_view bytes, const std::string& shown,
                                     const DatasetContext& context);
inline constexpr std::uint64_t kMaxClassesBytes = 64 << 20;

// Checks that the files of a folder are one dataset: no file under two names or with two
// extensions, and numbered files, such as train-00000-of-00008, of one set and below their total.
// Adds a note if some are missing. Throws Error kInvalidDataset naming two that are not.
void require_one_set(const DatasetContext& context, const std::vector<std::string>& files,
                     Dataset& set);

// Sets is_image_directory as the kSourceName next to the files says.
void take_source(const DatasetContext& context, Dataset& set);

// Throws Error kInvalidDataset, or kUserError for kSpool. `kind` is "archive" or "record file".
enum class ArchiveTrouble { kUnusable, kSpool, kUnreadable };
[[noreturn]] void fail_archive(const DatasetContext& context, const std::string& archive,
                               const std::string& kind, ArchiveTrouble trouble,
                               const std::string& reason);

// Calls `action`, and adds the file's name to its errors.
template <typename Action>
auto with_archive_named(const DatasetContext& context, const std::string& archive,
                        const std::string& kind, Action&& action) {
  try {
    return action();
  } catch (const ArchiveFault& fault) {
    fail_archive(context, archive, kind, ArchiveTrouble::kUnusable, fault.what());
  } catch (const LabelFault& fault) {
    fail_archive(context, archive, kind, ArchiveTrouble::kUnusable, fault.what());
  } catch (const ImageFault& fault) {
    fail_archive(context, archive, kind, ArchiveTrouble::kUnusable, fault.what());
  } catch (const SpoolFault& fault) {
    fail_archive(context, archive, kind, ArchiveTrouble::kSpool, fault.what());
  } catch (const std::system_error& fault) {
    fail_archive(context, archive, kind, ArchiveTrouble::kUnreadable, fault.code().message());
  }
}

}  // namespace kiln
