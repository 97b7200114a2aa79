// The configuration of each command: plain values, complete and in range once parsed. Names include
// the unit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/augment_set.h"
#include "base/record_options.h"
#include "base/training_record.h"
#include "base/vocabulary.h"
#include "config/bench_config.h"
#include "config/recipe_config.h"

namespace kiln {

enum class SaveChoice { kBest, kLast };
enum class NormalizationChoice { kAuto, kHalf, kImagenet };
enum class OnBadImage { kSkip, kFail };

// A count, or a share of all images rounded down.
struct Allowance {
  double value = 0.01;
  bool is_share = true;
  // A share is rounded down, but not to 0.
  std::int64_t of(std::int64_t total) const;
};

// The factor on the learning rate for `num_ranks` processes.
struct RateScaling {
  enum class Rule { kLinear, kSqrt, kFactor };
  Rule rule = Rule::kLinear;
  double factor = 1;  // of kFactor
  double of(int num_ranks) const;
};

// The last layers of a network that is trained from given weights: one for the classes, or
// ImageNet's 1000 outputs and a linear layer behind them, as in the designer's component.
enum class HeadChoice { kAuto, kTorchvision, kDesigner };

// The network to train, and its first weights, where no directory has them.
struct NetworkConfig {
  std::string model_name;               // empty: that of untrained_model_path
  std::string weights, weights_sha256;  // a path or a URL, and its hash; empty: fresh ones
  bool zero_init_residual = false;
  bool memory_efficient = false;
  HeadChoice head = HeadChoice::kAuto;
};

// How one dataset becomes training and validation images.
struct SplitConfig {
  std::string data_path;  // empty: the two are given separately
  double valid_fraction = 0.2;
  bool all_train = false;  // with --folds: then none is for validation alone
  std::string group_by;    // a regular expression; empty: none
  std::string file;        // a split.csv; empty: none
  std::string labels;      // a file of labels; empty: none
};

// What is read, and how images become pixels.
struct DataConfig {
  // With split.data_path, both data paths are that one.
  std::string untrained_model_path, train_path, valid_path;
  SplitConfig split;
  RecordOptions records;
  NetworkConfig network;
  std::string index_path;      // empty: in the user's cache
  std::string transform_path;  // a TransformationDirectory, in place of the four below; or empty
  int image_size = 0;          // at the end of training; 0: auto
  int first_image_size = 0;    // grows from this one; 0: it is always the same
  Augment augment = Augment::kNone;
  int eval_resize = 0;  // 0: auto
  int eval_crop = 0;    // 0: auto, or larger
  bool larger_eval_crop = false;
  NormalizationChoice normalization = NormalizationChoice::kAuto;
  CachePolicy cache = CachePolicy::kAuto;
  std::int64_t cache_bytes = 0;  // 0: auto
  int read_ahead = 0;            // 0: auto
  int loader_threads = 0;        // 0: auto
  int read_threads = 0;          // 0: auto
  OnBadImage on_bad_image = OnBadImage::kSkip;
  Allowance max_bad_images;
  bool scan_each = false;  // each rank scans the datasets; else rank 0 scans for all
  // Each host has different images (--shard-by); then each rank scans.
  bool has_train_shard = false, has_valid_shard = false;
};

// How the training objective weights an image by its class: not; by one over the number of the
// class's images; by the square root of that.
enum class ClassWeights { kNone, kSqrt, kBalanced };
// Which images an epoch has: each once, or as many of each class.
enum class Sampling { kShuffle, kBalanced };

// Of a run whose time is limited and that has no --epochs.
inline constexpr int kMostEpochsInTime = 90;

// --auto: whether the head is fitted to the features of the frozen network first, and all of it is
// fine-tuned then. kIfFewImages: where there are given weights and few images.
enum class AutoChoice { kNo, kIfFewImages, kYes };

struct AutoConfig {
  AutoChoice choice = AutoChoice::kNo;
  std::string why_not = {};  // of kNo, where --auto would be on by default but for other options
  // Those that are not given.
  bool sets_learning_rate = true, sets_augment = true;
};

// How the weights are optimized, and which are saved.
struct OptimizationConfig {
  int epochs = 5;  // at most, with a time limit; of which `steps` may train a part
  bool epochs_given = false;
  std::int64_t steps = 0;       // optimizer steps in all; 0: those of the epochs
  double time_limit_s = 0;      // 0: none
  int batch_size = 16;          // per rank
  int accumulate = 1;           // batches per step
  double num_warmup_steps = 0;  // epochs, despite its name
  double learning_rate = 0.001;
  std::optional<double> head_learning_rate;  // empty: as the others'
  Freeze freeze = Freeze::kNone;
  int folds = 0;  // that judge the images in turn; 0: none
  AutoConfig automatic;
  RateScaling lr_scaling;
  std::int64_t random_seed = 1;
  int patience = 3;  // epochs
  SaveChoice save = SaveChoice::kBest;
  BestBy best_by = BestBy::kTop1;  // of kBest
  ClassWeights class_weights = ClassWeights::kNone;
  Sampling sample = Sampling::kShuffle;
  std::optional<Precision> precision = Precision::kFp32;  // empty: auto
  RecipeConfig recipe;
};

// Where to compute, and how ranks work together.
struct RanksConfig {
  DeviceChoice device = DeviceChoice::kAuto;
  bool deterministic = false;  // same bits on a GPU too
  int threads = 0;             // compute threads; 0: auto
  // Start this many ranks; 0: auto. Empty: this process is the run, or one rank of it.
  std::optional<int> launch;
  std::vector<std::string> arguments;  // this command line, with which the ranks are started
  int expect_ranks = 0;                // 0: any number
  bool sync_batch_norm = false;
  int bucket_mb = 25;
  bool bfloat16_gradients = false;
  int collective_timeout_s = 300;
  int stall_warning_s = 60;
  bool bind = true;         // ranks of a host to cores of their own
  bool bind_given = false;  // then a host that forbids it is a fault
};

// What is written, and how often to log.
struct OutputConfig {
  std::string trained_model_path;
  std::string log_path;  // "logs" unless given
  bool log_path_given = false;
  std::string explain;     // folder for heat maps of mistakes; empty: none
  int print_freq = 10;     // steps
  bool plain = false;      // no live line
  bool no_hashes = false;  // the model does not say which images it has seen
  bool mlflow_log_model = false;
  std::string kfp_executor_input;  // JSON; empty: not under Kubeflow Pipelines
  std::string kfp_metrics;         // a file; empty: none
};

// How often a checkpoint is written: whichever comes first. 0: not by this.
struct CheckpointEvery {
  int epochs = 1;
  std::int64_t steps = 0;  // optimizer steps
  double seconds = 600;
};

// Whether a run continues from the checkpoints that it finds.
enum class ResumeChoice { kAuto, kNever, kRequire };

struct CheckpointConfig {
  std::string path;  // empty: none is written
  CheckpointEvery every;
  int keep = 2;  // the newest checkpoints
  ResumeChoice resume = ResumeChoice::kAuto;
};

// Every option and its text, in table order.
using OptionTexts = std::vector<std::pair<std::string, std::string>>;

struct TrainConfig {
  DataConfig data;
  OptimizationConfig optimization;
  RanksConfig ranks;
  OutputConfig output;
  CheckpointConfig checkpoint;
  OptionTexts effective_options;
  std::string
      overridden;  // which settings of the --config file flags override, a sentence; or empty
};

// `kiln launch`, and --ranks of `kiln train`, `kiln score` and `kiln bench collective`.
struct LaunchConfig {
  int ranks = 0;                // 0: auto
  std::vector<RankHost> hosts;  // empty: this one
  DeviceChoice device = DeviceChoice::kAuto;
  std::string log_path;  // also of the ranks
  bool log_path_given = false;
  std::vector<std::string> rank_arguments;  // begin with the command
};

// `kiln tune`.
struct TuneConfig {
  int steps = 30;                  // of each trial that are measured
  std::string output_path;         // a file for --config of train
  bool learning_rates = false;     // also the learning rate, by the loss
  TrainConfig train;               // the job
  std::vector<std::string> given;  // options of its command line, without dashes
};

struct InitModelConfig {
  std::string model_name, untrained_model_path;
  std::string weights, weights_sha256;  // a path or a URL, and its hash; empty: none
  bool pretrained = false;
  bool memory_efficient = false;
  bool zero_init_residual = false;
  std::int64_t random_seed = 1;
};

// How a trained model answers.
struct PredictionConfig {
  RecordOptions records;
  Allowance max_bad_images;
  std::optional<Precision> precision = Precision::kFp32;  // empty: auto
  int batch_size = 64;
  DeviceChoice device = DeviceChoice::kAuto;
  int threads = 0;         // 0: auto
  int loader_threads = 0;  // 0: auto
  bool plain = false;      // no live line
};

struct ScoreConfig {
  std::string trained_model_path;
  std::string data_path;   // empty: all of files_from
  std::string files_from;  // empty: all of data_path; "-": standard input
  // Both empty: readable text to standard output.
  std::string output_path;
  std::string scored_dataset;  // empty: none
  std::string explain;         // folder for heat maps; empty: none
  int top_k = 0;               // 0: auto
  bool all_classes = false;
  bool raw = false;  // no temperature
  // At most one of the two: the confidence that an answer needs, or the accuracy that answers had
  // on validation.
  std::optional<double> min_confidence, answer_at;
  ResumeChoice resume = ResumeChoice::kAuto;  // never kRequire
  PredictionConfig prediction;
  RanksConfig ranks;     // of these: device, launch, arguments
  std::string log_path;  // of several ranks
  bool log_path_given = false;
  OptionTexts effective_options;
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
  std::string valid_data_path;  // its copies are listed too; empty: none
  // The backbone: a trained model, or a network and its weights.
  std::string trained_model_path, model_name, weights, weights_sha256;
  int image_size = 0;    // 0: the trained model's, or else 224
  std::string group_by;  // a regular expression; empty: none
  int folds = 5;
  int top = 200;  // pictures of a list
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
  std::vector<std::string> part_names, part_paths;  // two or three
  std::vector<double> fractions;                    // of each part
  bool stratify = true;
  std::string group_by;  // a regular expression; empty: none
  bool keep_duplicates_together = false;
  bool check_leaks = false;
  std::int64_t random_seed = 42;
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
  std::string log_path;  // of several ranks
  bool log_path_given = false;
  OptionTexts effective_options;
};

struct TransformInitConfig {
  std::string output_path;
  std::string operations;            // JSON, as in `_transforms.json`
  std::vector<std::string> ignored;  // switches of the designer's that change nothing there either
};

struct TransformApplyConfig {
  bool for_inference = false;
  std::string transform_path, image_path, output_path;
  std::int64_t random_seed = 0;
  int loader_threads = 0;  // 0: auto
  bool plain = false;      // no live line
};

struct DemoDataConfig {
  std::string output_path;
  int images = 600;
  int classes = 3;
  int size = 32;
  std::int64_t random_seed = 1;
};

struct InspectConfig {
  std::string path;
  bool json = false;
  bool check = false;
  // Of a sheet of augmented images, which is written in place of the report.
  std::optional<Augment> augment = {};  // empty: no sheet
  std::string output_path = {};
  int image_size = 0;  // 0: auto
  std::int64_t random_seed = 1;
  // A training job on the images, whose pace is measured and told; empty: none.
  std::optional<BenchStepConfig> pace = {};
  int epochs = 5;  // of that job
  RecordOptions records = {};
};

struct ReportConfig {
  std::string log_path;     // or its metrics.jsonl
  std::string output_path;  // empty: in it
};

struct CompareConfig {
  std::vector<std::string> log_paths;
  std::string output_path;
};

struct BenchCollectiveConfig {
  RanksConfig ranks;
  std::string log_path;
  bool log_path_given = false;
};

struct WatchConfig {
  std::string log_path;
  bool plain = false;  // no live line
};

struct DescribeConfig {
  std::string format, command;
  std::string image;  // empty: kiln, with this version as tag
};

// Throws Error kParameterParsing if images would be resized to a short side smaller than the center
// crop. 0: not given.
void check_eval_size(int short_side, int crop);

struct HelpRequest {
  std::string text;
  bool asked_for = true;  // print it, exit 0; otherwise to standard error, exit 2
};
struct VersionRequest {};

// commands/commands.h has a run() for each.
using Command =
    std::variant<TrainConfig, ScoreConfig, EvaluateConfig, AuditConfig, LaunchConfig, TuneConfig,
                 InitModelConfig, ConvertConfig, SplitImagesConfig, TransformInitConfig,
                 TransformApplyConfig, PackConfig, DemoDataConfig, InspectConfig,
                 BenchCollectiveConfig, BenchLoaderConfig, BenchStepConfig, WatchConfig,
                 DescribeConfig, ReportConfig, CompareConfig, HelpRequest, VersionRequest>;

}  // namespace kiln
