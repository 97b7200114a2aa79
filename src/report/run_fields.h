// The fields of a run's records with their names in `metrics.jsonl`, once for writing and reading.
#pragma once

#include <concepts>
#include <type_traits>

#include "report/run_record.h"

namespace kiln {

template <typename T, typename Record>
concept Is = std::same_as<std::remove_const_t<T>, Record>;

// visit_fields(record, field) calls field(name, member) for every member.
void visit_fields(Is<Totals> auto& totals, auto&& field) {
  field("images", totals.count);
  field("loss_sum", totals.loss_sum);
  field("top1", totals.top1);
  field("top5", totals.top5);
}

void visit_fields(Is<StepTimes> auto& times, auto&& field) {
  field("data_wait", times.data_wait);
  field("forward", times.forward);
  field("backward", times.backward);
  field("communication", times.communication);
  field("optimizer", times.optimizer);
}

void visit_fields(Is<StepRecord> auto& step, auto&& field) {
  field("time", step.time);
  field("epoch", step.epoch);
  field("num_epochs", step.num_epochs);
  field("step", step.step);
  field("num_steps", step.num_steps);
  field("learning_rate", step.learning_rate);
  field("batch", step.batch);
  field("so_far", step.so_far);
  field("batch_seconds", step.batch_seconds);
  field("epoch_seconds", step.epoch_seconds);
  field("batch_images_per_second", step.batch_images_per_second);
  field("epoch_images_per_second", step.epoch_images_per_second);
  field("data_wait_share", step.data_wait_share);
  field("elapsed_seconds", step.elapsed_seconds);
  field("seconds", step.times);
}

void visit_fields(Is<CommunicationTime> auto& time, auto&& field) {
  field("summing", time.summing);
  field("waiting", time.waiting);
}

void visit_fields(Is<GpuLoad> auto& gpu, auto&& field) {
  field("utilisation_percent", gpu.utilisation_percent);
  field("power_watts", gpu.power_watts);
}

void visit_fields(Is<EpochRecord> auto& epoch, auto&& field) {
  field("time", epoch.time);
  field("epoch", epoch.epoch);
  field("num_steps", epoch.num_steps);
  field("learning_rate", epoch.learning_rate);
  field("average_images_per_second", epoch.average_images_per_second);
  field("train_images_per_second", epoch.train_images_per_second);
  field("train", epoch.train);
  field("valid", epoch.valid);
  field("train_seconds", epoch.train_seconds);
  field("valid_seconds", epoch.valid_seconds);
  field("data_wait_seconds", epoch.data_wait_seconds);
  field("gradient_sums", epoch.communication);
  field("seconds", epoch.times);
  field("peak_memory_bytes", epoch.peak_memory_bytes);
  field("peak_device_bytes", epoch.peak_device_bytes);
  field("gpu", epoch.gpu);
  field("bad_train_images", epoch.bad_train_images);
  field("bad_valid_images", epoch.bad_valid_images);
}

void visit_fields(Is<DataRecord> auto& data, auto&& field) {
  field("train_path", data.train_path);
  field("valid_path", data.valid_path);
  field("classes", data.classes);
  field("train_counts", data.train_counts);
  field("valid_counts", data.valid_counts);
  field("image_height", data.image_height);
  field("image_width", data.image_width);
  field("resize_short_side", data.resize_short_side);
  field("augment", data.augment);
  field("eval_height", data.eval_height);
  field("eval_width", data.eval_width);
  field("eval_resize_short_side", data.eval_resize_short_side);
  field("normalization", data.normalization);
  field("mean", data.mean);
  field("std", data.std);
}

void visit_fields(Is<RunStart> auto& start, auto&& field) {
  field("time", start.time);
  field("options", start.options);
  field("versions", start.versions);
  field("command", start.command);
  field("model", start.model);
  field("device", start.device);
  field("plan", start.plan);
  field("num_parameters", start.num_parameters);
  field("num_ranks", start.num_ranks);
  field("num_epochs", start.num_epochs);
  field("steps_per_epoch", start.steps_per_epoch);
  field("global_batch", start.global_batch);
  field("data", start.data);
}

void visit_fields(Is<ImageFaultRecord> auto& fault, auto&& field) {
  field("data_set", fault.data_set);
  field("file", fault.file);
  field("fault", fault.fault);
  field("used", fault.damaged);
}

void visit_fields(Is<RunEnd> auto& end, auto&& field) {
  field("time", end.time);
  field("status", end.status);
  field("failure", end.failure);
  field("stopped_early", end.stopped_early);
  field("saved_epoch", end.saved_epoch);
  field("model_path", end.model_path);
  field("image_faults", end.image_faults);
  field("start_to_first_step_seconds", end.start_to_first_step_seconds);
  field("total_seconds", end.total_seconds);
  field("peak_memory_bytes", end.peak_memory_bytes);
  field("peak_device_bytes", end.peak_device_bytes);
}

void visit_fields(Is<JudgedImage> auto& image, auto&& field) {
  field("file", image.file);
  field("truth", image.truth);
  field("guess", image.guess);
  field("confidence", image.confidence);
  field("thumbnail", image.thumbnail);
}

void visit_fields(Is<Judgement> auto& judgement, auto&& field) {
  field("epoch", judgement.epoch);
  field("confusion", judgement.confusion);
  field("most_wrong", judgement.most_wrong);
  field("samples", judgement.samples);
}

template <typename T>
concept HasFields = requires(T& record) {
  visit_fields(record, [](const char*, auto&) {});
};

}  // namespace kiln
