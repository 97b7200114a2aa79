// The options of the commands that write and use models: `kiln init-model`, `score`, `evaluate` and
// `audit`; and those of `kiln train` that describe a network.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/platform/launch_environment.h"
#include "base/text.h"
#include "base/url.h"
#include "cli/rows.h"
#include "model/catalogue.h"

namespace kiln {
namespace {

using enum Canvas;
using enum Effect;

constexpr std::size_t kSha256Digits = 64;

const char* const kWeightsHashHelp =
    "Expected SHA-256 of the --weights file: fail if it differs. Default: the eight digits in the "
    "name of a downloaded file, if it has any.";

Reader<std::string> sha256() {
  Reader<std::string> reader = path("HEX", ValueKind::kText);
  reader.parse = [](const Option& option, const std::string& text, const std::string& where) {
    std::string hash = in_small_letters(text_value(option, text, where));
    if (hash.size() == kSha256Digits && hash.find_first_not_of("0123456789abcdef") == hash.npos)
      return hash;
    refuse_text(where + " is '" + text +
                "', but must be 64 hexadecimal digits, as sha256sum prints them.");
  };
  return reader;
}

// `network`: its name, if it is known already.
void check_weights(Given& given, const std::string& weights, const std::string& network) {
  const KnownNetwork* known = find_network(network);
  if (names_published(weights) && known != nullptr)
    given.check(given.position("weights"), [&] { published_weights(*known, weights); });
  const std::string fault = is_url(weights) && !is_bucket(weights) ? fault_of_url(weights) : "";
  if (!fault.empty())
    given.refuse("weights", "'" + weights + "' cannot be downloaded: " + fault + ".");
  if (given.has("weights-sha256") && !given.has("weights"))
    given.refuse("weights-sha256", "is the hash of a file, but --weights is not given.");
}

const std::string kInitialWeights =
    "Initial weights: `torchvision` or `timm`, what it publishes for the network (torchvision:v2: "
    "a second file); a state dict (.pth or .safetensors), a model directory, model.tar.gz or a "
    "checkpoint; or the https:// URL of a file. Downloads are cached in ~/.cache/kiln/weights. Of "
    "several state dicts in a file, such as state_dict and state_dict_ema, FILE#NAME takes one. ";

// Whether a network allows a variant of its family. One that is unknown is already reported.
bool allows(const std::string& model_name, std::string_view variant) {
  const KnownNetwork* network = find_network(model_name);
  return network == nullptr || network->family().allows(variant);
}

void check_init_model(Given& given, InitModelConfig& config) {
  check_weights(given, config.weights, config.model_name);
  if (config.zero_init_residual && !allows(config.model_name, kZeroInitResidual))
    given.refuse("zero-init-residual", "applies to ResNets only, but the model is " +
                                           config.model_name + ": leave it out.");
  if (config.memory_efficient && !allows(config.model_name, kMemoryEfficient))
    given.refuse("memory-efficient", "applies to DenseNets only, but the model is " +
                                         config.model_name + ": leave it out.");
  if (config.pretrained == true && !given.has("weights"))
    given.refuse("pretrained",
                 "is True, but no weights are given: add --weights torchvision, or a file or its "
                 "URL, or set --pretrained False.",
                 ErrorCode::kFailedToDownloadFiles);
  if (given.has("weights") && config.pretrained == false)
    given.refuse("pretrained", "is False, but --weights is given: leave one of them out.");
}

// ---- score, evaluate, audit ----

template <typename Config>
Row<Config> trained_model_row(const Under& under) {
  return opt(&Config::trained_model_path, "trained-model-path", model_path("DIR"), under,
             "ModelDirectory of a trained model, as written by `kiln train`.")
      .otherwise("model");
}

// The options that score, evaluate and audit have in common.
Rows<PredictionConfig> prediction_rows() {
  using Config = PredictionConfig;
  return {
      opt(&Config::max_bad_images, "max-bad-images", allowance(), {kImages, kParameter},
          "Fail if more images than this (or than this percentage, but at least 1) cannot be "
          "decoded. auto: 3 images or 1 %, whichever is more, but less than half."),
      opt(&Config::precision, "precision", kPrecisions, {kMachine, kParameter},
          "Numeric precision, as in training."),
      opt(&Config::batch_size, "batch-size", from(1, kMillion, "images"), {kMachine, kParameter},
          "Images per batch."),
      opt(&Config::device, "device", kDevices, kMachine,
          "Device to compute on. auto: the GPU if an NVIDIA device is present, else the CPU."),
      opt(&Config::threads, "threads", auto_or(1, 1024, "threads"), kMachine,
          "Compute threads. auto: one per processor."),
      opt(&Config::loader_threads, "loader-threads", auto_or(1, 256, "threads"), kMachine,
          "Threads that load and decode images. auto: one per processor; with a GPU all but two."),
      within(&Config::records, record_rows()),
      within(&Config::records, list_set_rows())};
}

MetricFloor metric_floor(const Option& option, const std::string& text, const std::string& where) {
  const std::size_t sign = std::min(text.find('='), text.size());
  const std::string value = text.substr(std::min(sign + 1, text.size()));
  return {choice_value(option, text.substr(0, sign), where), share_value(option, value, where)};
}

// A whole number from 1 to 999999; 0 for any other text.
int part_number(const std::string& text) {
  const bool is_number = text.find_first_not_of("0123456789") == text.npos;
  return is_number && !text.empty() && text.size() <= 6 ? std::stoi(text) : 0;
}

JobPart part_value(const Option& option, const std::string& text, const std::string& where) {
  text_value(option, text, where);
  if (text == "auto") return part_of_job(0);
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string number = text.substr(0, slash);
  const int count = part_number(text.substr(std::min(slash + 1, text.size())));
  if (number == "auto" && count > 0) return part_of_job(count);
  const JobPart part{.number = part_number(number), .count = count};
  if (part.number >= 1 && part.number <= part.count) return part;
  refuse_text(where + " is '" + excerpt(text) +
              "', but must be K/N with K from 1 to N, such as 3/8, or auto, or auto/N.");
}

void check_part(Given& given, ScoreConfig& config) {
  if (!config.part) return;
  const auto refuse = [&](const std::string& why) { given.refuse("part", why); };
  if (config.output_path.empty())
    refuse("needs a file for the predictions: give --output-path FILE.");
  if (!config.scored_dataset.empty())
    refuse(
        "cannot be used with --scored-dataset, which is one table: score without --part, or to "
        "--output-path scores.parquet.");
  if (!config.explain.empty())
    refuse("cannot be used with --explain, which chooses among all images: score without --part.");
  if (!config.page.empty())
    refuse("cannot be used with --page, which shows all images: score without --part.");
  if (config.files_from == "-")
    refuse("needs to know the number of images: give --files-from a file.");
  // "scores.csv" -> "scores.part-3-of-8.csv", so that no two parts write one file and their names
  // are in the order of their rows. The parts of a Parquet file are in a folder of its name.
  std::filesystem::path path = config.output_path;
  const std::string extension = path.extension().string();
  if (extension.empty()) return;
  const auto num_digits = static_cast<int>(std::to_string(config.part->count).size());
  const std::string name =
      formatted("part-%0*d-of-%d", num_digits, config.part->number, config.part->count) + extension;
  config.output_path =
      (extension == ".parquet" ? path / name : path.replace_extension("." + name)).string();
}

// "links:DIR" is the path DIR to all that asks for it.
void check_sort_into(Given& given, ScoreConfig& config) {
  constexpr std::string_view kLinks = "links:";
  if (config.sort_into.starts_with(kLinks)) {
    GivenValue folder = *given.find("sort-into");
    folder.text.erase(0, kLinks.size());
    std::erase_if(given.values, [](const auto& value) { return value.name() == "sort-into"; });
    given.add(folder);
    if (folder.text.empty()) given.refuse("sort-into", "needs a folder after links:.");
    config.sorts_links = true;
    config.sort_into = given.has("sort-into") ? given.find("sort-into")->text : "";
  }
  given.keep_apart("sort-into", {"trained-model-path", "data-path", "scored-dataset", "explain"});
}

void check_score(Given& given, ScoreConfig& config) {
  check_part(given, config);
  check_sort_into(given, config);
  if (config.data_paths.size() == 1) config.data_path = config.data_paths.front();
  if (config.data_paths.size() > 1 && given.has("files-from"))
    given.refuse("files-from", "and several paths of images are given: add them to the list.");
  given.keep_apart("explain", {"trained-model-path", "data-path", "output-path", "scored-dataset"});
  given.keep_apart("page", {"trained-model-path", "output-path", "scored-dataset", "explain"});
  if (config.answer_at && config.min_confidence)
    given.refuse("answer-at", "and --min-confidence both set the threshold: give one.");
  if (config.answer_at && config.raw)
    given.refuse("answer-at", "uses the calibrated confidence: leave --raw out.");
  if (config.json && !config.output_path.empty())
    given.refuse("json", "prints the rows: leave --output-path out, or give it a name in .jsonl.");
  if (!given.mentions("data-path") && !given.has("files-from"))
    given.refuse("data-path",
                 "PATH is missing: give the images to score, or a list of them with --files-from.");
}

void check_embed(Given& given, EmbedConfig& config) {
  const bool adds = !config.into.empty();
  if (adds && given.has("output-path"))
    given.refuse("output-path", "and --into both say where features go: give one.");
  if (!adds && !given.has("output-path"))
    given.refuse("output-path",
                 "FILE is missing: give a file that ends in .parquet, .npy or .csv, or --into.");
  if (adds != given.has("valid-data-path"))
    given.refuse("valid-data-path", adds ? "PATH is missing: --into needs the validation images."
                                         : "is only for --into: leave it out.");
  if (adds && given.is_set("trained-model-path", ""))
    given.refuse("trained-model-path", "and --into both name a model: give one.");
  given.keep_apart("output-path", {"data-path", "trained-model-path"});
}

void check_select(Given& given, SelectConfig& config) {
  if (in_small_letters(std::filesystem::path(config.output_path).extension().string()) != ".csv")
    given.refuse("output-path", "is a table to fill in: give a file that ends in .csv.");
  given.keep_apart("output-path", {"data-path", "trained-model-path"});
  given.keep_apart("page", {"data-path", "trained-model-path", "output-path"});
}

void check_evaluate(Given& given, EvaluateConfig& config) {
  config.settings = given.settings();
  given.keep_apart("output-path", {"data-path", "trained-model-path"});
  given.keep_apart("explain", {"data-path", "output-path", "trained-model-path"});
  if (config.no_pictures && !config.explain.empty())
    given.refuse("no-pictures", "leaves out what --explain draws: choose one of them.");
}

void imply_export(Given& given, const ExportConfig& config) {
  given.imply("output-path",
              "model." + (config.format == "torchvision" ? std::string("pth") : config.format));
}

void check_export(Given& given, ExportConfig& config) {
  // A file name whose ending means other contents than those of --format is refused.
  constexpr std::string_view kOthers =
      " .pt2 .ts .safetensors .tflite .pb .keras .h5 .mlmodel .mlpackage .engine .plan .xml ";
  const std::string ending =
      in_small_letters(std::filesystem::path(config.output_path).extension().string());
  std::string meant = kOthers.find(" " + ending + " ") == kOthers.npos ? config.format : "";
  if (ending == ".onnx") meant = "onnx";
  if (ending == ".pt" || ending == ".pth") meant = "torchvision";
  if (meant != config.format)
    given.refuse("output-path", "ends in " + ending + ", which --format " + config.format +
                                    " does not write: give another name" +
                                    (meant.empty() ? "." : ", or --format " + meant + "."));
  if (config.format != "onnx")
    for (const char* option : {"input", "half", "alike"})
      if (given.has(option))
        given.refuse(option, "describes an ONNX file: leave it out, or give --format onnx.");
  given.keep_apart("output-path", {"trained-model-path"});
}

void imply_backbone(Given& given, const AuditConfig& config) {
  if (given.has("trained-model-path")) return;
  if (given.has("weights"))
    given.imply("model-name", network_of(config.weights));
  else if (!given.has("model-name") && is_there("model"))
    given.imply("trained-model-path", "model");
}

void check_audit(Given& given, AuditConfig& config) {
  config.settings = given.settings();
  check_weights(given, config.weights, config.model_name);
  const bool has_model = given.has("trained-model-path"), has_name = given.has("model-name"),
             has_weights = given.has("weights");
  if (has_model && (has_name || has_weights))
    given.fault(
        has_name ? "model-name" : "weights",
        "--trained-model-path includes network and weights: leave --model-name and --weights out.");
  if (!has_model && !(has_name && has_weights))
    given.fault("trained-model-path",
                "No pretrained network is given: add --trained-model-path DIR, or --weights "
                "torchvision (or a file or URL; another network with --model-name).");
  if (given.has("labels") && has_several(given))
    given.refuse("labels", "is of one label an image, but --task is multi-label: leave it out.");
  given.keep_apart("output-path", {"data-path", "valid-data-path", "trained-model-path", "labels"});
}

}  // namespace
// All are free, because a run that resumes compares the network and its weights instead.
Rows<NetworkConfig> network_rows() {
  using Config = NetworkConfig;
  return {
      opt(&Config::model_name, "model-name", network_name(/*or_auto=*/true),
          {kModel, kFree, kFirst},
          "Network to train, instead of --untrained-model-path: from --weights or from scratch. "
          "auto: the one in the name of --weights, or, from scratch, by the number of images and "
          "--time-limit. Default: the one in the name of --weights, else resnet18."),
      opt(&Config::weights, "weights", model_path("FILE"), {kModel, kFree, kFirst},
          kInitialWeights + "Matching tensors are loaded; other classes get a new last layer.")};
}

namespace {

// The network whose name the file's name begins with, as a word or several: the longest one, since
// resnet50 begins resnet50_32x4d.
std::string_view network_begun(std::string_view file) {
  std::string_view network = kUsualNetwork, longest;
  for (const KnownNetwork& known : known_networks())
    for (const std::string_view name : {known.name, known.also[0], known.also[1]}) {
      const bool is_word =
          file.starts_with(name) && (file.size() == name.size() ||
                                     std::string_view("-._").find(file[name.size()]) != file.npos);
      if (!is_word || name.size() <= longest.size()) continue;
      longest = name;
      network = known.name;
    }
  return network;
}

}  // namespace

std::string network_of(const std::string& weights) {
  if (names_published(weights)) return std::string(kUsualNetwork);
  // A model directory, or the one of a file, names it. Whether the directory is sound is checked
  // when its weights are read.
  const std::filesystem::path path(weights);
  std::ifstream spec((is_folder(path) ? path : path.parent_path()) / "model_spec.yaml");
  constexpr int kMostLines = 200;
  constexpr std::string_view kKey = "model_name: ";
  const KnownNetwork* stored = nullptr;
  std::string line;
  for (int i = 0; i < kMostLines && std::getline(spec, line); ++i)
    if (const std::size_t at = line.find(kKey); at != line.npos) {
      stored = find_network(line.substr(at + kKey.size()));
      break;
    }
  return std::string(stored != nullptr ? stored->name : network_begun(path.filename().string()));
}

void check_network(Given& given, const NetworkConfig& config) {
  check_weights(given, config.weights, config.model_name);
  if (!given.has("model-name") && given.has("weights"))
    given.refuse(
        "weights",
        "needs the name of the network: give --model-name instead of --untrained-model-path.");
}

CommandInfo init_model_command() {
  using Config = InitModelConfig;
  return command<InitModelConfig>(
      "init-model", "Create a network with random or pretrained weights.",
      "MODEL --untrained-model-path DIR [options]",
      {opt(&Config::model_name, "model-name", network_name(),
           {kModel, kPositional, kRequired, kParameter},
           "Network architecture; the flag name may be omitted."),
       opt(&Config::untrained_model_path, "untrained-model-path", path("DIR"),
           {kPaths, kModelOut, kRequired}, "Output folder for the UntrainedModelDirectory."),
       opt(&Config::weights, "weights", model_path("FILE"), {kModel, kFileIn},
           kInitialWeights +
               "A model keeps its classes; another last layer without 1000 outputs is not loaded."),
       opt(&Config::weights_sha256, "weights-sha256", sha256(), kModel, kWeightsHashHelp),
       opt(&Config::pretrained, "pretrained", true_or_false(), kModel,
           "True requires --weights: Kiln comes with none. Default: True if --weights is given."),
       opt(&Config::zero_init_residual, "zero-init-residual", on_off(), {kModel, kParameter},
           "ResNet only: zero-initialize the last BatchNorm of every residual branch."),
       opt(&Config::memory_efficient, "memory-efficient", on_off(), {kModel, kParameter},
           "DenseNet only: recompute activations in the backward pass to save memory."),
       seed_row<Config>({kModel, kParameter}, "Seed for the initial weights.")},
      check_init_model);
}

CommandInfo audit_command() {
  using Config = AuditConfig;
  return command<AuditConfig>(
      "audit", "Find labels that are probably wrong, duplicates, and dark or blurred images.",
      "PHOTOS [options]",
      {opt(&Config::data_path, "data-path", input_path("PATH"), {kPaths, kPositional, kRequired},
           "Labeled images, in any format that train reads. They are not changed."),
       opt(&Config::valid_data_path, "valid-data-path", input_path("PATH"), kPaths,
           "Validation images, in the same formats: duplicates among them, and of images in "
           "--data-path, are listed too. Their labels are not checked."),
       opt(&Config::labels, "labels", input_path("FILE"), kPaths,
           "Decisions on images of --data-path: an edited doubtful.csv, or another CSV file with "
           "columns path and label, and decision (right, relabel, leave out) if wanted. Images "
           "listed with their label are not doubted again; an empty label leaves one out."),
       opt(&Config::output_path, "output-path", path("DIR"), kPaths,
           "Folder for the page, doubtful.csv, duplicates.csv and audit.json. An earlier audit "
           "there is replaced, unless its doubtful.csv has been edited.")
           .otherwise("audit"),
       opt(&Config::trained_model_path, "trained-model-path", model_path("DIR"), kModel,
           "ModelDirectory of a trained model, of these classes or others: its features are used, "
           "not its predictions. Default: model, if it is there."),
       opt(&Config::model_name, "model-name", network_name(), kModel,
           "Network of --weights, instead of --trained-model-path. Default: the one in their name, "
           "else resnet18."),
       opt(&Config::weights, "weights", model_path("FILE"), kModel,
           "Weights of the network, for any classes: what train accepts as --weights."),
       opt(&Config::weights_sha256, "weights-sha256", sha256(), kModel, kWeightsHashHelp),
       opt(&Config::image_size, "image-size", auto_or(16, 2048, "pixels"), kImages,
           "Height and width of the network's input. auto: the size that the trained model was "
           "trained with, else that of train."),
       opt(&Config::folds, "folds", from(2, 100), kAnswers,
           "Number of cross-validation folds: each is judged by a model trained on the others."),
       opt(&Config::group_by, "group-by", regular_expression(), kAnswers,
           "Images whose paths match with the same text (that of the first group, if there is one) "
           "stay in one fold, such as those of one person. Duplicates always do."),
       opt(&Config::top, "top", from(1, 10'000, "images"), kAnswers,
           "Pictures per list, the most doubtful first: at most 200 on the page, others up to "
           "1,000 in a folder beside it. The files list all."),
       opt(&Config::no_pictures, "no-pictures", on_off(), kAnswers,
           "Leave the pictures of images out of the page."),
       json_row<Config>(kAnswers), seed_row<Config>(kAnswers, "Seed for the folds."),
       within(&Config::prediction, prediction_rows()),
       within(&Config::prediction, within(&PredictionConfig::records, task_rows()))},
      check_audit, {imply_backbone});
}

CommandInfo export_command() {
  using Config = ExportConfig;
  return command<ExportConfig>(
      "export",
      "Write a trained model for other programs: as ONNX, for torchvision, timm or MLflow.",
      "[MODEL] [options]",
      {trained_model_row<Config>({kPaths, kPositional}),
       opt(&Config::output_path, "output-path", path("PATH"), kPaths,
           "The new file or folder; nothing may be there. Default: model.onnx, model.pth or the "
           "folder model.timm or model.mlflow, as --format says."),
       opt(&Config::format, "format", one_of({"onnx", "torchvision", "timm", "mlflow"}), kModel,
           "onnx: a file with the preparation of images, the network and the calibration. "
           "torchvision: a state dict of torchvision's network. timm: a folder that timm loads. "
           "mlflow: a folder with a python_function."),
       opt(&Config::takes_pixels, "input", {{"image", false}, {"pixels", true}}, kModel,
           "What the ONNX model takes. image: uint8 [N, height, width, 3], RGB, of any size. "
           "pixels: float32 [N, 3, height, width], resized, cropped and normalized."),
       opt(&Config::half, "half", on_off(), kModel,
           "Store the weights of the ONNX model as float16, in half the bytes; it computes in "
           "float32."),
       opt(&Config::alike, "alike", on_off(), kModel,
           "Add a last output to the ONNX model: how like the training images an image is, as in "
           "the column alike of score.")},
      check_export, {imply_export});
}

CommandInfo evaluate_command() {
  using Config = EvaluateConfig;
  return command<EvaluateConfig>(
      "evaluate",
      "Evaluate trained models on labeled images: accuracy, calibration, mistakes, an HTML page.",
      "PHOTOS [options]",
      {opt(&Config::trained_model_paths, "trained-model-path", model_path("DIR"),
           {kPaths, kModelIn},
           "ModelDirectory of a trained model, as written by `kiln train`. Repeat it to compare "
           "several models.")
           .otherwise("model"),
       opt(&Config::data_path, "data-path", input_path("PATH"),
           {kPaths, kDataIn, kPositional, kRequired},
           "Labeled images that were used neither for training nor for validation, in any format "
           "that train reads; subfolders are named after classes of the model."),
       opt(&Config::output_path, "output-path", path("DIR"), {kPaths, kDataOut},
           "Folder for the page, the metrics as JSON and CSV, the predictions, and TensorBoard "
           "events. An earlier evaluation there is replaced.")
           .otherwise("evaluation"),
       opt(&Config::explain, "explain", path("DIR"), kPaths,
           "Folder for heat maps of the mistakes on the page: what in the image led to the "
           "prediction. The page shows them too. With several models, each has a subfolder."),
       opt(&Config::no_pictures, "no-pictures", on_off(), kPaths,
           "Leave the pictures of images out of the pages and of TensorBoard."),
       opt(&Config::mlflow_pictures, "mlflow-pictures", on_off(), kPaths,
           "Send the page to MLflow with its pictures of images."),
       json_row<Config>(kPaths),
       opt(&Config::at_least, "at-least",
           Reader<MetricFloor>{{.value_name = "METRIC=P|P%",
                                .choices = {"top1", "top_k", "macro_recall", "macro_f1",
                                            "mean_average_precision", "micro_f1"}},
                               metric_floor},
           kAnswers,
           "Exit with 4 if a model's metric is lower, after all is written; top1=0.9, for example, "
           "or macro_recall=80%. May be repeated."),
       opt(&Config::top_k, "top-k", from(1, kMillion, "classes"), {kAnswers, kParameter},
           "k of the top-k accuracy: an image is correct if its class is among this many most "
           "probable ones; at most all."),
       within(&Config::prediction, prediction_rows())},
      check_evaluate);
}

CommandInfo embed_command() {
  using Config = EmbedConfig;
  return command<Config>(
      "embed",
      "Write what a trained model sees in images, its features: for search, clusters, another "
      "program; or keep those of its training images with it.",
      "PHOTO... --output-path FILE [options]",
      {opt(&Config::data_paths, "data-path", input_path("PATH"), {kPaths, kPositional, kRequired},
           "Images, labeled or not, in any format that score reads. With --into the training "
           "images of that model."),
       trained_model_row<Config>(kPaths),
       opt(&Config::output_path, "output-path", path("FILE"), kPaths,
           "File for the features, a row for each image: .parquet, .csv, or .npy with the names "
           "beside it in .names.csv. Bad images have none (NaN in .npy)."),
       opt(&Config::into, "into", path("DIR"), kPaths,
           "Instead: a trained model to keep features of its own images in, as train does, so "
           "that its answers say which pictures are unlike them."),
       opt(&Config::valid_data_path, "valid-data-path", input_path("PATH"), kPaths,
           "For --into: the validation images of its training."),
       within(&Config::prediction, prediction_rows())},
      check_embed);
}

CommandInfo select_command() {
  using Config = SelectConfig;
  return command<Config>(
      "select", "Choose the images of an unlabeled folder that are worth labeling next.",
      "PHOTO... --output-path FILE [options]",
      {opt(&Config::data_paths, "data-path", input_path("PATH"), {kPaths, kPositional, kRequired},
           "Images without labels, in any format that score reads. Copies of others are left out, "
           "and those that the model was made with."),
       trained_model_row<Config>(kPaths),
       opt(&Config::output_path, "output-path", path("FILE"), {kPaths, kRequired},
           "New table (.csv) of the chosen images, in the order of their worth, with an empty "
           "column label to fill in, for --labels of train."),
       opt(&Config::page, "page", path("FILE"), kPaths,
           "Page with the pictures of up to 200 of them, to label each by a click."),
       opt(&Config::number, "number", from(1, kMillion, "images"), {kAnswers, kParameter},
           "How many images to choose, at most all: those whose labels tell the most about all the "
           "others."),
       within(&Config::prediction, prediction_rows())},
      check_select);
}

CommandInfo score_command() {
  using Config = ScoreConfig;
  CommandInfo info = command<Config>(
      "score", "Classify images with a trained model: the most probable classes with confidence.",
      "PHOTO... [options]",
      {trained_model_row<Config>({kPaths, kModelIn}),
       opt(&Config::data_paths, "data-path", input_path("PATH"), {kPaths, kDataIn, kPositional},
           "Images, labeled or not: a folder of any depth, an archive, a folder of shards, an "
           "ImageDirectory, a COCO folder, or a single image."),
       opt(&Config::files_from, "files-from", input_path("FILE|-"), kPaths,
           "Only the images listed in this file (-: standard input), one path per line, or ended "
           "by zero bytes as of find -print0; relative to --data-path if given, else to the "
           "working directory."),
       opt(&Config::output_path, "output-path", path("FILE"), kPaths,
           "File for the predictions, one row per image, in the order of the images: .csv, .jsonl "
           "or .parquet. Default: readable lines on standard output."),
       opt(&Config::scored_dataset, "scored-dataset", path("DIR"), {kPaths, kDataOut},
           "Folder for the predictions in the format of the designer's Score Image Model, a "
           "DataFrameDirectory; bad images are omitted."),
       opt(&Config::explain, "explain", path("DIR"), kPaths,
           "Folder for heat maps of the images that the model is least sure of and of those it got "
           "wrong: what in the image led to the prediction."),
       opt(&Config::page, "page", path("FILE"), kPaths,
           "Page with the number of answers of each class and up to 200 images with theirs, such "
           "as answers.html."),
       opt(&Config::sort_into, "sort-into", path("[links:]DIR"), kPaths,
           "Folder for copies of the images, with links: for links to them: a folder for each "
           "class, and unsure for images without an answer. Nothing there is replaced."),
       opt(&Config::part, "part", Reader<JobPart>{{.value_name = "K/N|auto|auto/N"}, part_value},
           kPaths,
           "Score only part K of N equal parts, into a file of its own: scores.part-3-of-8.csv. "
           "auto: the part of this task of a Slurm array from 0 or 1, host of a SageMaker job, or "
           "RANK of WORLD_SIZE. auto/N: of a task of any whole array of N, or by "
           "JOB_COMPLETION_INDEX of Kubernetes."),
       opt(&Config::resume, "resume",
           {{"auto", ResumeChoice::kAuto}, {"never", ResumeChoice::kNever}}, kPaths,
           "auto: continue after the rows that a killed job left in --output-path, if it had the "
           "same model, images and options. never: start over."),
       opt(&Config::top_k, "top-k", auto_or(1, kMillion, "classes"), kAnswers,
           "Number of most probable classes to write, at most all. auto: 1 in a file, 3 in "
           "readable lines."),
       opt(&Config::all_classes, "all-classes", on_off(), kAnswers,
           "Write the probability of every class, one column each."),
       opt(&Config::json, "json", flag(), kAnswers,
           "Print the rows as JSON, one object a line, instead of lines for people."),
       opt(&Config::raw, "raw", on_off(), kAnswers,
           "Write the plain softmax, or sigmoid of several labels, as confidence, without the "
           "temperature fitted on the validation images. The labels stay the same, unless "
           "--min-confidence is given. --scored-dataset always holds the plain softmax."),
       answer_rows<Config>(), within(&Config::prediction, prediction_rows())},
      check_score);
  info.instead_of_ranks =
      "`kiln score` is one process for each part of the images: start it with --part 1/8, --part "
      "2/8 and so on, or with --part auto in each task of an array job.";
  return info;
}

}  // namespace kiln
