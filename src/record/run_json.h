// Conversion of a run's records to and from JSON, each defined by one list of fields.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/text.h"
#include "record/run_record.h"
#include "record/vocabulary.h"

namespace kiln {

using Json = nlohmann::ordered_json;

struct EpochRecord;
// An epoch's figures by the names that training.json has. Defined in run_file.cpp.
Json epoch_json(const EpochRecord& epoch);

// JSON cannot represent non-finite numbers.
inline Json as_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}
inline void from_json(const Json& json, double& value) {
  if (!json.is_string()) {
    value = json.get<double>();
    return;
  }
  const auto text = json.get<std::string>();
  if (text == "NaN")
    value = std::numeric_limits<double>::quiet_NaN();
  else if (text == "Infinity" || text == "-Infinity")
    value = (text[0] == '-' ? -1 : 1) * std::numeric_limits<double>::infinity();
  else
    throw std::invalid_argument("'" + text + "' is not a number");
}

inline Json as_json(const TextPairs& pairs) {
  Json object = Json::object();
  for (const auto& [name, value] : pairs) object[name] = value;
  return object;
}
inline void from_json(const Json& json, TextPairs& pairs) {
  pairs.clear();
  for (const auto& [name, value] : json.items()) pairs.emplace_back(name, value.get<std::string>());
}

// One element for each of `entries`.
template <typename Entries, typename ElementJson>
Json list_json(const Entries& entries, ElementJson&& element_json) {
  Json list = Json::array();
  for (const auto& entry : entries) list.push_back(element_json(entry));
  return list;
}

// As in the files of `kiln audit` and `kiln evaluate`.
inline Json fault_json(const ImageFaultRecord& fault) {
  return {{"path", fault.file}, {"fault", fault.fault}, {"used", fault.damaged}};
}

// ASCII only; bytes that are not valid UTF-8 become U+FFFD. `indent`: -1 for a single line, else
// number of spaces.
inline std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

// The fields of a run's records with their names in `metrics.jsonl`, listed once for both writing
// and reading. KILN_FIELDS(Record, a, b): where they are called as its members.
#define KILN_FIELD(name) field(#name, record.name);
#define KILN_EACH(...) NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(KILN_FIELD, __VA_ARGS__))
#define KILN_FIELDS(Record, ...)                             \
  void visit_fields(Is<Record> auto& record, auto&& field) { \
    KILN_EACH(__VA_ARGS__)                                   \
  }

void visit_fields(Is<Totals> auto& totals, auto&& field) {
  fields(field, "images", totals.count, "loss_sum", totals.loss_sum, "top1", totals.top1, "top5",
         totals.top5);
}

KILN_FIELDS(StepTimes, data_wait, forward, backward, communication, optimizer)

void visit_fields(Is<StepRecord> auto& record, auto&& field) {
  KILN_EACH(time, epoch, num_epochs, step, num_steps, learning_rate, batch, so_far, batch_seconds,
            epoch_seconds, batch_images_per_second, epoch_images_per_second, data_wait_share,
            elapsed_seconds, seconds_left)
  field("seconds", record.times);
}

KILN_FIELDS(CommunicationTime, summing, waiting)

KILN_FIELDS(GpuLoad, utilization_percent, power_watts)

KILN_FIELDS(MacroScores, recall, f1)

KILN_FIELDS(Figure, name, title, line, value, is_counted)

KILN_FIELDS(LabelCalibration, temperature, threshold, answers)

void visit_fields(Is<EpochRecord> auto& record, auto&& field) {
  KILN_EACH(time, epoch, num_steps, learning_rate, average_images_per_second,
            train_images_per_second, train, valid)
  fields(field, "valid_macro", record.macro, "valid_figures", record.figures);
  KILN_EACH(train_seconds, valid_seconds, data_wait_seconds)
  fields(field, "gradient_sums", record.communication, "seconds", record.times);
  KILN_EACH(peak_memory_bytes, peak_device_bytes, gpu, cpu_share, bad_train_images,
            bad_valid_images, skipped_steps)
  fields(field, "validation_images_in_training", record.valid_in_train, "doubts", record.doubts);
}

