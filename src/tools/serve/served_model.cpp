#include "tools/serve/served_model.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/image/resample.h"
#include "predict/explanations.h"
#include "predict/pictures.h"
#include "record/evaluation.h"
#include "store/model_directory.h"
#include "tools/score/score.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPackedModel = "model.tar.gz";
constexpr std::size_t kMaxNumberBytes = 16;  // of a probability as text
constexpr int kMaxDepth = 3;                 // of folders with a single folder in them

// A model directory or a packed one at `path` or below it, where only folders with nothing else lie
// in between; empty if there is none.
fs::path model_at(const fs::path& path, int depth = 0) {
  if (is_file(path)) return depth == 0 ? path : fs::path();
  if (is_there(path / kMetaFile)) return path;
  if (is_there(path / kPackedModel)) return path / kPackedModel;
  std::vector<std::string> inside = names_in(path);
  std::erase_if(inside, is_ignored_name);
  if (depth == kMaxDepth || inside.size() != 1 || !is_folder(path / inside[0])) return {};
  return model_at(path / inside[0], depth + 1);
}

TransformSpec pixels_for(const Predictor& predictor, const fs::path& folder) {
  if (!predictor.pixels)
    throw Error(ErrorCode::kInvalidModelDirectory,
                "The model " + quoted_path(folder) + " does not say how images are prepared (" +
                    std::string(kPreprocessingFile) +
                    "), which a server must know: use `kiln score`, or train it anew.");
  predictor.require_large_enough(predictor.pixels->output);
  return *predictor.pixels;
}

ScoreColumns columns_for(const Predictor& predictor, const ServeConfig& config) {
  return predictor.rule->fitted(
      {.labels = predictor.directory.labels,
       .top_k = 1,
       .all_classes = true,
       .guesses = config.min_confidence || config.answer_at || config.refuse_unlike,
       .alike = predictor.likeness.has_value(),
       .neighbors = config.neighbors});
}

}  // namespace

FoundModel find_served_model(const std::string& given, const ServingPlace& place) {
  const auto own = given.empty() ? fs::path("model") : fs::path(given);
  if (given.empty()) {
    for (const fs::path& path : place.models)
      if (const fs::path found = model_at(path); !found.empty()) return {found, true};
    if (!place.storage_uri.empty() && model_at(own).empty())
      throw Error(ErrorCode::kUserError,
                  "AIP_STORAGE_URI is '" + excerpt(place.storage_uri) +
                      "', but no bucket is read: COPY the model to /opt/ml/model of the image.");
  }
  const fs::path found = model_at(own);
  return {found.empty() ? own : found, false};
}

ServedModel::ServedModel(const fs::path& folder, const PredictionJob& job,
                         const ServeConfig& config)
    : log_(job.log),
      predictor_(folder, torch_device(job.device), job.precision.precision),
      pixels_(pixels_for(predictor_, folder)),
      layout_(job.batch_layout(predictor_.normalization)),
      input_bytes_(image_bytes(pixels_) * (layout_.scaling ? sizeof(float) : 1)),
      uploader_(torch_device(job.device), pixels_.output, job.config.batch_size,
                predictor_.normalization),
      plan_{.thresholds = predictor_.rule->thresholds(config.min_confidence, config.answer_at),
            .all_classes = true,
            .refuse_unlike = predictor_.least_alike(config.refuse_unlike),
            .neighbors = predictor_.neighbors(config.neighbors)},
      rows_(find_score_format(".jsonl")->encoder(columns_for(predictor_, config))),
      row_bytes_(rows_->row({}).size() + kMaxNumberBytes * labels().size()) {
  const std::size_t bytes = input_bytes_ * static_cast<std::size_t>(job.config.batch_size);
  try {
    batch_.pixels = layout_.new_buffer(bytes);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kModuleOutOfMemory, "Out of memory: a batch (--max-batch) needs " +
                                                   bytes_text(static_cast<long long>(bytes)) + ".");
  }
  if ((config.min_confidence || config.answer_at) &&
      !predictor_.directory.calibration.answers.empty())
    unsure_in_validation_ =
        1 - answer_rate(predictor_.directory.calibration.answers, plan_.thresholds.front()).share();
}

PreparedImage ServedModel::prepare(const EncodedImage& image, LoaderThreads::Decoder& decoder,
                                   long long max_pixels) const {
  PreparedImage prepared;
  try {
    const ImageSize size = read_image_size(image.bytes, pixels_.exif);
    if (static_cast<long long>(size.num_pixels()) > max_pixels)
      throw ImageFault(text_of(size) + " pixels are more than --max-megapixels");
    decoder.pixels.resize(image_bytes(pixels_));
    prepared.fault = decoder.path.write(image.bytes, pixels_, {}, decoder.pixels.data());
    prepared.input = ordinary_buffer(input_bytes_);
    if (layout_.scaling)
      normalize_pixels(decoder.pixels.data(), pixels_.output.num_pixels(), *layout_.scaling,
                       reinterpret_cast<float*>(prepared.input.get()));
    else
      std::memcpy(prepared.input.get(), decoder.pixels.data(), input_bytes_);
    if (image.wants_heat_map) prepared.pixels = decoder.pixels;
    prepared.picture = decoder.path.picture();
  } catch (const ImageFault& fault) {
    prepared.fault = fault.what();
  }
  return prepared;
}

std::vector<ServedAnswer> ServedModel::answer(const std::vector<const PreparedImage*>& images) {
  ++num_unanswered_;
  batch_.count = batch_.nominal = static_cast<int>(images.size());
  batch_.labels.assign(images.size(), 0);
  batch_.release();
  for (std::size_t i = 0; i < images.size(); ++i)
    std::memcpy(batch_.pixels.get() + i * input_bytes_, images[i]->input.get(), input_bytes_);
  const at::Tensor input = uploader_.upload(batch_).images;
  std::vector<Score> scores = predictor_.answers(predictor_.outputs(input, plan_).take(), plan_);
  std::vector<ServedAnswer> answers(images.size());
  for (std::size_t i = 0; i < images.size(); ++i) {
    Score& score = answers[i].score = std::move(scores[i]);
    if (score.fault.empty()) score.fault = images[i]->fault;
    if (score.best.empty() || images[i]->pixels.empty()) continue;
    warn_without_pictures(log_);
    const auto likeliest = std::ranges::max_element(score.probabilities);
    const at::Tensor map =
        predictor_.map_of(input.narrow(0, i, 1), likeliest - score.probabilities.begin());
    if (map.numel() > 1 && pictures_module() != nullptr)
      answers[i].heat_map =
          cut_out(with_heat_map({pixels_.output, images[i]->pixels}, map), images[i]->picture);
  }
  num_unanswered_ = 0;
  return answers;
}

std::shared_ptr<ServedModel> open_served_model(const ServeConfig& config, const fs::path& path,
                                               const PredictionJob& job) {
  if (!is_file(path)) return std::make_shared<ServedModel>(path, job, config);
  return std::make_shared<ServedModel>(unpacked_model(path).path(), job, config);
}

}  // namespace kiln
