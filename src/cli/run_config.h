// The configuration of each command: plain values, complete and in range after parsing. Names
// include the unit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/platform/launch_environment.h"
#include "cli/train_config.h"
#include "record/training_record.h"
#include "record/vocabulary.h"

namespace kiln {

// `kiln launch`, and --ranks of `kiln train`.
struct LaunchConfig {
  int ranks = 0;                // 0: auto
  std::vector<RankHost> hosts;  // empty: this host
  DeviceChoice device = DeviceChoice::kAuto;
  std::string log_path = "logs";  // for the ranks, too
  bool log_path_given = false;
  std::vector<std::string> rank_arguments;  // starting with the command
};

// `kiln tune`.
struct TuneConfig {
  int steps = 30;                          // measured steps per trial
  std::string output_path = "tuned.yaml";  // the file to write, for train's --config
  bool learning_rates = false;             // also tries learning rates, judged by the loss
  TrainConfig train;                       // the job
  std::vector<std::string> given;          // options on its command line, without dashes
};

struct InitModelConfig {
  std::string model_name, untrained_model_path;
  std::string weights, weights_sha256;  // a path or a URL, and its hash; empty: none
  std::optional<bool> pretrained;       // must agree with whether there are weights
  bool memory_efficient = false;
  bool zero_init_residual = false;
  std::int64_t random_seed = 1;
};

// How a trained model is run.
struct PredictionConfig {
  RecordOptions records;
  Allowance max_bad_images;
  std::optional<Precision> precision = Precision::kFp32;  // empty: auto
  int batch_size = 64;
  DeviceChoice device = DeviceChoice::kAuto;
  int threads = 0;         // 0: auto
  int loader_threads = 0;  // 0: auto
};

struct ScoreConfig {
  std::string trained_model_path;
  std::string data_path;   // empty: files_from alone names the images
  std::string files_from;  // empty: all images of data_path; "-": standard input
  // If this and `scored_dataset` are empty: readable text to standard output.
  std::string output_path;  // of the part
  std::optional<JobPart> part;
  std::string scored_dataset;  // empty: none
  std::string explain;         // folder for heat maps; empty: none
  int top_k = 0;               // 0: auto
  bool all_classes = false;
  bool raw = false;  // no temperature
  // At most one of the two is set: the confidence required for an answer, or the accuracy that
  // answers must have had on validation.
  std::optional<double> min_confidence, answer_at;
  ResumeChoice resume = ResumeChoice::kAuto;  // never kRequire
  PredictionConfig prediction;
};

struct EvaluateConfig {
  std::vector<std::string> trained_model_paths;
  std::string data_path, output_path;
  std::string explain;  // folder for heat maps; empty: none
  int top_k = 5;
  PredictionConfig prediction;
  OptionTexts effective_options;
};

struct AuditConfig {
  std::string data_path, output_path;
  std::string valid_data_path;  // also searched for copies; empty: none
  // The backbone: a trained model, or a network with its weights.
  std::string trained_model_path, model_name, weights, weights_sha256;
  int image_size = 0;    // 0: the trained model's, or else 224
  std::string group_by;  // a regular expression; empty: none
  int folds = 5;
  int top = 200;  // thumbnails per list
  std::int64_t random_seed = 1;
  PredictionConfig prediction;
  OptionTexts effective_options;
};

struct ConvertConfig {
  std::string input_path, output_path;
  RecordOptions records = {};
};

// `kiln split`.
struct SplitImagesConfig {
  std::string src_path;
  std::string train_path, test_path, output_path;  // either the first two or the last
  double fraction = 0.9;                           // of the first of two parts
  std::vector<std::string> part_names = {"train", "test"}, part_paths;  // two or three
  std::vector<double> fractions;                                        // of each part
  bool stratify = true;
  std::string group_by;  // a regular expression; empty: none
  bool keep_duplicates_together = false;
  bool check_leaks = false;
  std::int64_t random_seed = 42;
  RecordOptions records = {};
};

struct PackConfig {
  std::string input_path, output_path;
  RecordOptions records = {};
  ShardFormat format = ShardFormat::kTar;
  int shard_mb = 256;
  int short_side = 0;  // 0: as stored
  int quality = 92;
  bool shuffle = false;
  bool even_shards = false;
  bool balance_classes = false;
  std::int64_t random_seed = 1;
};

struct TransformInitConfig {
  std::string output_path;
  // By option: whether an operation is added, and the arguments of operations as JSON.
  std::map<std::string, bool> switches = {};
  std::map<std::string, std::string> arguments = {{"size", "256"},
                                                  {"crop-size", "224"},
                                                  {"padding", "0"},
                                                  {"random-resized-crop-size", "256"},
                                                  {"random-crop-size", "224"},
                                                  {"random-rotation-degrees", "0"},
                                                  {"random-affine-degrees", "0"}};
  // What follows from them.
  std::string operations;            // JSON, as in `_transforms.json`
  std::vector<std::string> ignored;  // the designer's switches that have no effect there either
};

struct TransformApplyConfig {
  bool for_inference = false;
  std::string transform_path, image_path, output_path;
  std::int64_t random_seed = 0;
  int loader_threads = 0;  // 0: auto
  RecordOptions records = {};
};

struct DemoDataConfig {
  std::string output_path;
  int images = 600;
  int classes = 3;
  int size = 32;
  std::int64_t random_seed = 1;
};

// A training step whose speed is measured.
struct StepConfig {
  std::string model_name;
  int batch_size = 16;
  int size = 0;
  int classes = 0;
  int steps = 5;
  std::optional<Precision> precision = Precision::kFp32;  // empty: auto
  DeviceChoice device = DeviceChoice::kAuto;
};

struct InspectConfig {
  std::string path;
  bool json = false;
  bool check = false;
  std::string valid_data_path = {};  // searched for copies of images; empty: none
  // Options of the sheet of augmented images, which is written instead of the report.
  std::optional<Augment> augment = {};  // empty: no sheet
  std::string output_path = {};
  int image_size = 0;  // 0: auto
  std::int64_t random_seed = 1;
  // A training job on the images whose speed is measured and reported; without a network: none.
  StepConfig pace = {};
  int epochs = 5;  // epochs of that job
  RecordOptions records = {};
};

struct ReportConfig {
  std::string log_path;     // the log folder, or the metrics.jsonl in it
  std::string output_path;  // empty: in the log folder
};

struct CompareConfig {
  std::vector<std::string> log_paths;
  std::string output_path = "compare.html";
};

struct WatchConfig {
  std::string log_path;
};

struct DescribeConfig {
  std::string format, command = "train";
  std::string image;  // empty: kiln, tagged with this version
};

// Throws Error kParameterParsing if images would be resized to a short side that is smaller than
// the center crop. 0: not given.
void check_eval_size(int short_side, int crop);

struct HelpRequest {
  std::string text;
  bool asked_for = true;  // print it and exit 0; otherwise to standard error, exit 2
};
struct VersionRequest {};

// tools/commands.h has a run() for each.
using Command =
    std::variant<TrainConfig, ScoreConfig, EvaluateConfig, AuditConfig, LaunchConfig, TuneConfig,
                 InitModelConfig, ConvertConfig, SplitImagesConfig, TransformInitConfig,
                 TransformApplyConfig, PackConfig, DemoDataConfig, InspectConfig, WatchConfig,
                 DescribeConfig, ReportConfig, CompareConfig, HelpRequest, VersionRequest>;

}  // namespace kiln
