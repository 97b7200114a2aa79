// The options of `kiln score`, `kiln evaluate` and `kiln audit`.
#include <algorithm>
#include <filesystem>

#include "base/platform/launch_environment.h"
#include "base/text.h"
#include "cli/command_rows.h"

namespace kiln {
namespace {

using enum Canvas;

// The options that score, evaluate and audit have in common.
Rows<PredictionConfig> prediction_rows() {
  using Config = PredictionConfig;
  return {
      opt(&Config::max_bad_images, "max-bad-images", allowance(), kImages,
          "Fail if more images than this (or than this percentage, but at least 1) cannot be "
          "decoded. Until then each one is logged with its reason.")
          .is(kParameter),
      opt(&Config::precision, "precision", kPrecisions, kMachine,
          "Numeric precision, as in training.")
          .is(kParameter),
      opt(&Config::batch_size, "batch-size", from(1, kMillion, "images"), kMachine,
          "Images per batch.")
          .is(kParameter),
      opt(&Config::device, "device", kDevices, kMachine,
          "Device to compute on. auto: the GPU if an NVIDIA device is present, else the CPU."),
      opt(&Config::threads, "threads", auto_or(1, 1024, "threads"), kMachine,
          "Compute threads. auto: one per processor."),
      opt(&Config::loader_threads, "loader-threads", auto_or(1, 256, "threads"), kMachine,
          "Threads that load and decode images. auto: one per processor; with a GPU all but two."),
      within(&Config::records, record_rows()),
  };
}

// A whole number from 1 to 999999; 0 for any other text.
int part_number(const std::string& text) {
  const bool is_number =
      !text.empty() && text.size() <= 6 &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? std::stoi(text) : 0;
}

JobPart part_value(const Option& option, const std::string& text, const std::string& where) {
  path_value(option, text, where);
  if (text == "auto") return part_of_job();
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string number = text.substr(0, slash);
  const int count = part_number(text.substr(std::min(slash + 1, text.size())));
  if (number == "auto" && count > 0) return part_of_indexed_job(count);
  const JobPart part{.number = part_number(number), .count = count};
  if (part.number >= 1 && part.number <= part.count) return part;
  throw Error(ErrorCode::kParameterParsing,
              where + " is '" + excerpt(text) +
                  "', but must be K/N with K from 1 to N, such as 3/8, or auto, or auto/N.");
}

Reader<JobPart> part() {
  return {{.value_name = "K/N|auto|auto/N"}, part_value, [](const Option&, const JobPart&) {
            return std::string();
          }};
}

Rows<ScoreConfig> score_rows() {
  using Config = ScoreConfig;
  return {
      opt(&Config::trained_model_path, "trained-model-path", path("DIR"), kPaths,
          "ModelDirectory of a trained model, as written by `kiln train`.")
          .required()
          .is(kModelIn),
      opt(&Config::data_path, "data-path", path("PATH"), kPaths,
          "Images, labeled or not: a folder of any depth, an archive, a folder of shards, an "
          "ImageDirectory, a COCO folder, or a single image.")
          .is(kDataIn),
      opt(&Config::files_from, "files-from", path("FILE|-"), kPaths,
          "Only the images listed in this file (-: standard input), one path per line, relative to "
          "--data-path if given, else to the working directory."),
      opt(&Config::output_path, "output-path", path("FILE"), kPaths,
          "File for the predictions, one row per image, in the order of the images: .csv, .jsonl "
          "or .parquet. Default: readable lines on standard output."),
      opt(&Config::scored_dataset, "scored-dataset", path("DIR"), kPaths,
          "Folder for the predictions in the format of the designer's Score Image Model, a "
          "DataFrameDirectory; bad images are omitted.")
          .is(kDataOut),
      opt(&Config::explain, "explain", path("DIR"), kPaths,
          "Folder for heat maps of the images that the model is least sure of and of those it got "
          "wrong: what in the image led to the prediction."),
      opt(&Config::part, "part", part(), kPaths,
          "Score only part K of N equal parts, into a file of its own: scores.part-3-of-8.csv. "
          "auto: the part of this task of a Slurm array, host of a SageMaker job, or RANK of "
          "WORLD_SIZE. auto/N: by JOB_COMPLETION_INDEX of Kubernetes."),
      opt(&Config::resume, "resume",
          {{"auto", ResumeChoice::kAuto}, {"never", ResumeChoice::kNever}}, kPaths,
          "auto: continue after the rows that a killed job left in --output-path, if it had the "
          "same model, images and options. never: start over."),
      opt(&Config::top_k, "top-k", auto_or(1, kMillion, "classes"), kAnswers,
          "Number of most probable classes to write, at most all. auto: 1 in a file, 3 in readable "
          "lines."),
      opt(&Config::all_classes, "all-classes", on_off(), kAnswers,
          "Write the probability of every class, one column each."),
      opt(&Config::raw, "raw", on_off(), kAnswers,
          "Use the plain softmax as confidence, without the temperature fitted on the validation "
          "images. --scored-dataset always holds the plain softmax."),
      opt(&Config::min_confidence, "min-confidence", share("P|P%"), kAnswers,
          "Confidence threshold: below it the label is empty, and the column guess holds the most "
          "probable class."),
      opt(&Config::answer_at, "answer-at", share("P|P%"), kAnswers,
          "The same, at the threshold that gave this accuracy on the validation images of "
          "training. A lower value answers more images."),
      within(&Config::prediction, prediction_rows()),
  };
}

// "scores.csv" -> "scores.part-3-of-8.csv", so that no two parts write one file and their names are
// in the order of their rows. The parts of a Parquet file are in a folder of its name.
std::string path_of_part(const std::string& whole, const JobPart& part) {
  std::filesystem::path path = whole;
  const std::string extension = path.extension().string();
  if (extension.empty()) return whole;
  const auto num_digits = static_cast<int>(std::to_string(part.count).size());
  const std::string name =
      formatted("part-%0*d-of-%d", num_digits, part.number, part.count) + extension;
  return (extension == ".parquet" ? path / name : path.replace_extension("." + name)).string();
}

void check_part(Binder& binder, ScoreConfig& config) {
  if (!config.part) return;
  const auto refuse = [&](const std::string& why) {
    binder.fault("part", ErrorCode::kParameterParsing, "--part " + why);
  };
  if (config.output_path.empty())
    refuse("needs a file for the predictions: give --output-path FILE.");
  if (!config.scored_dataset.empty())
    refuse(
        "cannot be used with --scored-dataset, which is one table: score without --part, or to "
        "--output-path scores.parquet.");
  if (!config.explain.empty())
    refuse("cannot be used with --explain, which chooses among all images: score without --part.");
  if (config.files_from == "-")
    refuse("needs to know the number of images: give --files-from a file.");
  config.output_path = path_of_part(config.output_path, *config.part);
}

void check_score(Binder& binder, ScoreConfig& config) {
  check_part(binder, config);
  require_apart(binder, "explain", config.explain, "trained-model-path", config.trained_model_path);
  require_apart(binder, "explain", config.explain, "data-path", config.data_path);
  require_apart(binder, "explain", config.explain, "output-path", config.output_path);
  require_apart(binder, "explain", config.explain, "scored-dataset", config.scored_dataset);
  if (config.answer_at && config.min_confidence)
    binder.fault("answer-at", ErrorCode::kParameterParsing,
                 "--answer-at and --min-confidence both set the threshold: give one.");
  if (config.answer_at && config.raw)
    binder.fault("answer-at", ErrorCode::kParameterParsing,
                 "--answer-at uses the calibrated confidence: leave --raw out.");
  if (!binder.given("data-path") && !binder.given("files-from"))
    binder.fault("data-path", ErrorCode::kParameterParsing,
                 "--data-path PATH is missing: give the images to score, or a list of them with "
                 "--files-from.");
}

Rows<EvaluateConfig> evaluate_rows() {
  using Config = EvaluateConfig;
  return {
      opt(&Config::trained_model_paths, "trained-model-path", path("DIR"), kPaths,
          "ModelDirectory of a trained model, as written by `kiln train`. Repeat it to compare "
          "several models.")
          .required()
          .is(kModelIn),
      opt(&Config::data_path, "data-path", path("PATH"), kPaths,
          "Labeled images that were used neither for training nor for validation, in any format "
          "that train reads; subfolders are named after classes of the model.")
          .required()
          .is(kDataIn),
      opt(&Config::output_path, "output-path", path("DIR"), kPaths,
          "Folder for the page, the metrics as JSON and CSV, the predictions, and TensorBoard "
          "events. An earlier evaluation there is replaced.")
          .required()
          .is(kDataOut),
      opt(&Config::explain, "explain", path("DIR"), kPaths,
          "Folder for heat maps of the mistakes on the page: what in the image led to the "
          "prediction. The page shows them too. With several models, each has a subfolder."),
      opt(&Config::top_k, "top-k", from(1, kMillion, "classes"), kAnswers,
          "k of the top-k accuracy: an image is correct if its class is among this many most "
          "probable ones; at most all.")
          .is(kParameter),
      within(&Config::prediction, prediction_rows()),
  };
}

void check_evaluate(Binder& binder, EvaluateConfig& config) {
  config.effective_options = binder.effective_options();
  require_apart(binder, "output-path", config.output_path, "data-path", config.data_path);
  require_apart(binder, "explain", config.explain, "data-path", config.data_path);
  require_apart(binder, "explain", config.explain, "output-path", config.output_path);
  for (const std::string& model : config.trained_model_paths) {
    require_apart(binder, "output-path", config.output_path, "trained-model-path", model);
    require_apart(binder, "explain", config.explain, "trained-model-path", model);
  }
}

Rows<AuditConfig> audit_rows() {
  using Config = AuditConfig;
  return {
      opt(&Config::data_path, "data-path", path("PATH"), kPaths,
          "Labeled images, in any format that train reads. They are not changed.")
          .required(),
      opt(&Config::valid_data_path, "valid-data-path", path("PATH"), kPaths,
          "Validation images, in the same formats: duplicates among them, and of images in "
          "--data-path, are listed too. Their labels are not checked."),
      opt(&Config::output_path, "output-path", path("DIR"), kPaths,
          "Folder for the page, doubtful.csv, duplicates.csv and audit.json. An earlier audit "
          "there is replaced, unless its doubtful.csv has been edited.")
          .required(),
      opt(&Config::trained_model_path, "trained-model-path", path("DIR"), kModel,
          "ModelDirectory of a trained model, of these classes or others: its features are used, "
          "not its predictions."),
      opt(&Config::model_name, "model-name", network_name(), kModel,
          "Network of --weights, instead of --trained-model-path."),
      opt(&Config::weights, "weights", path("FILE"), kModel,
          "Weights of the network, for any classes: what train accepts as --weights."),
      opt(&Config::weights_sha256, "weights-sha256", sha256(), kModel, kWeightsHashHelp),
      opt(&Config::image_size, "image-size", auto_or(16, 2048, "pixels"), kImages,
          "Height and width of the network's input. auto: the size that the trained model was "
          "trained with, else 224."),
      opt(&Config::folds, "folds", from(2, 100), kAnswers,
          "Number of cross-validation folds: each is judged by a model trained on the others."),
      opt(&Config::group_by, "group-by", regular_expression(), kAnswers,
          "Images whose paths match with the same text (that of the first group, if there is one) "
          "stay in one fold, such as those of one person. Duplicates always do."),
      opt(&Config::top, "top", from(1, 10'000, "images"), kAnswers,
          "Images per list on the page, the most doubtful first. The files list all."),
      seed_row<Config>(kAnswers, "Seed for the folds."),
      within(&Config::prediction, prediction_rows()),
  };
}

void check_backbone(Binder& binder, const AuditConfig& config) {
  check_weights(binder, config.weights);
  check_weights_hash(binder);
  const bool has_model = binder.given("trained-model-path"), has_name = binder.given("model-name"),
             has_weights = binder.given("weights");
  if (has_model && (has_name || has_weights))
    binder.fault(
        has_name ? "model-name" : "weights", ErrorCode::kParameterParsing,
        "--trained-model-path includes network and weights: leave --model-name and --weights out.");
  if (!has_model && !(has_name && has_weights))
    binder.fault("trained-model-path", ErrorCode::kParameterParsing,
                 "No pretrained network is given: add --trained-model-path DIR, or --model-name "
                 "MODEL and --weights FILE.");
}

void check_audit(Binder& binder, AuditConfig& config) {
  config.effective_options = binder.effective_options();
  check_backbone(binder, config);
  require_apart(binder, "output-path", config.output_path, "data-path", config.data_path);
  require_apart(binder, "output-path", config.output_path, "valid-data-path",
                config.valid_data_path);
  require_apart(binder, "output-path", config.output_path, "trained-model-path",
                config.trained_model_path);
}

}  // namespace

CommandInfo audit_command() {
  return command(
      "audit",
      "Find labels that are probably wrong, duplicates, outliers, and dark or blurred images.",
      "--data-path PATH --trained-model-path DIR --output-path DIR [options]", audit_rows(),
      check_audit);
}

CommandInfo evaluate_command() {
  return command(
      "evaluate",
      "Evaluate trained models on labeled images: accuracy, calibration, mistakes, an HTML page.",
      "--trained-model-path DIR --data-path PATH --output-path DIR [options]", evaluate_rows(),
      check_evaluate);
}

CommandInfo score_command() {
  CommandInfo info = command(
      "score", "Classify images with a trained model: the most probable classes with confidence.",
      "--trained-model-path DIR --data-path PATH [options]", score_rows(), check_score);
  info.instead_of_ranks =
      "`kiln score` is one process for each part of the images: start it with --part 1/8, "
      "--part 2/8 and so on, or with --part auto in each task of an array job.";
  return info;
}

}  // namespace kiln
