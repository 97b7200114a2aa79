// The configuration of a training run: plain values, complete and in range after parsing. Names
// include the unit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  bool operator==(const Allowance&) const = default;
  // A share is rounded down, but not to 0.
  std::int64_t of(std::int64_t total) const {
    if (!is_share) return static_cast<std::int64_t>(value);
    // In floating point 100 * 0.29 is slightly less than 29, but 29% of 100 images must be 29.
    constexpr double kRounding = 1 + 1e-12;
    const auto share =
        static_cast<std::int64_t>(std::floor(value * static_cast<double>(total) * kRounding));
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

// The size of training images. Training starts at `first` and grows; 0: constant size.
struct ImageSizes {
  int first = 0, last = 0;  // last 0: auto
  bool operator==(const ImageSizes&) const = default;
};

// The center crop of validation images. `side` is 0 for auto and for larger.
struct CropSize {
  int side = 0;
  bool is_larger = false;
  bool operator==(const CropSize&) const = default;
};

// Which ranks see which images (--shard-by).
enum class ShardBy { kRank, kNone, kTrain, kRecord, kHost };

// The network to train and its initial weights, if they do not come from a model directory.
struct NetworkConfig {
  std::string model_name;  // empty: the one in untrained_model_path
  std::string weights;     // a path or a URL; empty: random init
  bool zero_init_residual = false;
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
  ImageSizes image_size;
  Augment augment = Augment::kNone;
  int eval_resize = 0;  // 0: auto
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
// the class.
enum class ClassWeights { kNone, kSqrt, kBalanced };
// Which images an epoch uses: each one once, or equally many of every class.
enum class Sampling { kShuffle, kBalanced };

// The maximum number of epochs of a run with a time limit but no --epochs.
inline constexpr int kMaxEpochsInTime = 90;

// The most that --patience takes. It is never below --epochs, so that training does not stop early.
inline constexpr int kNoEarlyStop = 1'000'000;

// --auto: whether to first fit the head to the features of the frozen network, and then fine-tune
// the whole network. kIfFewImages: only if weights are given and there are few images.
enum class AutoChoice { kNo, kIfFewImages, kYes };

struct AutoConfig {
  std::optional<bool> asked = {};  // --auto
  AutoChoice choice = AutoChoice::kNo;
  std::string why_not = {};  // why kNo, if --auto would be on by default without other options
  // True for options that were not given.
  bool sets_learning_rate = true, sets_augment = true;
};

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

// How the weights are optimized, and which ones are saved.
struct OptimizationConfig {
  int epochs = 5;  // the maximum with a time limit; `steps` may end training earlier
  bool epochs_given = false;
  std::int64_t steps = 0;       // total optimizer steps; 0: determined by `epochs`
  double time_limit_s = 0;      // 0: none
  int batch_size = 16;          // per rank
  int accumulate = 1;           // batches per step
  double num_warmup_steps = 0;  // epochs, despite its name
  double learning_rate = 0.001;
  std::optional<double> head_learning_rate;  // empty: the same as learning_rate
  Freeze freeze = Freeze::kNone;
  int folds = 0;  // the number of folds for out-of-fold predictions; 0: none
  AutoConfig automatic;
  RateScaling lr_scaling;
  std::int64_t random_seed = 1;
  int patience = 3;  // epochs; kNoEarlyStop: unlimited
  SaveChoice save = SaveChoice::kBest;
  BestBy best_by = BestBy::kTop1;  // for kBest
  ClassWeights class_weights = ClassWeights::kNone;
  Sampling sample = Sampling::kShuffle;
  std::optional<Precision> precision = Precision::kFp32;  // empty: auto
  RecipeConfig recipe;
};

// Where to compute, and how the ranks work together.
struct RanksConfig {
  DeviceChoice device = DeviceChoice::kAuto;
  bool deterministic = false;  // bit-identical results on a GPU, too
  int threads = 0;             // compute threads; 0: auto
  // The number of ranks to start; 0: auto. Empty: this process is the whole run, or one rank of it.
  std::optional<int> launch;
  std::vector<std::string> arguments;  // this command line, used to start the ranks
  int expect_ranks = 0;                // 0: any number
  bool sync_batch_norm = false;
  ExchangePlan exchange;
  bool bfloat16_gradients = false;
  int collective_timeout_s = 300;
  // After waiting this long, and again at this interval, the missing ranks are logged.
  double stall_warning_s() const { return collective_timeout_s / 5.0; }
};

// What is written, and how often to log.
struct OutputConfig {
  std::string trained_model_path;
  std::string log_path = "logs";
  bool log_path_given = false;
  std::string explain;     // folder for heat maps of mistakes; empty: none
  int print_freq = 10;     // steps
  bool no_hashes = false;  // do not record in the model which images it has seen
  bool mlflow_log_model = false;
  std::string kfp_executor_input;  // JSON; empty: not under Kubeflow Pipelines
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
  CheckpointEvery every;
  ResumeChoice resume = ResumeChoice::kAuto;
};

// What a run reports about its speed and cost, besides its records.
struct InsightConfig {
  std::string trace_path;     // output file; empty: no timeline of steps
  double price_per_hour = 0;  // all machines of the run together, in any currency; 0: unknown
};

// Every option with its text, in table order.
using OptionTexts = std::vector<std::pair<std::string, std::string>>;

struct TrainConfig {
  DataConfig data;
  OptimizationConfig optimization;
  RanksConfig ranks;
  OutputConfig output;
  CheckpointConfig checkpoint;
  InsightConfig insight;
  std::string options_file;  // --config, which has been read; empty: none
  OptionTexts effective_options;
  std::string
      overridden;  // which settings of the --config file flags override, a sentence; or empty
};

}  // namespace kiln
