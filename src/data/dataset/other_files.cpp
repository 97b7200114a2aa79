#include "data/dataset/other_files.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxNamed = 10;

std::string note_of(const UnreadKind* kind, std::size_t count, bool is_one) {
  const std::string files = grouped(static_cast<long long>(count)) + (is_one ? " file" : " files");
  if (kind != nullptr)
    return files + (is_one ? " is " : " are ") + std::string(is_one ? kind->one : kind->many) +
           ", which Kiln does not read; " + advice_on(*kind, is_one);
  return files + (is_one ? " does not have an image extension and is skipped"
                         : " do not have an image extension and are skipped");
}

}  // namespace

void FewNames::add(std::string name) {
  ++count_;
  if (names_.size() < kMaxNamed) names_.push_back(std::move(name));
}

void FewNames::add_all(const std::string& prefix, const FewNames& inside) {
  count_ += inside.count_;
  for (const std::string& name : inside.names_)
    if (names_.size() < kMaxNamed) names_.push_back(prefix + name);
}

std::string FewNames::quoted() const {
  return "'" + printable(joined(names_, "', '")) + "'" + (count_ > names_.size() ? ", …" : "");
}

void OtherFiles::add(std::string_view path) {
  groups_[unread_kind_of_name(path)].add(std::string(path));
}

void OtherFiles::add(const std::string& prefix, const OtherFiles& inside) {
  for (const auto& [kind, names] : inside.groups_) groups_[kind].add_all(prefix, names);
}

std::vector<std::string> OtherFiles::notes() const {
  std::vector<std::string> notes;
  for (const auto& [kind, names] : groups_)
    notes.push_back(note_of(kind, names.count(), names.count() == 1) + ": " + names.quoted());
  std::rotate(notes.begin(), notes.begin() + (groups_.contains(nullptr) ? 1 : 0), notes.end());
  return notes;
}

std::string OtherFiles::instead_of_images() const {
  OtherFiles pictures = *this;
  pictures.keep_pictures();
  return pictures.groups_.empty()
             ? "it contains no images"
             : "it contains no images that Kiln reads: " + joined(pictures.notes(), "; ");
}

}  // namespace kiln
