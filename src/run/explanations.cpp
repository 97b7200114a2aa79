#include "run/explanations.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "report/scores/score_formats.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kListName = "explanations.csv";
constexpr int kQuality = 90;
constexpr std::size_t kNumberDigits = 3, kMostNameBytes = 100;

using Color = std::array<float, 3>;
// matplotlib's viridis at 0, 1/8, …, 1.
constexpr std::array<Color, 9> kViridis{{{68, 1, 84},
                                         {71, 45, 123},
                                         {59, 82, 139},
                                         {44, 114, 142},
                                         {33, 144, 140},
                                         {39, 173, 129},
                                         {93, 200, 99},
                                         {170, 220, 50},
                                         {253, 231, 37}}};

Color color_of(float heat) {
  const float place = std::clamp(heat, 0.0F, 1.0F) * (kViridis.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), kViridis.size() - 2);
  const float share = place - static_cast<float>(below);
  Color color{};
  for (std::size_t i = 0; i < color.size(); ++i)
    color[i] = std::lerp(kViridis[below][i], kViridis[below + 1][i], share);
  return color;
}

std::string header() {
  return csv_line({"path", "label", "confidence", "file"});
}

bool is_picture_name(const std::string& name) {
  const std::size_t digits = name.find_first_not_of("0123456789");
  return digits >= kNumberDigits && digits < name.size() && name[digits] == '-' &&
         name.ends_with(".jpg");
}

// Of what is in the folder, the pictures of an earlier program. Throws Error
// kFailedToWriteOutputs for anything else.
std::vector<fs::path> earlier_pictures(const fs::path& folder) {
  const fs::path list = folder / kListName;
  std::error_code failure;
  const bool is_ours =
      fs::is_regular_file(list, failure) && first_bytes(list, header().size()) == header();
  std::vector<fs::path> pictures;
  auto entry = fs::directory_iterator(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.') || name == "lost+found" || (is_ours && name == kListName)) continue;
    if (!is_ours || !is_picture_name(name) || !entry->is_regular_file(failure))
      throw Error(ErrorCode::kFailedToWriteOutputs,
                  "--explain " + quoted_path(folder) + " holds something else ('" +
                      printable(name) + "'). Empty it or choose another folder.");
    pictures.emplace_back(name);
  }
  if (failure) fail_to_write(folder, failure.value());
  return pictures;
}

OutputFolder take(const fs::path& path) {
  OutputFolder folder(path);
  earlier_pictures(path);
  remove_leftovers(path);
  return folder;
}

// [1, 3, H, W], as the loaders make it.
at::Tensor network_input(const Image& image, const Normalization& scaling) {
  const auto [height, width] = image.size;
  const at::Tensor input = at::empty({1, height, width, 3}, at::kFloat);
  normalize_pixels(image.pixels.data(), image.pixels.size() / 3, scaling, input.data_ptr<float>());
  return input.permute({0, 3, 1, 2});
}

}  // namespace

Image with_heat_map(const Image& image, const at::Tensor& map) {
  const at::Tensor heat =
      at::upsample_bilinear2d(map.view({1, 1, map.size(0), map.size(1)}),
                              {image.size.height, image.size.width}, /*align_corners=*/false)
          .contiguous();
  const auto* value = heat.const_data_ptr<float>();
  Image result = image;
  for (auto rgb = result.pixels.begin(); rgb != result.pixels.end(); rgb += 3, ++value) {
    const float gray = 0.299F * rgb[0] + 0.587F * rgb[1] + 0.114F * rgb[2];  // ITU-R BT.601
    const Color color = color_of(*value);
    for (std::ptrdiff_t i = 0; i < 3; ++i)
      rgb[i] =
          static_cast<std::uint8_t>(std::lround((gray + color[static_cast<std::size_t>(i)]) / 2));
  }
  return result;
}

std::string explanation_name(std::size_t number, std::string_view image) {
  const std::string stem = fs::path(image).stem().string();
  std::string name = cut_to_bytes(printable(stem), kMostNameBytes);
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0 && c != '-' && c != '_' && c != '.') c = '_';
  }
  return formatted("%0*zu-", static_cast<int>(kNumberDigits), number) + name + ".jpg";
}

ExplanationFolder::ExplanationFolder(const fs::path& folder) : folder_(take(folder)) {}

std::vector<std::string> ExplanationFolder::write(Predictor& predictor, const at::Device& device,
                                                  const TransformSpec& pixels, const Dataset& set,
                                                  const std::vector<ExplainedAnswer>& answers) {
  std::vector<fs::path> removed = earlier_pictures(folder_.path());
  std::vector<std::string> notes;
  std::vector<DurableFile> files;
  const auto add = [&](const std::string& name, const std::string& bytes) {
    files.emplace_back(folder_.path() / name);
    files.back().write(bytes);
    files.back().finish();
    std::erase(removed, name);
  };
  std::string list = header(), bytes;
  ImagePipeline pipeline;
  Image image{pixels.output, std::vector<std::uint8_t>(image_bytes(pixels))};
  bool has_places = true;
  for (const ExplainedAnswer& answer : answers) {
    const std::string path(set.samples.file_name(answer.image));
    std::string file;
    try {
      read_image_bytes(set, answer.image, bytes);
      pipeline.write(bytes, pixels, {}, image.pixels.data());
      file = explanation_name(files.size() + 1, path);
    } catch (const ImageFault& fault) {
      notes.push_back("No picture explains '" + path +
                      "', which cannot be read again: " + fault.what());
    }
    if (!file.empty()) {
      const at::Tensor input = network_input(image, predictor.normalization()).to(device);
      const at::Tensor map = predictor.class_maps(input, {answer.class_id})[0];
      has_places = has_places && map.numel() > 1;
      add(file, encode_jpeg(with_heat_map(image, map), kQuality));
    }
    list += csv_line({path, predictor.labels()[static_cast<std::size_t>(answer.class_id)],
                      answer.confidence, file});
  }
  if (!has_places)
    notes.push_back(
        formatted("The pictures show no places: of images of %dx%d pixels, %s has one "
                  "last feature for the whole image.",
                  pixels.output.width, pixels.output.height, predictor.spec().model_name.c_str()));
  add(kListName, list);
  folder_.replace(std::move(files), removed);
  return notes;
}

}  // namespace kiln