KILN_FIELDS(TaskWords, task, right, for_small_classes, train_images, valid_images)

KILN_FIELDS(Shortcut, fact, is_alone, told, largest, images)

KILN_FIELDS(DataRecord, words, train_path, valid_path, classes, train_counts, valid_counts,
            image_height, image_width, resize_short_side, augment, eval_height, eval_width,
            eval_resize_short_side, fit, cut_away, shortcuts, normalization, mean, std)

KILN_FIELDS(RunStart, time, options, versions, command, model, device, host, precision,
            precision_reason, plan, num_parameters, num_ranks, num_epochs, steps_per_epoch,
            global_batch, data)

KILN_FIELDS(PlannedLength, time, num_epochs, reason)

void visit_fields(Is<ImageFaultRecord> auto& fault, auto&& field) {
  fields(field, "data_set", fault.data_set, "file", fault.file, "fault", fault.fault, "used",
         fault.damaged);
}

KILN_FIELDS(Interruption, time, epoch, step, checkpoint_time, last_seen, lost_steps, lost_seconds,
            num_ranks, host)

KILN_FIELDS(AutomaticRecord, frozen, tuned_epoch, tuned, keeps_tuned, reason)

KILN_FIELDS(RunEnd, time, status, failure, stopped_early, saved_epoch, model_path, replaced,
            validation_fingerprint, automatic, image_faults, start_to_first_step_seconds,
            total_seconds, peak_memory_bytes, peak_device_bytes)

KILN_FIELDS(Thumbnail, height, width, jpeg)

KILN_FIELDS(ClassShare, label, share)

KILN_FIELDS(JudgedImage, file, truth, guess, confidence, best, thumbnail, heat_map)

KILN_FIELDS(ResultTable, id, heading, lead, caption, columns, rows, curves, bins)

KILN_FIELDS(TaskVerdict, text, has_learned)

KILN_FIELDS(PictureList, id, heading, lead, word, images)

KILN_FIELDS(Calibration, temperature, answers, labels, out_of_fold)

KILN_FIELDS(OutOfFoldRecord, folds, is_validation, totals)

KILN_FIELDS(ValidationDetails, epoch, confusion, calibration, figures, tables, verdict, out_of_fold)

template <typename T>
concept HasFields = requires(T& record) {
  visit_fields(record, [](const char*, auto&) {});
};

// Members that are left out of the file when they say nothing, since few tasks have them.
template <typename T>
bool says_nothing(const T& member) {
  if constexpr (std::same_as<T, TaskWords>) return member == TaskWords();
  if constexpr (std::same_as<T, TaskVerdict>) return member.text.empty();
  if constexpr (std::same_as<T, std::vector<Figure>> || std::same_as<T, std::vector<ResultTable>> ||
                std::same_as<T, std::vector<LabelCalibration>> ||
                std::same_as<T, std::vector<ClassShare>> ||
                std::same_as<T, std::vector<Shortcut>> ||
                std::same_as<T, std::vector<ConfidenceBins>>)
    return member.empty();
  return false;
}

// from_json() leaves missing members unchanged, and throws nlohmann::json::exception or
// std::invalid_argument for invalid ones.

inline constexpr std::array<std::string_view, 4> kStatusNames = {"running", "finished", "stopped",
                                                                 "failed"};

template <typename T>
requires std::integral<T> || std::same_as<T, std::string> Json as_json(const T& value) {
  return value;
}
template <typename T>
requires std::same_as<T, bool> || std::same_as<T, std::string>
void from_json(const Json& json, T& value) {
  json.get_to(value);
}
// All integers of a record are counts or indices; the limit leaves headroom for arithmetic.
template <std::integral T>
requires(!std::same_as<T, bool>) void from_json(const Json& json, T& value) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<T>::max() / 4);
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > kMost)
    throw std::invalid_argument(
        (json.is_primitive() ? json_text(json).substr(0, 30) : "a list or object") +
        " is not a count");
  json.get_to(value);
}

