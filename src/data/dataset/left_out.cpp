#include "data/dataset/left_out.h"

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

using Kind = LeftOut::Kind;

struct Row {
  const char *one, *many;
};

constexpr std::array<Row, static_cast<std::size_t>(Kind::kNumKinds)> kRows = {{
    {"link points to a folder above it and is skipped",
     "links point to a folder above them and are skipped"},
    {"link is broken or circular and is skipped", "links are broken or circular and are skipped"},
    {"link leads out of the archive and is skipped",
     "links lead out of the archive and are skipped"},
    {"link points to a folder that is already included and is skipped",
     "links point to folders that are already included and are skipped"},
    {"folder without images is not a class", "folders without images are not classes"},
    {"folder inside a class folder is skipped", "folders inside class folders are skipped"},
    {"image in a folder inside a class folder is skipped",
     "images in folders inside class folders are skipped"},
    {"image next to the class folders is skipped", "images next to the class folders are skipped"},
    {"image belongs to the sample of another image and is skipped",
     "images belong to the sample of another image and are skipped"},
    {"file is there twice with the same content, and is used once",
     "files are there twice with the same content, and are used once"},
    {"label file belongs to no image", "label files belong to no image"},
    {"image is skipped because the name begins with a dot",
     "images are skipped because the name begins with a dot"},
    {"entry is a pipe, socket or device and is skipped",
     "entries are pipes, sockets or devices and are skipped"},
}};

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

void LeftOut::add(Kind kind, std::string name) {
  kinds_[static_cast<std::size_t>(kind)].add(std::move(name));
}

void LeftOut::add_all(const LeftOut& other, const std::string& prefix) {
  other_files.add(prefix, other.other_files);
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind)
    kinds_[kind].add_all(prefix, other.kinds_[kind]);
}

std::vector<std::string> LeftOut::notes() const {
  std::vector<std::string> notes;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    const FewNames& names = kinds_[kind];
    if (names.count() == 0) continue;
    notes.push_back(grouped(static_cast<long long>(names.count())) + " " +
                    (names.count() == 1 ? kRows[kind].one : kRows[kind].many) + ": " +
                    names.quoted());
  }
  for (std::string& note : other_files.notes()) notes.push_back(std::move(note));
  return notes;
}

}  // namespace kiln
