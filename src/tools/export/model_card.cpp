#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/names.h"
#include "base/platform/installation.h"
#include "base/text.h"
#include "base/url.h"
#include "record/run_summary.h"
#include "tools/export/export.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kMaxRecord = 256 << 20;
constexpr std::size_t kMaxClasses = 100;  // of the table

// Text in Markdown, which a class's name must not change.
std::string in_markdown(std::string_view text) {
  std::string escaped;
  for (const char c : for_people(text)) {
    if (std::string_view("\\`*_{}[]<>()#+-!|").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::int64_t count_of(const Json& counts, const std::string& label, const char* part) {
  const auto row = counts.find(label);
  return row == counts.end() ? 0 : row->value(part, std::int64_t{0});
}

std::string accuracy_text(const Json& training, std::int64_t num_valid) {
  const Json& epochs = training.at("epochs");
  const auto saved = training.at("saved_epoch").get<std::int64_t>();
  const auto epoch = std::ranges::find_if(
      epochs, [&](const Json& row) { return row.at("epoch").get<std::int64_t>() == saved; });
  if (epoch == epochs.end() || num_valid == 0)
    return "Its accuracy was not measured by an epoch of training; `kiln evaluate` measures it.\n";
  if (epoch->contains("mean_average_precision"))
    return formatted("Its mean average precision on validation images is %.3f, after epoch %lld.\n",
                     epoch->at("mean_average_precision").get<double>(),
                     static_cast<long long>(saved));
  const double top1 = epoch->at("top1").get<double>();
  const auto folds = training.find("out_of_fold");
  const bool are_folds = folds != training.end() && folds->value("is_validation", false);
  const Interval interval = (are_folds ? out_of_fold_interval : wilson_interval)(
      std::llround(top1 * static_cast<double>(num_valid)), num_valid);
  return "Of " +
         (are_folds ? plural(num_valid, "training image", "training images") +
                          ", each judged by a last layer that had not learned from it"
                    : plural(num_valid, "validation image", "validation images")) +
         ", " + percent(top1) + " were answered correctly (95 % interval " + percent(interval.low) +
         " to " + percent(interval.high) + "), after epoch " + std::to_string(saved) + ".\n";
}

std::string counts_text(const std::vector<std::string>& labels, const Json& counts) {
  std::string text = "| class | training images | validation images |\n|---|---|---|\n";
  for (std::size_t i = 0; i < std::min(labels.size(), kMaxClasses); ++i)
    text += "| " + in_markdown(labels[i]) + " | " + grouped(count_of(counts, labels[i], "train")) +
            " | " + grouped(count_of(counts, labels[i], "valid")) + " |\n";
  if (labels.size() > kMaxClasses)
    text += "\nand " + std::to_string(labels.size() - kMaxClasses) + " more classes.\n";
  return text;
}

std::string record_text(const Predictor& model, const Json& training) {
  const std::vector<std::string>& labels = model.directory.labels;
  const AnswerRule::Words& words = model.rule->words;
  const Json& counts = training.at("data").at("counts");
  if (!std::ranges::all_of(labels, [&](const auto& label) { return counts.contains(label); }))
    return "## What it was trained on\n\nThe record of its training has other names for its "
           "classes.\n";
  std::int64_t num_train = 0, num_valid = 0;
  for (const std::string& label : labels) {
    num_train += count_of(counts, label, "train");
    num_valid += count_of(counts, label, "valid");
  }
  const fs::path weights = training.at("options").value("weights", "");
  return "## What it was trained on\n\n" + plural(num_train, words.image, words.images) +
         ", with kiln " + in_markdown(training.at("versions").value("kiln", "")) + ", " +
         utc_text(training.at("started").get<double>()) +
         (weights.empty() ? ""
                          : ", from the weights " + in_markdown(weights.filename().string()) +
                                ", whose license holds for it, too") +
         ".\n\n" + counts_text(labels, counts) + "\n## How good it is\n\n" +
         accuracy_text(training, num_valid);
}

std::string training_text(const fs::path& folder, const Predictor& model) {
  const fs::path path = folder / "training.json";
  if (!is_there(path))
    return "## What it was trained on\n\nThe model has no record of its training.\n";
  std::string fault;
  try {
    return record_text(model, parse_json(read_file(path, kMaxRecord)));
  } catch (const JsonFault& failure) {
    fault = quoted_path(path) + " " + failure.what();
  } catch (const std::length_error& failure) {
    fault = failure.what();
  } catch (const Json::exception&) {
    fault = quoted_path(path) + " is not the record of a training";
  }
  throw Error(ErrorCode::kInvalidModelDirectory, fault + ": copy the whole model again.");
}

}  // namespace

std::string quoted(const std::string& text) {
  return nlohmann::json(as_utf8(text)).dump();  // UTF-8: Python reads no pairs of \u
}

std::string quoted_list(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  parts.reserve(texts.size());
  for (const std::string& text : texts) parts.push_back(quoted(text));
  return "[" + joined(parts, ", ") + "]";
}

bool is_turned(const ExportedModel& exported) {
  const std::optional<Preprocessing>& how = exported.model.directory.preprocessing;
  return how && how->exif == Exif::kApply;
}

std::string python_to_read_photo(const ExportedModel& exported) {
  return std::string(R"PYTHON(def read_photo(file):
    image = Image.open(file)
    white = 255 if getattr(image, "tag_v2", {}).get(262) == 0 else 0  # of a TIFF whose 0 is white
)PYTHON") +
         (is_turned(exported)
              ? R"PYTHON(    image.info.pop("xmp", None)  # its orientation does not count
    image = image.copy()
    for key in ("xmp", "XML:com.adobe.xmp"):
        image.info.pop(key, None)
    image = ImageOps.exif_transpose(image)
)PYTHON"
              : R"PYTHON(    if image.format == "TIFF":
        image.getexif()[0x0112] = 1  # pixels stay as stored, but Pillow would turn these
)PYTHON") +
         R"PYTHON(    if image.mode.startswith("I"):  # 16 bits: the high byte
        image = Image.fromarray((numpy.asarray(image) >> 8 ^ white).astype(numpy.uint8))
    return image.convert("RGB")
)PYTHON";
}

std::string model_card(const ExportedModel& exported, const std::string& use) {
  const Predictor& model = exported.model;
  const ModelDirectory& directory = model.directory;
  std::string text = "# " + directory.spec.model_name + ", " +
                     plural(directory.labels.size(), "class", "classes") +
                     "\n\nA classifier of images, written by " + in_markdown(program_version()) +
                     ".\n\n";
  text += training_text(exported.config.trained_model_path, model);
  text += "\n## Its limits\n\n- It knows no other class than these" +
          std::string(model.rule->words.limits) +
          "\n- The accuracy is that on images like the validation images, by which the best "
          "epoch was chosen; on images of other cameras, places or times it may be lower.\n- " +
          std::string(directory.calibration.answers.empty() && directory.calibration.labels.empty()
                          ? "Its confidence is not calibrated.\n"
                          : "Its confidence is calibrated on the validation images, and slightly "
                            "optimistic on others.\n");
  if (directory.preprocessing)
    text += formatted("- It sees images at %d x %d pixels: smaller details are lost.\n",
                      directory.preprocessing->width, directory.preprocessing->height);
  return text + "\n## How it is used\n\n" + use;
}

}  // namespace kiln
