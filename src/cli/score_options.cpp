// The options of `kiln score`, `kiln evaluate` and `kiln audit`, and the structs that hold their
// values.
#include <algorithm>
#include <filesystem>

#include "base/platform/launch_environment.h"
#include "base/text.h"
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

const std::string kAnswers = "Answers";

Option share(std::string name, std::string help) {
  return {.name = std::move(name),
          .value_name = "P|P%",
          .default_text = "",
          .unit = "",
          .group = kAnswers,
          .help = std::move(help),
          .kind = ValueKind::kShare};
}

// Appends the options that score, evaluate and audit have in common.
std::vector<Option> with_prediction_options(std::vector<Option> options) {
  const std::vector<Option> common = {
      max_bad_images("Fail if more images than this (or than this percentage, but at least 1) "
                     "cannot be decoded. Until then each one is logged with its reason."),
      precision(kMachine, "Numeric precision, as in training."),
      integer("batch-size", "64", 1, kMillion, "images", kMachine, "Images per batch."),
      choice("device", {"auto", "cuda", "cpu"}, kMachine,
             "Device to compute on. auto: the GPU if an NVIDIA device is present, else the CPU."),
      integer("threads", "auto", 1, 1024, "threads", kMachine,
              "Compute threads. auto: one per processor."),
      integer(
          "loader-threads", "auto", 1, 256, "threads", kMachine,
          "Threads that load and decode images. auto: one per processor; with a GPU all but two."),
  };
  options.insert(options.end(), common.begin(), common.end());
  const std::vector<Option> records = record_options();
  options.insert(options.end(), records.begin(), records.end());
  return options;
}

PredictionConfig bind_prediction(Binder& binder) {
  PredictionConfig config;
  config.max_bad_images = binder.allowance("max-bad-images");
  config.precision = precision_named(binder.choice("precision"));
  config.batch_size = binder.small_integer("batch-size");
  config.device = binder.device();
  config.threads = binder.small_integer("threads");
  config.loader_threads = binder.small_integer("loader-threads");
  config.records = bind_records(binder);
  return config;
}

std::vector<Option> score_options() {
  std::vector<Option> options = {
      required_path("trained-model-path", "DIR",
                    "ModelDirectory of a trained model, as written by `kiln train`."),
      optional_path("data-path", "PATH", "", kPaths,
                    "Images, labeled or not: a folder of any depth, an archive, a folder of "
                    "shards, an ImageDirectory, a COCO folder, or a single image."),
      optional_path("files-from", "FILE|-", "", kPaths,
                    "Only the images listed in this file (-: standard input), one path per line, "
                    "relative to --data-path if given, else to the working directory."),
      optional_path("output-path", "FILE", "", kPaths,
                    "File for the predictions, one row per image, in the order of the images: "
                    ".csv, .jsonl or .parquet. Default: readable lines on standard output."),
      optional_path("scored-dataset", "DIR", "", kPaths,
                    "Folder for the predictions in the format of the designer's Score Image Model, "
                    "a DataFrameDirectory; bad images are omitted."),
      optional_path("explain", "DIR", "", kPaths,
                    "Folder for heat maps of the images that the model is least sure of and of "
                    "those it got wrong: what in the image led to the prediction."),
      optional_path("part", "K/N|auto|auto/N", "", kPaths,
                    "Score only part K of N equal parts, into a file of its own: "
                    "scores.part-3-of-8.csv. auto: the part of this task of a Slurm array, host of "
                    "a SageMaker job, or RANK of WORLD_SIZE. auto/N: by JOB_COMPLETION_INDEX of "
                    "Kubernetes."),
      choice("resume", {"auto", "never"}, kPaths,
             "auto: continue after the rows that a killed job left in --output-path, if it had the "
             "same model, images and options. never: start over."),
      integer("top-k", "auto", 1, kMillion, "classes", kAnswers,
              "Number of most probable classes to write, at most all. auto: 1 in a file, 3 in "
              "readable lines."),
      yes_or_no("all-classes", ValueKind::kSwitch, "False", kAnswers,
                "Write the probability of every class, one column each."),
      yes_or_no("raw", ValueKind::kSwitch, "False", kAnswers,
                "Use the plain softmax as confidence, without the temperature fitted on the "
                "validation images. --scored-dataset always holds the plain softmax."),
      share("min-confidence",
            "Confidence threshold: below it the label is empty, and the column guess holds the "
            "most probable class."),
      share("answer-at",
            "The same, at the threshold that gave this accuracy on the validation images of "
            "training. A lower value answers more images."),
  };
  return with_prediction_options(std::move(options));
}

