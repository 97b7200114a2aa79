// The files among which the image list of an ImageDirectory or COCO folder finds its own: those of
// a folder, or of a folder inside an archive. One set of readers serves both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/dataset/readers.h"

namespace kiln {

// Why images of a list cannot be used ("is missing"), by position.
using ListFaults = std::map<std::size_t, std::string>;

// Names are relative to the folder.
class ListedFiles {
 public:
  virtual ~ListedFiles() = default;

  virtual bool holds(std::string_view name) const = 0;
  // The names that may be a COCO file's: *.json directly in the folder, sorted, without those of a
  // shard's images (`000.json` next to `000.jpg`).
  virtual std::vector<std::string> json_names() const = 0;
  // Throws std::system_error; ImageFault for a damaged archive.
  virtual std::string first_bytes(const std::string& name, std::size_t count) const = 0;
  // The whole text, without a byte-order mark. Throws as first_bytes() does, and std::length_error
  // if it is longer than `max_bytes`.
  virtual std::string read_text(const std::string& name, std::uint64_t max_bytes) const = 0;
  // Of a file, or of the folder (""), for an index. Empty in an archive, which has its own.
  virtual std::optional<SourceStamp> stamp(const std::string& name) const = 0;
  // Finds the images of the set, which are as in the list.
  virtual ListFaults find_images(Dataset& set) const = 0;
};

class FolderFiles final : public ListedFiles {
 public:
  explicit FolderFiles(const DatasetContext& context) : context_(context) {}
  bool holds(std::string_view name) const override;
  std::vector<std::string> json_names() const override;
  std::string first_bytes(const std::string& name, std::size_t count) const override;
  std::string read_text(const std::string& name, std::uint64_t max_bytes) const override;
  std::optional<SourceStamp> stamp(const std::string& name) const override;
  ListFaults find_images(Dataset& set) const override;

 private:
  const DatasetContext& context_;
};

// `base` is the folder in the archive, with a trailing slash; empty: all of it. The listing must
// outlive the object. find_images() opens the archive for the set, as `archive`.
class ArchiveFiles final : public ListedFiles {
 public:
  ArchiveFiles(const ArchiveListing& listing, std::string_view base, std::string archive);
  bool holds(std::string_view name) const override;
  std::vector<std::string> json_names() const override;
  std::string first_bytes(const std::string& name, std::size_t count) const override;
  std::string read_text(const std::string& name, std::uint64_t max_bytes) const override;
  std::optional<SourceStamp> stamp(const std::string&) const override { return std::nullopt; }
  ListFaults find_images(Dataset& set) const override;

 private:
  const ArchiveMember* find(std::string_view name) const;

  const ArchiveListing& listing_;
  std::string archive_;
  std::vector<std::pair<std::string_view, const ArchiveMember*>> members_;  // sorted by name
};

}  // namespace kiln
