#include "record/picture_file.h"

#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "record/run_json.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMaxFileBytes = 64 << 20;
constexpr std::size_t kMaxValues = 1'000'000;  // of the line of JSON

// Cuts the file of a picture off the front of `bytes`.
void take(const Json& json, std::string_view* bytes, Thumbnail* picture) {
  std::size_t size = 0;
  from_json(json.at("bytes"), size);
  if (size > bytes->size()) throw std::invalid_argument("it ends within a picture");
  picture->jpeg = bytes->substr(0, size);
  bytes->remove_prefix(size);
}

std::vector<PictureList> lists_of(const Json& json, std::string_view bytes) {
  std::vector<PictureList> lists;
  from_json(json, lists);
  for (std::size_t i = 0; i < lists.size(); ++i)
    for (std::size_t k = 0; k < lists[i].images.size(); ++k) {
      const Json& image = json.at(i).at("images").at(k);
      take(image.at("thumbnail"), &bytes, &lists[i].images[k].thumbnail);
      take(image.at("heat_map"), &bytes, &lists[i].images[k].heat_map);
    }
  return lists;
}

}  // namespace

std::string picture_file(double started, const ValidationDetails& details) {
  std::string bytes = json_text({{"started", started},
                                 {"epoch", details.epoch},
                                 {"galleries", as_json(details.pictures)}}) +
                      "\n";
  for (const PictureList& list : details.pictures)
    for (const JudgedImage& image : list.images)
      bytes += image.thumbnail.jpeg + image.heat_map.jpeg;
  return bytes;
}

std::string read_pictures(const std::filesystem::path& path, RunRecord* run) try {
  if (run->details.epoch == 0 || !is_there(path)) return {};
  const std::string file = read_file(path, kMaxFileBytes);
  const std::string_view bytes = file;
  const std::size_t line = std::min(bytes.find('\n'), bytes.size() - 1) + 1;
  const Json json = parse_ordered_json(bytes.substr(0, line), kMaxValues);
  if (json.at("started").get<double>() == run->start.time &&
      json.at("epoch").get<int>() == run->details.epoch)
    run->details.pictures = lists_of(json.at("galleries"), bytes.substr(line));
  return {};
} catch (const std::exception& fault) {
  run->details.pictures.clear();
  return "The report has no pictures, because " + quoted_path(path) +
         " cannot be read: " + fault.what() + ".";
}

}  // namespace kiln