inline Json as_json(RunStatus status) {
  return kStatusNames.at(static_cast<std::size_t>(status));
}
inline void from_json(const Json& json, RunStatus& status) {
  status = value_named<RunStatus>(kStatusNames, json.get<std::string>()).value_or(status);
}

// Without the file itself, of which JSON has the size.
inline Json as_json(const Thumbnail& thumbnail) {
  return {
      {"height", thumbnail.height}, {"width", thumbnail.width}, {"bytes", thumbnail.jpeg.size()}};
}
inline void from_json(const Json& json, Thumbnail& thumbnail) {
  from_json(json.at("height"), thumbnail.height);
  from_json(json.at("width"), thumbnail.width);
}

inline Json as_json(const AnswerBin& bin) {
  return {bin.from, bin.images, bin.right};
}
inline void from_json(const Json& json, AnswerBin& bin) {
  bin.from = json.at(0).get<double>();
  from_json(json.at(1), bin.images);
  from_json(json.at(2), bin.right);
  if (constexpr std::int64_t kMost = std::int64_t{1} << 40; bin.images > kMost || bin.right > kMost)
    throw std::invalid_argument("more answers than a validation set has");
}

// Only nonzero cells, as [truth, guess, count].
inline Json as_json(const ConfusionMatrix& matrix) {
  Json cells = Json::array();
  for (int truth = 0; !matrix.empty() && truth < matrix.num_classes; ++truth)
    for (int guess = 0; guess < matrix.num_classes; ++guess)
      if (matrix.at(truth, guess) > 0) cells.push_back({truth, guess, matrix.at(truth, guess)});
  return {{"num_classes", matrix.num_classes}, {"cells", std::move(cells)}};
}
inline void from_json(const Json& json, ConfusionMatrix& matrix) {
  int size = 0, truth = 0, guess = 0;
  from_json(json.at("num_classes"), size);
  // Memory grows with the square of this number, however small the file is.
  if (size > static_cast<int>(kMaxConfusionClasses))
    throw std::invalid_argument("a confusion matrix with too many classes");
  matrix = empty_matrix(size);
  for (const Json& cell : json.at("cells")) {
    from_json(cell.at(0), truth);
    from_json(cell.at(1), guess);
    if (truth >= size || guess >= size) throw std::invalid_argument("a class out of range");
    from_json(cell.at(2), matrix.at(truth, guess));
  }
}

inline Json as_json(const double (&values)[3]) {
  return {as_json(values[0]), as_json(values[1]), as_json(values[2])};
}
inline void from_json(const Json& json, double (&values)[3]) {
  for (std::size_t i = 0; i < 3; ++i) from_json(json.at(i), values[i]);
}

template <typename T>
Json as_json(const std::optional<T>& value) {
  return value ? as_json(*value) : Json();
}
template <typename T>
void from_json(const Json& json, std::optional<T>& value) {
  if (!json.is_null()) from_json(json, value.emplace());
}

template <typename T>
Json as_json(const std::vector<T>& values) {
  return list_json(values, [](const T& value) { return as_json(value); });
}
template <typename T>
void from_json(const Json& json, std::vector<T>& values) {
  values.clear();
  for (const Json& value : json) from_json(value, values.emplace_back());
}

template <HasFields Record>
Json as_json(const Record& record) {
  Json object = Json::object();
  visit_fields(record, [&](const char* name, const auto& member) {
    if (!says_nothing(member)) object[name] = as_json(member);
  });
  return object;
}
template <HasFields Record>
void from_json(const Json& json, Record& record) {
  if (!json.is_object()) throw std::invalid_argument("expected an object");
  visit_fields(record, [&](const char* name, auto& member) {
    const auto found = json.find(name);
    if (found != json.end()) from_json(*found, member);
  });
}

}  // namespace kiln