// A whole number from 1 to 999999; 0 for any other text.
int part_number(const std::string& text) {
  const bool is_number =
      !text.empty() && text.size() <= 6 &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? std::stoi(text) : 0;
}

JobPart part_value(const std::string& text) {
  if (text == "auto") return part_of_job();
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string number = text.substr(0, slash);
  const int count = part_number(text.substr(std::min(slash + 1, text.size())));
  if (number == "auto" && count > 0) return part_of_indexed_job(count);
  const JobPart part{.number = part_number(number), .count = count};
  if (part.number >= 1 && part.number <= part.count) return part;
  throw Error(ErrorCode::kParameterParsing,
              "--part is '" + excerpt(text) +
                  "', but must be K/N with K from 1 to N, such as 3/8, or auto, or auto/N.");
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

void bind_part(Binder& binder, ScoreConfig& config) {
  const std::string text = binder.path("part");
  if (text.empty()) return;
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
  binder.check("part", [&] { config.part = part_value(text); });
  if (config.part) config.output_path = path_of_part(config.output_path, *config.part);
}

Command bind_score(Binder& binder) {
  ScoreConfig config;
  config.trained_model_path = binder.path("trained-model-path");
  config.data_path = binder.path("data-path");
  config.files_from = binder.path("files-from");
  config.output_path = binder.path("output-path");
  config.scored_dataset = binder.path("scored-dataset");
  config.explain = binder.path("explain");
  if (binder.choice("resume") == "never") config.resume = ResumeChoice::kNever;
  config.top_k = binder.small_integer("top-k");
  config.all_classes = binder.boolean("all-classes");
  config.raw = binder.boolean("raw");
  config.min_confidence = binder.share("min-confidence");
  config.answer_at = binder.share("answer-at");
  config.prediction = bind_prediction(binder);
  bind_part(binder, config);
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
  return config;
}

std::vector<Option> evaluate_options() {
  Option models = required_path("trained-model-path", "DIR",
                                "ModelDirectory of a trained model, as written by `kiln train`. "
                                "Repeat it to compare several models.");
  models.repeatable = true;
  std::vector<Option> options = {
      std::move(models),
      required_path("data-path", "PATH",
                    "Labeled images that were used neither for training nor for validation, in any "
                    "format that train reads; subfolders are named after classes of the model."),
      required_path("output-path", "DIR",
                    "Folder for the page, the metrics as JSON and CSV, the predictions, and "
                    "TensorBoard events. An earlier evaluation there is replaced."),
      optional_path(
          "explain", "DIR", "", kPaths,
          "Folder for heat maps of the mistakes on the page: what in the image led to the "
          "prediction. The page shows them too. With several models, each has a subfolder."),
      integer("top-k", "5", 1, kMillion, "classes", kAnswers,
              "k of the top-k accuracy: an image is correct if its class is among this many most "
              "probable ones; at most all."),
  };
  return with_prediction_options(std::move(options));
}

Command bind_evaluate(Binder& binder) {
  EvaluateConfig config;
  config.trained_model_paths = binder.paths("trained-model-path");
  config.data_path = binder.path("data-path");
  config.output_path = binder.path("output-path");
  config.explain = binder.path("explain");
  config.top_k = binder.small_integer("top-k");
  config.prediction = bind_prediction(binder);
  config.effective_options = binder.effective_options();
  require_apart(binder, "output-path", config.output_path, "data-path", config.data_path);
  require_apart(binder, "explain", config.explain, "data-path", config.data_path);
  require_apart(binder, "explain", config.explain, "output-path", config.output_path);
  for (const std::string& model : config.trained_model_paths) {
    require_apart(binder, "output-path", config.output_path, "trained-model-path", model);
    require_apart(binder, "explain", config.explain, "trained-model-path", model);
  }
  return config;
}

std::vector<Option> audit_options() {
  std::vector<Option> options = {
      required_path("data-path", "PATH",
                    "Labeled images, in any format that train reads. They are not changed."),
      optional_path("valid-data-path", "PATH", "", kPaths,
                    "Validation images, in the same formats: duplicates among them, and of images "
                    "in --data-path, are listed too. Their labels are not checked."),
      required_path("output-path", "DIR",
                    "Folder for the page, doubtful.csv, duplicates.csv and audit.json. An earlier "
                    "audit there is replaced, unless its doubtful.csv has been edited."),
      optional_path("trained-model-path", "DIR", "", kModel,
                    "ModelDirectory of a trained model, of these classes or others: its features "
                    "are used, not its predictions."),
      network_name("Network of --weights, instead of --trained-model-path."),
      optional_path("weights", "FILE", "", kModel,
                    "Weights of the network, for any classes: what train accepts as --weights."),
      weights_sha256(),
      integer("image-size", "auto", 16, 2048, "pixels", kImages,
              "Height and width of the network's input. auto: the size that the trained model was "
              "trained with, else 224."),
      integer("folds", "5", 2, 100, "", kAnswers,
              "Number of cross-validation folds: each is judged by a model trained on the others."),
      optional_path(
          "group-by", "REGEX", "", kAnswers,
          "Images whose paths match with the same text (that of the first group, if there is one) "
          "stay in one fold, such as those of one person. Duplicates always do."),
      integer("top", "200", 1, 10'000, "images", kAnswers,
              "Images per list on the page, the most doubtful first. The files list all."),
      seed(kAnswers, "Seed for the folds."),
  };
  return with_prediction_options(std::move(options));
}

void check_backbone(Binder& binder, const AuditConfig& config) {
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
  check_group_by(binder, config.group_by);
}

Command bind_audit(Binder& binder) {
  AuditConfig config;
  config.data_path = binder.path("data-path");
  config.valid_data_path = binder.path("valid-data-path");
  config.output_path = binder.path("output-path");
  config.trained_model_path = binder.path("trained-model-path");
  config.model_name = binder.choice("model-name");
  config.weights = binder.path("weights");
  config.weights_sha256 = bind_weights_sha256(binder, config.weights);
  config.image_size = binder.small_integer("image-size");
  config.group_by = binder.path("group-by");
  config.folds = binder.small_integer("folds");
  config.top = binder.small_integer("top");
  config.random_seed = binder.integer("random-seed");
  config.prediction = bind_prediction(binder);
  config.effective_options = binder.effective_options();
  check_backbone(binder, config);
  require_apart(binder, "output-path", config.output_path, "data-path", config.data_path);
  require_apart(binder, "output-path", config.output_path, "valid-data-path",
                config.valid_data_path);
  require_apart(binder, "output-path", config.output_path, "trained-model-path",
                config.trained_model_path);
  return config;
}

}  // namespace

CommandInfo audit_command() {
  return {"audit",
          "Find labels that are probably wrong, duplicates, outliers, and dark or blurred images.",
          "--data-path PATH --trained-model-path DIR --output-path DIR [options]", audit_options(),
          bind_audit};
}

CommandInfo evaluate_command() {
  return {
      "evaluate",
      "Evaluate trained models on labeled images: accuracy, calibration, mistakes, an HTML page.",
      "--trained-model-path DIR --data-path PATH --output-path DIR [options]", evaluate_options(),
      bind_evaluate};
}

CommandInfo score_command() {
  return {"score",
          "Classify images with a trained model: the most probable classes with confidence.",
          "--trained-model-path DIR --data-path PATH [options]",
          score_options(),
          bind_score,
          "`kiln score` is one process for each part of the images: start it with --part 1/8, "
          "--part 2/8 and so on, or with --part auto in each task of an array job."};
}

}  // namespace kiln
