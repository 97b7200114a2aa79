// The configuration of each command: plain values, complete and in range after parsing. Names
// include the unit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/platform/launch_environment.h"
#include "cli/settings.h"
#include "record/training_record.h"
#include "record/vocabulary.h"
#include "train/exchange/catalogue.h"

namespace kiln {

enum class SaveChoice { kBest, kLast };
enum class NormalizationChoice { kAuto, kHalf, kImagenet };
enum class OnBadImage { kSkip, kFail };

// A number of images, either absolute or as a share of all images.
struct Allowance {
  double value = 0.01;
  bool is_share = true;
  bool is_auto = true;  // or 3, if that is more; but less than half
  bool operator==(const Allowance&) const = default;
  // A share is rounded down; one that is given not to 0.
  std::int64_t of(std::int64_t total) const {
    if (!is_share) return static_cast<std::int64_t>(value);
    // In floating point 100 * 0.29 is slightly less than 29, but 29% of 100 images must be 29.
    constexpr double kRounding = 1 + 1e-12;
    const auto share =
        static_cast<std::int64_t>(std::floor(value * static_cast<double>(total) * kRounding));
    if (is_auto)
      return std::min(std::max<std::int64_t>(share, 3), std::max<std::int64_t>(total - 1, 0) / 2);
    return value > 0 ? std::max<std::int64_t>(share, 1) : 0;
  }
};

// The factor applied to the learning rate for `num_ranks` processes.
struct RateScaling {
  enum class Rule { kLinear, kSqrt, kFactor };
  Rule rule = Rule::kLinear;
  double factor = 1;  // for kFactor
  bool operator==(const RateScaling&) const = default;
  double of(int num_ranks) const {
    if (rule == Rule::kFactor) return factor;
    return rule == Rule::kSqrt ? std::sqrt(num_ranks) : num_ranks;
  }
};

// The center crop of validation images. `side` is 0 for auto and for larger.
struct CropSize {
  int side = 0;
  bool is_larger = false;
  bool operator==(const CropSize&) const = default;
};

// Which ranks see which images (--shard-by).
enum class ShardBy { kRank, kNone, kTrain, kRecord, kHost };

inline constexpr std::string_view kAutoNetwork = "auto";  // until the images are counted

// The network to train and its initial weights, if they do not come from a model directory.
struct NetworkConfig {
  std::string model_name;  // empty: the one in untrained_model_path; or kAutoNetwork
  std::string weights;     // a path or a URL; empty: random init
};

// How one dataset becomes training and validation images.
struct SplitConfig {
  std::string data_path;  // empty: both datasets are given separately
  double valid_fraction = 0.2;
  bool all_train = false;  // with --folds: no images are set aside for validation
  std::string group_by;    // a regular expression; empty: none
  std::string file;        // a split.csv; empty: none
  std::string labels;      // a file of labels; empty: none
};

// Training images that arrive as a stream.
struct StreamConfig {
  std::int64_t steps_per_epoch = 0;  // 0: not given
  int shuffle_buffer = 1000;         // images
  // By --shard-by. by_record: every rank gets all images and keeps its share. by_host: ranks of
  // different hosts get the same images at the same path, also as files, and divide them.
  bool by_record = false, by_host = false;
};

// What is read, and how images are preprocessed.
struct DataConfig {
  // With split.data_path, both data paths are equal to it.
  std::string untrained_model_path, train_path, valid_path;
  // Stands for the rank's number on its host in `train_path`: each rank has its own images.
  static constexpr const char* kRankPlace = "{rank}";
  bool has_own_images() const { return train_path.find(kRankPlace) != std::string::npos; }
  SplitConfig split;
  RecordOptions records;
  StreamConfig stream;
  NetworkConfig network;
  std::string transform_path;  // a TransformationDirectory, instead of sizes and augment; or empty
  ImageSize image_size;        // height 0: auto
  Augment augment = Augment::kNone;
  std::optional<Fit> fit;  // empty: chosen by the images
  int eval_resize = 0;     // 0: auto
  CropSize eval_crop;
  NormalizationChoice normalization = NormalizationChoice::kAuto;
  CachePolicy cache = CachePolicy::kAuto;
  int loader_threads = 0;  // 0: auto
  OnBadImage on_bad_image = OnBadImage::kSkip;
  Allowance max_bad_images;
  ShardBy shard_by = ShardBy::kRank;
  // Each host has different images (--shard-by); each rank then scans its own. Otherwise rank 0
  // scans for all.
  bool has_train_shard = false, has_valid_shard = false;
};

// How an image is weighted by its class in the training loss. kNone: not at all. kSqrt: by the
// square root of the kBalanced weight. kBalanced: inversely proportional to the number of images of
// the class. kGiven: as `given` says, of all classes.
enum class ClassWeights { kNone, kSqrt, kBalanced, kGiven };
struct ClassWeighting {
  ClassWeights rule = ClassWeights::kNone;
  std::map<std::string, double> given = {};
  bool operator==(const ClassWeighting&) const = default;
};
// Which images an epoch uses: each one once, or equally many of every class.
enum class Sampling { kShuffle, kBalanced };

// The maximum number of epochs of a run with a time limit but no --epochs.
inline constexpr int kMaxEpochsInTime = 90;
inline constexpr int kUsualEpochsInTime = 7;  // until the first one has been timed

// The most that --patience takes. It is never below --epochs, so that training does not stop early.
inline constexpr int kNoEarlyStop = 1'000'000;

// --auto: whether to first fit the head to the features of the frozen network, and then fine-tune
// the whole network. kIfFewImages: only if weights are given and there are few images.
enum class AutoChoice { kNo, kIfFewImages, kYes };

// How the weights are optimized, apart from the learning rate and its scaling. The defaults are the
// designer's recipe.
struct RecipeConfig {
  std::string name = "designer";  // the value of --recipe; what it sets is in the other fields
  std::string optimizer = "sgd";  // a row of train/optimizer/catalogue.h
  double momentum = 0.9;
  double weight_decay = 1e-4;
  bool decays_norm_and_bias = true;
  double clip_norm = 0;  // maximum norm of the gradient; 0: no clipping
  double ema = 0;        // decay of the exponential moving average of the weights; 0: none
  std::string schedule = "polynomial";  // a row of train/schedule/catalogue.h
  double label_smoothing = 0;
  double mixup = 0, cutmix = 0;  // parameters of Beta distributions; 0: off
};

inline constexpr int kUsualBatch = 16;  // images

// How the weights are optimized, and which ones are saved.
struct OptimizationConfig {
  int epochs = 5;                // the maximum with a time limit; `steps` may end training earlier
  std::int64_t steps = 0;        // total optimizer steps; 0: determined by `epochs`
  double time_limit_s = 0;       // 0: none
  int batch_size = kUsualBatch;  // per rank; 0: auto, until it is chosen
  int accumulate = 1;            // batches per step
  double num_warmup_steps = 0;   // epochs, despite its name
  double learning_rate = 0.001;
  std::optional<double> head_learning_rate;  // empty: the same as learning_rate
  double layer_decay = 1;  // factor on the learning rate, from one stage to the one before it
  Freeze freeze = Freeze::kNone;
  int folds = 0;                   // the number of folds for out-of-fold predictions; 0: none
  std::optional<bool> asked_auto;  // --auto
  AutoChoice automatic = AutoChoice::kNo;
  RateScaling lr_scaling;
  std::int64_t random_seed = 1;
  int patience = 3;  // epochs; kNoEarlyStop: unlimited
  SaveChoice save = SaveChoice::kBest;
  BestBy best_by = BestBy::kTop1;  // for kBest
  ClassWeighting class_weights;
  Sampling sample = Sampling::kShuffle;
  std::optional<Precision> precision = Precision::kFp32;  // empty: auto
  RecipeConfig recipe;
};

// Where to compute, and how the ranks work together.
struct RanksConfig {
  DeviceChoice device = DeviceChoice::kAuto;
  bool deterministic = false;  // bit-identical results on a GPU, too
  int threads = 0;             // compute threads; 0: auto
  bool bind = true;            // to cores of this rank's own
  // The number of ranks to start; 0: auto. Empty: this process is the whole run, or one rank of it.
  std::optional<int> launch;
  std::vector<std::string> arguments;  // this command line, used to start the ranks
  int expect_ranks = 0;                // 0: any number
  bool sync_batch_norm = false;
  ExchangePlan exchange;
  int collective_timeout_s = 300;
  // After waiting this long, and again at this interval, the missing ranks are logged.
  double stall_warning_s() const { return collective_timeout_s / 5.0; }
};

// What is written, how often to log, and what is reported about speed and cost.
struct OutputConfig {
  std::string trained_model_path;
  std::string log_path = "logs";
  std::string explain;             // folder for heat maps of mistakes; empty: none
  int print_freq = 10;             // steps
  bool no_hashes = false;          // do not record in the model which images it has seen
  bool keep_features = false;      // record the features of all training images in it
  bool no_pictures = false;        // of images, on pages and elsewhere
  bool mlflow_pictures = false;    // the page that MLflow gets has them
  std::string kfp_executor_input;  // JSON; empty: not under Kubeflow Pipelines
  std::string trace_path;          // output file; empty: no timeline of steps
  double price_per_hour = 0;       // all machines of the run together, in any currency; 0: unknown
};

// How often a checkpoint is written, whichever comes first. 0: not by this criterion.
struct CheckpointEvery {
  int epochs = 1;
  std::int64_t steps = 0;  // optimizer steps
  double seconds = 600;
  bool operator==(const CheckpointEvery&) const = default;
};

// Whether a run continues from existing checkpoints.
enum class ResumeChoice { kAuto, kNever, kRequire };

struct CheckpointConfig {
  std::string path;  // empty: none is written
  // Its folder was not named, but follows from another one: what does not fit is set aside.
  // is_temporary: it is in the log folder until a model is saved, and beside it the best epoch.
  bool is_unasked = false, is_temporary = false;
  CheckpointEvery every;
  ResumeChoice resume = ResumeChoice::kAuto;
  bool is_lasting() const { return !path.empty() && !is_temporary; }
  bool may_start_over() const { return is_unasked && resume != ResumeChoice::kRequire; }
};

struct TrainConfig {
  DataConfig data;
  OptimizationConfig optimization;
  RanksConfig ranks;
  OutputConfig output;
  CheckpointConfig checkpoint;
  bool json = false;         // the result on standard output, messages on standard error; so below
  std::string run_path;      // of which the paths of outputs follow; empty: none
  std::string options_file;  // --config, which has been read; empty: none
  Settings settings;         // that the rest is bound from
};

// What --recipe modern sets by the length of the run and the pixels of images that keep their size
// (0: they are resized), which are known once the images are. Several ranks multiply the rate, or
// make as many steps: by `rate_of_ranks`. The numbers are those of docs/recipes.md.
OptionTexts modern_by_length(const OptimizationConfig& config, double epochs, double steps,
                             int kept_side, double rate_of_ranks);

// The settings with what --recipe leaves to the length of a run of so many steps in each epoch; or
// with that as a checkpoint has it, since it stays as it was when the run becomes longer.
Settings with_length(Settings settings, const TrainConfig& asked, std::int64_t steps_per_epoch,
                     int kept_side, int num_ranks);
Settings with_checkpoint(Settings settings, const OptionTexts& saved);

// `asked` with other settings: those that follow from a checkpoint and from the run's length.
TrainConfig bound(const TrainConfig& asked, const Settings& settings);

// `kiln launch`, and --ranks of `kiln train`.
struct LaunchConfig {
  int ranks = 0;                     // 0: auto
  std::vector<RankHost> hosts = {};  // empty: this host
  DeviceChoice device = DeviceChoice::kAuto;
  std::string log_path = "logs";            // for the ranks, too
  std::vector<std::string> rank_arguments;  // starting with the command
  Settings settings = {};                   // that say whether the log path was asked for
};

// `kiln tune`.
struct TuneConfig {
  int steps = 0;                           // measured per trial; 0: auto
  std::string output_path = "tuned.yaml";  // the file to write, for train's --config
  bool learning_rates = false;             // also tries learning rates, judged by the loss
  TrainConfig train;                       // the job
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
  // Several are image files. Empty: files_from alone names the images.
  std::vector<std::string> data_paths;
  std::string data_path;   // if it is one
  std::string files_from;  // empty: all images of data_path; "-": standard input
  // If this and `scored_dataset` are empty: readable text to standard output.
  std::string output_path;  // of the part
  std::optional<JobPart> part;
  std::string scored_dataset;  // empty: none
  std::string explain;         // folder for heat maps; empty: none
  std::string page;            // file; empty: none
  std::string sort_into;       // folder for the images by their answers; empty: none
  bool sorts_links = false;    // links to them
  int top_k = 0;               // 0: auto
  bool all_classes = false;
  bool json = false;  // rows as JSON lines
  bool raw = false;   // no temperature
  // At most one of the two is set: the confidence required for an answer, or the accuracy that
  // answers must have had on validation.
  std::optional<double> min_confidence, answer_at;
  std::optional<double> refuse_unlike;        // what an answer must be alike, at least
  int neighbors = 0;                          // training images to name with each
  ResumeChoice resume = ResumeChoice::kAuto;  // never kRequire
  PredictionConfig prediction;
};

// `kiln embed`: features as a file, or into a model.
struct EmbedConfig {
  std::vector<std::string> data_paths;
  std::string trained_model_path, output_path;
  std::string into;             // a model; empty: to output_path
  std::string valid_data_path;  // for `into`
  PredictionConfig prediction;
};

// `kiln select`: which images to label next.
struct SelectConfig {
  std::vector<std::string> data_paths;
  std::string trained_model_path, output_path;
  std::string page;  // empty: none
  int number = 100;
  PredictionConfig prediction;
};

// `kiln serve`.
struct ServeConfig {
  std::string trained_model_path;  // empty: where the platforms put one, or `model`
  std::optional<std::string> host;
  std::optional<int> port;
  std::string unix_socket;  // instead of both; empty: none
  std::string key_file;     // empty: no key is needed
  std::string access_log;   // empty: none; "-": standard output
  // As in ScoreConfig.
  std::optional<double> min_confidence, answer_at, refuse_unlike;
  int neighbors = 0;
  int max_body_mib = 0;  // 0: auto
  int max_megapixels = 50;
  int max_seconds = 60;
  int max_connections = 1000;
  int max_queue = 256;
  int max_delay_ms = 5;
  PredictionConfig prediction;
};

// What a metric of evaluation.json must reach.
struct MetricFloor {
  std::string metric;
  double least = 0;
  bool operator==(const MetricFloor&) const = default;
};

struct EvaluateConfig {
  std::vector<std::string> trained_model_paths;
  std::string data_path, output_path;
  std::string explain;  // folder for heat maps; empty: none
  bool no_pictures = false, mlflow_pictures = false;
  bool json = false;
  std::vector<MetricFloor> at_least;
  int top_k = 5;
  PredictionConfig prediction;
  Settings settings;
};

// `kiln export`.
struct ExportConfig {
  std::string trained_model_path, output_path;
  std::string format = "onnx";
  bool takes_pixels = false;  // the input is normalized pixels; otherwise images of any size
  bool half = false;          // weights as float16
  bool alike = false;         // a last output: how like the training images an image is
};

struct AuditConfig {
  std::string data_path, output_path;
  std::string valid_data_path;  // also searched for copies; empty: none
  std::string labels;           // a file of decisions; empty: none
  // The backbone: a trained model, or a network with its weights.
  std::string trained_model_path, model_name, weights, weights_sha256;
  int image_size = 0;    // 0: the trained model's, or else 224
  std::string group_by;  // a regular expression; empty: none
  int folds = 5;
  int top = 200;  // pictures per list
  bool no_pictures = false, json = false;
  std::int64_t random_seed = 1;
  PredictionConfig prediction;
  Settings settings;
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

struct InspectConfig {
  std::string path;
  bool json = false;
  bool check = false;
  std::string valid_data_path = {};  // searched for copies of images; empty: none
  RecordOptions records = {};
};

struct ReportConfig {
  std::string log_path;     // the log folder, or the metrics.jsonl in it
  std::string output_path;  // empty: in the log folder
};

struct CompareConfig {
  std::vector<std::string> log_paths;
  std::string output_path = "compare.html";
  bool json = false;
};

struct DescribeConfig {
  std::string format;
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
    std::variant<TrainConfig, ScoreConfig, ServeConfig, EvaluateConfig, AuditConfig, EmbedConfig,
                 SelectConfig, ExportConfig, LaunchConfig, TuneConfig, InitModelConfig,
                 ConvertConfig, SplitImagesConfig, TransformInitConfig, TransformApplyConfig,
                 PackConfig, DemoDataConfig, InspectConfig, DescribeConfig, ReportConfig,
                 CompareConfig, HelpRequest, VersionRequest>;

}  // namespace kiln
