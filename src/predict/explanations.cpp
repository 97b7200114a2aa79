#include "predict/explanations.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <regex>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/image/resample.h"
#include "predict/pictures.h"
#include "report/scores/score_formats.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTableName = "explanations.csv";
constexpr int kQuality = 90, kThumbnailQuality = 80;
constexpr int kLongestSide = 256;  // of a thumbnail
constexpr std::size_t kNumberDigits = 3, kMaxNameBytes = 100;

std::string header() {
  return csv_line({"path", "label", "confidence", "file"});
}

// The places where explanations may be, relative to `folder`: itself and the models' subfolders.
std::vector<fs::path> parts_of(const fs::path& folder) {
  static const std::regex kPart("model-[0-9]+");
  std::vector<fs::path> parts{fs::path()};
  for (const std::string& name : names_in(folder))
    if (std::regex_match(name, kPart) && type_of_entry(folder / name) == fs::file_type::directory)
      parts.emplace_back(name);
  return parts;
}

// Everything that an earlier process wrote. Throws Error kFailedToWriteOutputs if the folder holds
// anything else.
std::vector<fs::path> earlier_files(const fs::path& folder) {
  static const std::regex kPicture("[0-9]{3,}-[\\s\\S]*\\.jpg");
  std::vector<fs::path> files;
  const std::vector<fs::path> parts = parts_of(folder);
  for (const fs::path& part : parts) {
    const fs::path list = folder / part / kTableName;
    const bool is_ours = is_file(list) && first_bytes(list, header().size()) == header();
    std::error_code failure;
    for (const std::string& name : names_in(folder / part, failure)) {
      if (is_ignored_name(name) || (part.empty() && std::ranges::count(parts, fs::path(name)) > 0))
        continue;
      const bool is_known = is_ours && (name == kTableName || (std::regex_match(name, kPicture) &&
                                                               is_file(folder / part / name)));
      if (!is_known)
        throw Error(ErrorCode::kFailedToWriteOutputs, "--explain " + quoted_path(folder) +
                                                          " holds other files ('" +
                                                          printable((part / name).string()) +
                                                          "'). Empty it or choose another folder.");
      files.push_back(part / name);
    }
    if (failure) fail_to_write(folder / part, failure.value());
  }
  return files;
}

OutputFolder opened(const fs::path& path) {
  OutputFolder folder(path);
  earlier_files(path);
  for (const fs::path& part : parts_of(path)) remove_leftovers(path / part);
  rehearse_write(path / "probe");
  return folder;
}

// Returns a tensor [1, 3, H, W], normalized in the same way as by the loaders.
at::Tensor network_input(const Image& image, const Normalization& scaling) {
  const auto [height, width] = image.size;
  const at::Tensor input = at::empty({1, height, width, 3}, at::kFloat);
  normalize_pixels(image.pixels.data(), image.pixels.size() / 3, scaling, input.data_ptr<float>());
  return input.permute({0, 3, 1, 2});
}

}  // namespace

Image with_heat_map(const Image& image, const at::Tensor& map) {
  const at::Tensor heat = map.contiguous();
  return image_of(require_pictures_module().with_heat_map(
      picture_of(image), heat.const_data_ptr<float>(), static_cast<int>(heat.size(0)),
      static_cast<int>(heat.size(1))));
}

std::string explanation_name(std::size_t number, std::string_view image) {
  const std::string stem = fs::path(image).stem().string();
  std::string name = cut_to_bytes(printable(stem), kMaxNameBytes);
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0 && c != '-' && c != '_' && c != '.') c = '_';
  }
  return formatted("%0*zu-", static_cast<int>(kNumberDigits), number) + name + ".jpg";
}

ExplanationFolder::ExplanationFolder(const fs::path& folder, std::size_t num_models)
    : folder_(opened(folder)), num_models_(num_models) {}

std::vector<at::Tensor> ExplanationFolder::add(Predictor& model, const TransformSpec& pixels,
                                               const Dataset& set,
                                               const std::vector<Prediction>& answers, Log& log) {
  ++num_added_;
  fs::path folder = folder_.path();
  if (num_models_ > 1) {
    folder /= "model-" + std::to_string(num_added_);
    make_folders(folder);
  }
  std::vector<at::Tensor> maps;
  std::string list = header(), bytes;
  ImagePipeline pipeline;
  Image image{pixels.output, std::vector<std::uint8_t>(image_bytes(pixels))};
  std::size_t num_pictures = 0;
  bool has_places = true;
  warn_without_pictures(log);
  for (const Prediction& answer : answers) {
    const std::string path(set.samples.file_name(answer.sample));
    std::string file;
    at::Tensor map;
    try {
      read_image_bytes(set, answer.sample, bytes);
      pipeline.write(bytes, pixels, {}, image.pixels.data());
      if (pictures_module() != nullptr) file = explanation_name(++num_pictures, path);
    } catch (const ImageFault& fault) {
      log.warning("No heat map for '" + path + "', which cannot be read again: " + fault.what());
    }
    if (!file.empty()) {
      map = model.map_of(network_input(image, model.normalization), answer.predicted);
      if (map.numel() > 1) {
        const Image shown = cut_out(with_heat_map(image, map), pipeline.picture());
        files_.push_back(complete_file(folder / file, encode_jpeg(shown, kQuality)));
        ++num_drawn_;
      } else {  // one color all over
        map.reset();
        file.clear();
        has_places = false;
      }
    }
    maps.push_back(map);
    list += csv_line({path, model.directory.labels[answer.predicted], answer.confidence, file});
  }
  if (!has_places)
    log.warning(formatted(
        "No heat maps are drawn: for images of %dx%d pixels, the last feature map of %s "
        "has a single pixel.",
        pixels.output.width, pixels.output.height, model.directory.spec.model_name.c_str()));
  files_.push_back(complete_file(folder / kTableName, list));
  return maps;
}

void ExplanationFolder::commit(Log& log) {
  const fs::path& folder = folder_.path();
  folder_.replace(std::move(files_), earlier_files(folder));
  for (const fs::path& part : parts_of(folder))
    if (!part.empty()) remove_quietly(folder / part);  // if it is empty
  log.info("heat maps of " + plural(num_drawn_, "image", "images") + ": " + quoted_path(folder));
}

Thumbnail thumbnail_of(const Dataset& set, std::size_t i, const TransformSpec& plan,
                       const at::Tensor& map) {
  const PicturesModule* module = pictures_module();
  if (module == nullptr) return {};
  TransformSpec seen = plan;
  seen.augment = Augment::kNone;
  Image image{seen.output, std::vector<std::uint8_t>(image_bytes(seen))};
  ImagePipeline pipeline;
  try {
    std::string bytes;
    read_image_bytes(set, i, bytes);
    pipeline.write(bytes, seen, {}, image.pixels.data());
  } catch (const ImageFault&) {
    return {};
  }
  if (map.defined()) image = with_heat_map(image, map);
  image = image_of(module->shrunk(picture_of(cut_out(image, pipeline.picture())), kLongestSide));
  return {image.size.height, image.size.width, encode_jpeg(image, kThumbnailQuality)};
}

}  // namespace kiln
