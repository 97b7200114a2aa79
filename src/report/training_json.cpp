#include "report/training_json.h"

#include "report/json_text.h"

namespace kiln {
namespace {

Json short_side(int pixels) {
  return pixels > 0 ? Json(pixels) : Json();
}

Json data_json(const DataRecord& data) {
  Json counts = Json::object();
  for (std::size_t c = 0; c < data.classes.size(); ++c)
    counts[data.classes[c]] = {{"train", data.train_counts[c]}, {"valid", data.valid_counts[c]}};
  return {
      {"classes", data.classes},
      {"counts", counts},
      {"image_size", {data.image_height, data.image_width}},
      {"resize_short_side", short_side(data.resize_short_side)},
      {"augment", data.augment},
      {"eval_size", {data.eval_height, data.eval_width}},
      {"eval_resize_short_side", short_side(data.eval_resize_short_side)},
      {"normalization", {{"name", data.normalization}, {"mean", data.mean}, {"std", data.std}}}};
}

Json communication_json(const std::optional<CommunicationTime>& time) {
  if (!time) return nullptr;
  return {{"summing_seconds", time->summing}, {"waiting_seconds", time->waiting}};
}

Json epoch_json(const EpochRecord& epoch) {
  return {{"epoch", epoch.epoch},
          {"learning_rate", epoch.learning_rate},
          {"train_images_per_second", epoch.train_images_per_second},
          {"train_loss", epoch.train.loss()},
          {"train_error", 1 - epoch.train.top1_accuracy()},
          {"valid_loss", epoch.valid.loss()},
          {"top1", epoch.valid.top1_accuracy()},
          {"top5", epoch.valid.top5_accuracy()},
          {"train_seconds", epoch.train_seconds},
          {"valid_seconds", epoch.valid_seconds},
          {"data_wait_seconds", epoch.data_wait_seconds},
          {"communication", communication_json(epoch.communication)}};
}

Json fault_json(const ImageFaultRecord& fault) {
  return {{"data_set", fault.data_set},
          {"file", fault.file},
          {"fault", fault.fault},
          {"used", fault.damaged}};
}

}  // namespace

std::string format_training_json(const RunRecord& run, const RunEnd& end) {
  Json epochs = Json::array();
  for (const EpochRecord& epoch : run.epochs) epochs.push_back(epoch_json(epoch));
  Json faults = Json::array();
  for (const ImageFaultRecord& fault : end.image_faults) faults.push_back(fault_json(fault));
  const std::string& stopped = end.stopped_early;
  const Json json = {{"options", as_json(run.start.options)},
                     {"versions", as_json(run.start.versions)},
                     {"data", data_json(run.start.data)},
                     {"epochs", epochs},
                     {"saved_epoch", end.saved_epoch},
                     {"stopped_early", stopped.empty() ? Json(false) : Json(stopped)},
                     {"image_faults", faults},
                     {"start_to_first_step_seconds", end.start_to_first_step_seconds},
                     {"total_seconds", end.total_seconds},
                     {"peak_memory_bytes", end.peak_memory_bytes}};
  return json_text(json, 2) + "\n";
}

}  // namespace kiln
