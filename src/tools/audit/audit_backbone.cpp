#include "tools/audit/audit_backbone.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "model/catalogue.h"
#include "model/weights/resolve_weights.h"
#include "model/weights/starting_weights.h"
#include "model/weights/weight_source.h"
#include "predict/prediction_faults.h"
#include "predict/predictor.h"
#include "run/inputs/training_loaders.h"
#include "tools/score/scoring_progress.h"
#include "train/precision.h"

namespace kiln {
namespace {

constexpr int kUsualSize = 224, kAnyClasses = 1000;

TransformSpec pixels_of_size(int size) {
  return {.output = {size, size}, .short_side = usual_short_side(size)};
}

// Throws Error kInvalidDataset if images of this size are too small for the network.
void require_usable(const TransformSpec& pixels, const KnownNetwork& network) {
  const NetworkFamily& family = network.family();
  if (family.final_map_side(pixels.output.height) > 0 &&
      family.final_map_side(pixels.output.width) > 0)
    return;
  throw Error(ErrorCode::kInvalidDataset,
              "Images of " + std::to_string(pixels.output.width) + "x" +
                  std::to_string(pixels.output.height) + " pixels are too small for " +
                  std::string(network.name) + ": give a larger --image-size.");
}

}  // namespace

Backbone open_backbone(const AuditConfig& config, const at::Device& device, Log& log) {
  Backbone backbone;
  std::string model_name = config.model_name;
  std::optional<Preprocessing> stored;
  WeightSource source;
  if (config.trained_model_path.empty()) {
    source = read_weight_source(resolve_weights(config.weights, config.weights_sha256, log),
                                config.model_name);
  } else {
    ModelDirectory directory = read_model(config.trained_model_path);
    model_name = directory.spec.model_name;
    stored = directory.preprocessing;
    source = weights_of(std::move(directory), config.trained_model_path);
  }
  const KnownNetwork& network = known_network(model_name);
  // Weights that do not say how to normalize most likely use ImageNet's values, like nearly all
  // published ones.
  backbone.normalization = source.normalization.value_or(kImagenetNormalization);
  backbone.pixels = pixels_of_size(config.image_size > 0 ? config.image_size : kUsualSize);
  if (stored) {
    backbone.normalization = stored->normalization;
    if (config.image_size == 0) backbone.pixels = pixels_of(*stored, config.trained_model_path);
    backbone.pixels.exif = stored->exif;
  }
  require_usable(backbone.pixels, network);
  backbone.description =
      model_name + " with the weights of '" + source.where + "' (" + source.kind + ")";
  // The last layer is not used, so any number of classes will do.
  backbone.model = make_image_model({.model_name = model_name, .num_classes = kAnyClasses});
  load_weights(*backbone.model, model_name, {}, std::move(source));
  backbone.model->prepare(device);
  backbone.model->fold_batch_norm();
  return backbone;
}

LabeledFeatures compute_features(const Backbone& backbone, Dataset& set, const AuditConfig& config,
                                 const Device& device, Log& log,
                                 std::vector<ImageFaultRecord>& faults) {
  const PredictionConfig& prediction = config.prediction;
  const at::Device place = torch_device(device);
  const auto num_images = static_cast<long long>(set.samples.size());
  const HostBatchLayout layout =
      host_batch_layout(place, backbone.normalization,
                        [&device](std::size_t bytes) { return pinned_memory(device, bytes); });
  const LoaderThreadCount threads =
      choose_loader_threads(prediction.loader_threads, usable_cpus(), device.is_cuda);
  LoaderThreads pool({.num_decoders = std::max(threads.first, threads.most),
                      .new_buffer = layout.new_buffer,
                      .warn = [&log](const std::string& text) { log.warning(text); }});
  DeviceUploader uploader(place, backbone.pixels.output, prediction.batch_size,
                          backbone.normalization);
  std::vector<std::uint32_t> order(set.samples.size());
  std::iota(order.begin(), order.end(), 0U);
  BatchLoader loader(set, pool,
                     {.order = std::move(order),
                      .batch_size = prediction.batch_size,
                      .pixels = backbone.pixels,
                      .scaling = layout.scaling,
                      .num_slots = 4 + pool.num_decoders() / prediction.batch_size});
  FeaturePass pass(*backbone.model, loader, uploader,
                   choose_precision(prediction.precision, units_of(device)).precision, num_images);
  PredictionFaults told(prediction.max_bad_images, log);
  ScoringProgress progress(num_images, log);
  while (pass.step()) {
    for (const BadImage& image : loader.take_faults()) {
      const std::string file(set.samples.file_name(image.sample));
      told.note(file, image.fault, !image.damaged);
      faults.push_back({"images", file, image.fault, image.damaged});
    }
    told.check(num_images);
    progress.show(pass.images_done() + told.num_bad());
  }
  told.require_any_good(num_images);
  return pass.take();
}

}  // namespace kiln
