// A COCO folder for classification: one *.json in the root with "images" and "annotations", by
// which it is recognized, and "categories" (https://cocodataset.org/#format-data); file names are
// relative to the folder. Which kind goes before it is list_folder_of_any_kind() in dataset.cpp.
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/files.h"
#include "base/json.h"
#include "base/names.h"
#include "base/text.h"
#include "data/dataset/listing.h"

namespace kiln {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxCocoBytes = 512ULL << 20;
constexpr std::size_t kBeginning = 1 << 16;  // bytes; enough to recognize a COCO file
constexpr std::array kListNames = {"images", "annotations", "categories"};

struct CocoFile {
  std::string name, text;
  json first_annotation = {};  // null: there is none
};

// Reads one COCO file; its errors name the file and the entry. The text is parsed once for each
// list, so that the lists may come in any order and only one entry at a time is in memory.
class CocoReader {
 public:
  CocoReader(const CocoFile& coco, const ListedFiles& files, const DatasetContext& context)
      : coco_(coco), files_(files), context_(context) {}

  Listing read() {
    set_.kind = Dataset::Kind::kCoco;
    check_task(coco_.first_annotation);
    for_each("images", [&](const json& image) { read_image(image); });
    set_.add_note(note_of_repeated(num_repeated_, coco_.name + ": ", "entry of 'images'",
                                   "entries of 'images'"));
    read_categories();
    for_each("annotations", [&](const json& annotation) { read_annotation(annotation); });
    LabelSets sets;
    for (std::size_t i = 0; takes_regions_ && i < set_.samples.size(); ++i)
      set_.samples.set_label(i, sets.label_of(std::move(classes_[i])));
    set_.labels.sets = sets.sets();
    find_listed_images(set_, files_, {}, coco_.name, context_);
    return {.set = std::move(set_)};
  }

 private:
  template <typename Visit>
  void for_each(const std::string& list, Visit&& visit) {
    list_ = list;
    position_ = 0;
    parse_json_lists(coco_.text, [&](const std::string& name, const json& entry) {
      if (name != list) return;
      ++position_;
      try {
        visit(entry);
      } catch (const JsonFault& fault) {
        fail(fault.what());
      }
    });
  }

  // About the entry that is being visited.
  [[noreturn]] void fail(const std::string& what) const {
    context_.fail(coco_.name + ", " + list_ + " entry " + std::to_string(position_) + ": " + what +
                  ". Fix the file.");
  }

  static std::optional<ImageSize> size_of(const json& image) {
    const auto side = [&](const char* key) {
      const json* found = member_of(image, key);
      const auto pixels =
          found == nullptr || !found->is_number_integer() ? 0 : found->get<std::int64_t>();
      return pixels > 0 && pixels <= INT32_MAX ? static_cast<int>(pixels) : 0;
    };
    const ImageSize size{.height = side("height"), .width = side("width")};
    return is_plausible(size) ? std::optional(size) : std::nullopt;
  }

  void read_image(const json& image) {
    const std::int64_t id = integer_at(image, "id");
    const std::string name =
        meant_name(text_at(image, "file_name"), [&](auto& one) { return files_.holds(one); });
    const Sample item{.file_name = name, .id = id, .size = size_of(image)};
    if (const std::string fault = fault_of_relative_path(name); !fault.empty()) fail(fault);
    const auto [earlier, is_new] = items_by_name_.emplace(normal_name(name), set_.samples.size());
    if (!items_by_id_.emplace(id, earlier->second).second)
      fail("the id " + std::to_string(id) + " appears twice");
    if (is_new)
      set_.samples.push_back(item);
    else
      ++num_repeated_;
  }

  void read_categories() {
    std::set<std::string> names;
    for_each("categories", [&](const json& category) {
      const std::int64_t id = integer_at(category, "id");
      const std::string& name = text_at(category, "name");
      if (id < 0 || id >= std::int64_t{kMaxClasses}) fail("its id is not between 0 and 99999");
      if (name.empty() || !is_clean(name)) fail("its name is empty, or has control characters");
      if (!names.insert(name).second || !names_by_id_.emplace(id, name).second)
        fail("its id or its name is a duplicate");
    });
    if (names.empty())
      context_.fail(coco_.name +
                    " has no list \"categories\". Add it, with an id and a name for each class.");
    set_.classes.resize(names_by_id_.rbegin()->first + 1);
    for (const auto& [id, name] : names_by_id_) set_.classes[id] = name;
    set_.add_note(name_unused_ids(set_.classes, coco_.name));
  }

