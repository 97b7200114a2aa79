#include "tools/convert/other_contents.h"

#include <algorithm>
#include <utility>

#include "base/system.h"
#include "base/text.h"
#include "data/dataset/folder_entries.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/readers.h"
#include "data/image/image.h"
#include "data/image/unread_kind.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxNamed = 10;
constexpr std::size_t kEnough = 1024;  // to tell what a file is
constexpr std::size_t kPortion = 64;   // images that a thread takes at a time

}  // namespace

void OtherContents::add(std::string_view file_name, std::string_view bytes) {
  if (++count_ <= kMaxNamed)
    named_.push_back("'" + printable(file_name) + "' (" + fault_of_unread(bytes) + ")");
}

std::string OtherContents::named() const {
  return joined(named_, ", ") + (count_ > named_.size() ? ", …" : "");
}

void OtherContents::require_others(bool has_images, const Dataset& set) const {
  if (has_images || count_ == 0) return;
  const DatasetContext context{.root = set.root, .name = set.name};
  context.fail("none of its files is an image: " + named() + ". Give other images.");
}

std::string OtherContents::note() const {
  if (count_ == 0) return {};
  return std::to_string(count_) +
         (count_ == 1 ? " file is no image and is not copied: "
                      : " files are no images and are not copied: ") +
         named();
}

void leave_out_other_contents(Dataset& set) {
  std::vector<std::string> beginnings(set.samples.size());  // of what is no image
  std::vector<char> is_other(set.samples.size(), 0);
  in_parallel((set.samples.size() + kPortion - 1) / kPortion, kScanThreads,
              [&](std::size_t portion) {
                std::string bytes;
                const std::size_t end = std::min(set.samples.size(), (portion + 1) * kPortion);
                for (std::size_t i = portion * kPortion; i < end; ++i) {
                  try {
                    read_first_bytes(set, i, kEnough, bytes);
                  } catch (const ImageFault&) {
                    continue;  // the reader of the image will say why
                  }
                  if (!image_kind(bytes).empty()) continue;
                  is_other[i] = 1;
                  beginnings[i] = bytes;
                }
              });
  OtherContents others;
  std::vector<bool> keep(set.samples.size());
  for (std::size_t i = 0; i < keep.size(); ++i) {
    keep[i] = is_other[i] == 0;
    if (!keep[i]) others.add(set.samples.file_name(i), beginnings[i]);
  }
  if (others.count() == 0) return;
  others.require_others(others.count() < keep.size(), set);
  std::vector<std::string> notes = std::move(set.notes);
  set = part_of(set, keep);
  set.notes = std::move(notes);
  set.notes.push_back(others.note());
}

}  // namespace kiln