  void check_task(const json& annotation) {
    for (const char* key : {"keypoints", "segments_info", "caption", "segmentation", "bbox"}) {
      if (!annotation.contains(key)) continue;
      // What is somewhere in an image is in it.
      if (takes_regions_ && annotation.contains("category_id")) continue;
      context_.fail(coco_.name + " contains annotations for another task (\"" + key +
                    "\"). Give a COCO file for classification, with an image_id and a category_id "
                    "per annotation.");
    }
  }

  void read_annotation(const json& annotation) {
    check_task(annotation);
    const std::int64_t image_id = integer_at(annotation, "image_id");
    const std::int64_t category = integer_at(annotation, "category_id");
    const auto item = items_by_id_.find(image_id);
    if (item == items_by_id_.end()) fail("no image has the id " + std::to_string(image_id));
    if (!names_by_id_.contains(category))
      fail("no category has the id " + std::to_string(category));
    const int earlier = set_.samples.label(item->second), id = static_cast<int>(category);
    set_.samples.set_label(item->second, id);
    if (takes_regions_)
      classes_[item->second].push_back(id);
    else if (earlier >= 0 && earlier != id)
      fail("gives image " + std::to_string(image_id) + ", '" +
           std::string(set_.samples.file_name(item->second)) + "', a second class, '" +
           excerpt(names_by_id_[category]) + "' after '" + excerpt(set_.classes[earlier]) +
           "': `kiln train --task multi-label` trains on several for each image");
  }

  const CocoFile& coco_;
  const ListedFiles& files_;
  const DatasetContext& context_;
  std::string list_;
  std::size_t position_ = 0;  // in the list, from 1
  Dataset set_;
  std::unordered_map<std::int64_t, std::size_t> items_by_id_;
  std::unordered_map<std::string, std::size_t> items_by_name_;
  std::size_t num_repeated_ = 0;
  std::map<std::int64_t, std::string> names_by_id_;
  const bool takes_regions_ = context_.records.task == TaskKind::kMultiLabel;
  std::map<std::size_t, std::vector<int>> classes_;  // of each image, if it may have several
};

// Whether a file that starts with `bytes` may be JSON; a huge sparse file of zeros may not.
bool begins_as_json(std::string_view bytes) {
  bytes = bytes.substr(0, 64);
  return bytes.find_first_of("{[") != std::string_view::npos ||
         bytes.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// The same for a COCO file, in UTF-16 too.
bool begins_as_coco(std::string bytes) {
  std::erase(bytes, '\0');
  return std::ranges::any_of(kListNames, [&](const char* name) {
    return bytes.find('"' + std::string(name) + '"') != bytes.npos;
  });
}

}  // namespace

std::optional<Listing> list_coco(const DatasetContext& context, const ListedFiles& files,
                                 const std::vector<std::string>& names,
                                 std::vector<std::string>& notes) {
  std::optional<CocoFile> coco;
  for (const std::string& file : names) {
    std::string beginning;
    const auto ignore = [&](const std::string& reason) {
      if (begins_as_coco(beginning))
        context.fail("'" + file + "' begins like a COCO file, but cannot be read: " + reason +
                     ". Write it again, as UTF-8, or remove it.");
      notes.push_back("'" + file + "' is ignored: " + reason);
    };
    try {
      beginning = files.first_bytes(file, kBeginning);
      if (!begins_as_json(beginning)) throw JsonFault(1, "is not JSON");
      CocoFile found{.name = file, .text = files.read_text(file, kMaxCocoBytes)};
      // Without the entries of its lists, of which there may be millions.
      const json document =
          parse_json_lists(found.text, [&](const std::string& list, const json& entry) {
            if (list == "annotations" && found.first_annotation.is_null())
              found.first_annotation = entry;
          });
      const json *images = member_of(document, "images"),
                 *annotations = member_of(document, "annotations");
      if (images == nullptr || !images->is_array() || annotations == nullptr ||
          !annotations->is_array())
        continue;
      if (coco)
        context.fail("it has two COCO files, '" + coco->name + "' and '" + file +
                     "'. Keep the one for these images.");
      coco = std::move(found);
    } catch (const JsonFault& fault) {
      ignore((fault.line() > 0 ? "line " + std::to_string(fault.line()) : "it") + " " +
             fault.what());
    } catch (const std::system_error& fault) {
      ignore(fault.code().message());
    } catch (const std::length_error&) {
      ignore("it is larger than 512 MiB");
    }
  }
  if (!coco) return std::nullopt;
  return CocoReader(*coco, files, context).read();
}

}  // namespace kiln
