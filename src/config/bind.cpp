// Names and texts -> the structs of run_config.h, with what must hold between options.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "config/binder.h"
#include "config/command_line.h"
#include "model/catalogue.h"

namespace kiln {
namespace {

std::filesystem::path resolved(const std::string& path) {
  std::error_code failure;
  std::filesystem::path absolute = std::filesystem::absolute(path, failure);
  std::filesystem::path canonical = std::filesystem::weakly_canonical(absolute, failure);
  if (failure) canonical = absolute.lexically_normal();
  // "a/b/" and "a/b" are one folder.
  return canonical.has_filename() ? canonical : canonical.parent_path();
}

bool is_same_or_inside(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  const auto [end, rest] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

// An output in, around or at an input would be read as data, or overwrite it.
void require_apart(Binder& binder, const char* output_name, const std::string& output,
                   const char* input_name, const std::string& input) {
  if (output.empty() || input.empty()) return;
  const std::filesystem::path out = resolved(output);
  const std::filesystem::path in = resolved(input);
  std::string relation;
  if (out == in) {
    relation = "is the same folder as";
  } else if (is_same_or_inside(out, in)) {
    relation = "lies inside";
  } else if (is_same_or_inside(in, out)) {
    relation = "contains";
  } else {
    return;
  }
  binder.fault(output_name, ErrorCode::kParameterParsing,
               std::string("--") + output_name + " '" + output + "' " + relation + " --" +
                   input_name + " '" + input + "': choose a folder of its own for the output.");
}

NormalizationChoice normalization_choice(const std::string& word) {
  if (word == "half") return NormalizationChoice::kHalf;
  return word == "imagenet" ? NormalizationChoice::kImagenet : NormalizationChoice::kAuto;
}

Augment augment_choice(Binder& binder) {
  return augment_named(binder.choice("augment")).value_or(Augment::kNone);
}

CachePolicy cache_choice(const std::string& word) {
  if (word == "none") return CachePolicy::kNone;
  if (word == "bytes") return CachePolicy::kBytes;
  return word == "decoded" ? CachePolicy::kDecoded : CachePolicy::kAuto;
}

DeviceChoice device_choice(const std::string& word) {
  if (word == "cuda") return DeviceChoice::kCuda;
  return word == "cpu" ? DeviceChoice::kCpu : DeviceChoice::kAuto;
}

// By the convention of https://no-color.org.
bool wants_plain(Binder& binder) {
  const char* no_color = std::getenv("NO_COLOR");
  return binder.boolean("plain") || (no_color != nullptr && *no_color != '\0');
}

void check_train_paths(Binder& binder, const TrainConfig& config) {
  const std::string& output = config.output.trained_model_path;
  require_apart(binder, "trained-model-path", output, "untrained-model-path",
                config.data.untrained_model_path);
  require_apart(binder, "trained-model-path", output, "train-data-path", config.data.train_path);
  require_apart(binder, "trained-model-path", output, "valid-data-path", config.data.valid_path);
  if (log_lies_in_output(config)) {
    binder.fault(config.output.log_path_given ? "log-path" : "trained-model-path",
                 ErrorCode::kParameterParsing,
                 "--log-path '" + config.output.log_path + "' lies in --trained-model-path '" +
                     output + "', which holds the model alone: give --log-path another folder.");
  }
}

void check_cache(Binder& binder, const TrainConfig& config) {
  if (config.data.cache != CachePolicy::kDecoded || !takes_random_parts(config.data.augment))
    return;
  binder.fault("cache", ErrorCode::kParameterParsing,
               "--cache decoded keeps pixels, but --augment " + augment_name(config.data.augment) +
                   " takes others in every epoch: use --cache bytes or auto.");
}

void bind_rank_options(Binder& binder, TrainConfig& config) {
  config.optimization.lr_scaling = binder.rate_scaling("lr-scaling");
  config.data.has_train_shard = binder.choice("shard-by") != "rank";
  config.data.has_valid_shard = binder.choice("shard-by") == "none";
  config.data.scan_each = config.data.has_train_shard || binder.choice("scan") == "each";
  config.data.index_path = binder.path("index");
  config.optimization.accumulate = binder.small_integer("accumulate");
  config.ranks.sync_batch_norm = binder.boolean("sync-batch-norm");
  config.ranks.bucket_mb = binder.small_integer("bucket-mb");
  config.ranks.bfloat16_gradients = binder.choice("gradient-dtype") == "bf16";
  config.ranks.collective_timeout_s = binder.small_integer("collective-timeout");
  config.ranks.stall_warning_s = binder.small_integer("stall-warning");
  config.ranks.expect_ranks = binder.small_integer("expect-ranks");
}

void bind_pixel_options(Binder& binder, TrainConfig& config) {
  config.data.image_size = binder.small_integer("image-size");
  config.data.augment = augment_choice(binder);
  config.data.cache = cache_choice(binder.choice("cache"));
  config.data.cache_bytes = binder.integer("cache-bytes");
  config.data.read_ahead = binder.small_integer("read-ahead");
  check_cache(binder, config);
  config.data.eval_resize = binder.small_integer("eval-resize");
  config.data.eval_crop = binder.small_integer("eval-crop");
  binder.check("eval-resize", [&] {
    check_eval_size(config.data.eval_resize,
                    config.data.eval_crop > 0 ? config.data.eval_crop : config.data.image_size);
  });
}

TrainConfig bind_train(Binder binder) {
  TrainConfig config;
  config.data.untrained_model_path = binder.path("untrained-model-path");
  config.data.train_path = binder.path("train-data-path");
  config.data.valid_path = binder.path("valid-data-path");
  config.output.trained_model_path = binder.path("trained-model-path");
  config.optimization.epochs = binder.small_integer("epochs");
  config.optimization.batch_size = binder.small_integer("batch-size");
  config.optimization.num_warmup_steps = binder.small_integer("num-warmup-steps");
  config.optimization.learning_rate = binder.number("learning-rate");
  config.optimization.random_seed = binder.integer("random-seed");
  config.optimization.patience = binder.small_integer("patience");
  config.output.print_freq = binder.small_integer("print-freq");
  binder.path("config");
  bind_pixel_options(binder, config);
  config.data.normalization = normalization_choice(binder.choice("normalization"));
  config.data.on_bad_image =
      binder.choice("on-bad-image") == "fail" ? OnBadImage::kFail : OnBadImage::kSkip;
  config.data.max_bad_images = binder.allowance("max-bad-images");
  config.data.loader_threads = binder.small_integer("loader-threads");
  config.ranks.threads = binder.small_integer("threads");
  bind_rank_options(binder, config);
  const int ranks = binder.small_integer("ranks");
  if (binder.given("ranks")) config.ranks.launch = ranks;
  config.ranks.device = device_choice(binder.choice("device"));
  config.optimization.save =
      binder.choice("save") == "last" ? SaveChoice::kLast : SaveChoice::kBest;
  config.output.log_path = binder.path("log-path");
  config.output.log_path_given = binder.given("log-path");
  config.output.plain = wants_plain(binder);
  config.output.mlflow_log_model = binder.boolean("mlflow-log-model");
  config.output.kfp_executor_input = binder.path("kfp-executor-input");
  config.output.kfp_metrics = binder.path("kfp-metrics");
  config.effective_options = binder.effective_options();
  config.overridden = binder.overridden();
  check_train_paths(binder, config);
  try {
    binder.throw_if_any();
  } catch (const Problems& faults) {
    throw TrainCommandFaults(faults, std::move(config));
  }
  return config;
}

bool is_host_name(std::string_view text) {
  return !text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  });
}

// "node1:2,node2" -> two slots and one.
std::vector<RankHost> rank_hosts(Binder& binder, const std::string& text) {
  std::vector<RankHost> hosts;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::size_t colon = item.find(':');
    RankHost host{item.substr(0, colon)};
    const std::string slots = colon == item.npos ? "1" : item.substr(colon + 1);
    const bool number =
        !slots.empty() && slots.size() <= 4 &&
        std::all_of(slots.begin(), slots.end(), [](char c) { return c >= '0' && c <= '9'; });
    host.slots = number ? std::stoi(slots) : 0;
    if (!is_host_name(host.name) || host.slots < 1) {
      binder.fault("hosts", ErrorCode::kParameterParsing,
                   "--hosts holds '" + item +
                       "', but must be names with a number of processes, such as "
                       "node1:2,node2:2.");
      return {};
    }
    hosts.push_back(std::move(host));
    begin = end + 1;
  }
  return hosts;
}

// What `train` says for itself stays out: its faults are told by its own parser.
LaunchConfig bind_launch(Binder binder) {
  LaunchConfig config;
  config.ranks = binder.small_integer("ranks");
  config.hosts = rank_hosts(binder, binder.path("hosts"));
  int slots = 0;
  for (const RankHost& host : config.hosts) slots += host.slots;
  if (slots > 0 && config.ranks > slots)
    binder.fault("ranks", ErrorCode::kParameterParsing,
                 "--ranks is " + std::to_string(config.ranks) + ", but --hosts has room for " +
                     std::to_string(slots) + ": raise the numbers after the colons.");
  config.log_path = binder.path("log-path");
  config.log_path_given = binder.given("log-path");
  binder.throw_if_any();
  return config;
}

void check_init_model(Binder& binder, const InitModelConfig& config) {
  const KnownNetwork* network = find_network(config.model_name);  // an unknown one is told already
  if (network == nullptr) return;
  if (config.zero_init_residual && !network->family().allows(kZeroInitResidual)) {
    binder.fault("zero-init-residual", ErrorCode::kParameterParsing,
                 "--zero-init-residual is for ResNets, but the model is " + config.model_name +
                     ": leave it out.");
  }
  if (config.memory_efficient && !network->family().allows(kMemoryEfficient)) {
    binder.fault("memory-efficient", ErrorCode::kParameterParsing,
                 "--memory-efficient is for DenseNets, but the model is " + config.model_name +
                     ": leave it out.");
  }
}

InitModelConfig bind_init_model(Binder binder) {
  InitModelConfig config;
  config.model_name = binder.choice("model-name");
  config.untrained_model_path = binder.path("untrained-model-path");
  config.weights = binder.path("weights");
  config.pretrained = binder.boolean("pretrained");
  config.zero_init_residual = binder.boolean("zero-init-residual");
  config.memory_efficient = binder.boolean("memory-efficient");
  config.random_seed = binder.integer("random-seed");
  check_init_model(binder, config);
  if (config.pretrained && !binder.given("weights")) {
    binder.fault("pretrained", ErrorCode::kFailedToDownloadFiles,
                 "--pretrained is True, but pretrained weights are not downloaded: give their file "
                 "with --weights, or --pretrained False.");
  }
  if (binder.given("weights") && binder.given("pretrained") && !config.pretrained) {
    binder.fault("pretrained", ErrorCode::kParameterParsing,
                 "--pretrained is not True, but --weights is given: give one of the two.");
  }
  binder.throw_if_any();
  config.pretrained = binder.given("weights");
  return config;
}

ConvertConfig bind_convert(Binder binder) {
  ConvertConfig config{binder.path("input-path"), binder.path("output-path")};
  require_apart(binder, "output-path", config.output_path, "input-path", config.input_path);
  binder.throw_if_any();
  return config;
}

PackConfig bind_pack(Binder binder) {
  PackConfig config{binder.path("input-path"), binder.path("output-path")};
  config.shard_mb = binder.small_integer("shard-mb");
  config.short_side = binder.small_integer("short-side");
  config.quality = binder.small_integer("quality");
  config.shuffle = binder.boolean("shuffle");
  config.balance = binder.boolean("balance");
  config.random_seed = binder.integer("random-seed");
  require_apart(binder, "output-path", config.output_path, "input-path", config.input_path);
  binder.throw_if_any();
  return config;
}

DemoDataConfig bind_demo_data(Binder binder) {
  DemoDataConfig config;
  config.output_path = binder.path("output-path");
  config.images = binder.small_integer("images");
  config.classes = binder.small_integer("classes");
  config.size = binder.small_integer("size");
  config.random_seed = binder.integer("random-seed");
  if (config.images > 0 && config.images < 2 * config.classes) {
    binder.fault("images", ErrorCode::kNotInRangeValue,
                 "--images is " + std::to_string(config.images) + ", but " +
                     std::to_string(config.classes) + " classes need at least " +
                     std::to_string(2 * config.classes) +
                     ": one of each for training and for validation.");
  }
  binder.throw_if_any();
  return config;
}

BenchLoaderConfig bind_bench_loader(Binder binder) {
  BenchLoaderConfig config;
  config.data = binder.path("data");
  config.size = binder.small_integer("size");
  config.augment = augment_choice(binder);
  config.threads = binder.small_integer("threads");
  config.batch_size = binder.small_integer("batch-size");
  config.passes = binder.small_integer("passes");
  config.step_ms = binder.small_integer("step-ms");
  config.read_ahead = binder.small_integer("read-ahead");
  binder.throw_if_any();
  return config;
}

BenchCollectiveConfig bind_bench_collective(Binder binder) {
  BenchCollectiveConfig config;
  const int ranks = binder.small_integer("ranks");
  if (binder.given("ranks")) config.ranks = ranks;
  config.device = device_choice(binder.choice("device"));
  config.log_path = binder.path("log-path");
  config.log_path_given = binder.given("log-path");
  binder.throw_if_any();
  return config;
}

WatchConfig bind_watch(Binder binder) {
  WatchConfig config{binder.path("log-path"), wants_plain(binder)};
  binder.throw_if_any();
  return config;
}

ReportConfig bind_report(Binder binder) {
  ReportConfig config{binder.path("log-path"), binder.path("output-path")};
  binder.throw_if_any();
  return config;
}

DescribeConfig bind_describe(Binder binder) {
  DescribeConfig config{binder.choice("format"), binder.choice("command"), binder.path("image")};
  binder.throw_if_any();
  return config;
}

CompareConfig bind_compare(Binder binder) {
  CompareConfig config{binder.paths("log-path"), binder.path("output-path")};
  if (config.log_paths.size() == 1)
    binder.fault("log-path", ErrorCode::kParameterParsing,
                 "Only one run is given: `kiln compare` wants two or more.");
  binder.throw_if_any();
  return config;
}

InspectConfig bind_inspect(Binder binder) {
  InspectConfig config{binder.path("path"), binder.boolean("json"), binder.boolean("check")};
  binder.throw_if_any();
  return config;
}

}  // namespace

void check_eval_size(int short_side, int crop) {
  if (short_side == 0 || short_side >= crop) return;
  throw Error(ErrorCode::kParameterParsing,
              "--eval-resize is " + std::to_string(short_side) +
                  ", but validation looks at a centre of " + std::to_string(crop) +
                  " pixels: give --eval-resize " + std::to_string(crop) +
                  " or more, or a smaller --eval-crop.");
}

bool log_lies_in_output(const TrainConfig& config) {
  return !config.output.log_path.empty() && !config.output.trained_model_path.empty() &&
         is_same_or_inside(resolved(config.output.log_path),
                           resolved(config.output.trained_model_path));
}

Command bind_command(const CommandInfo& command, RawArguments& raw) {
  const Binder binder(command, raw);
  if (command.name == "train") return bind_train(binder);
  if (command.name == "launch") return bind_launch(binder);
  if (command.name == "init-model") return bind_init_model(binder);
  if (command.name == "convert") return bind_convert(binder);
  if (command.name == "pack") return bind_pack(binder);
  if (command.name == "demo-data") return bind_demo_data(binder);
  if (command.name == "bench loader") return bind_bench_loader(binder);
  if (command.name == "bench collective") return bind_bench_collective(binder);
  if (command.name == "watch") return bind_watch(binder);
  if (command.name == "inspect") return bind_inspect(binder);
  if (command.name == "describe") return bind_describe(binder);
  if (command.name == "report") return bind_report(binder);
  if (command.name == "compare") return bind_compare(binder);
  throw InternalError("bind_command: no binding for '" + command.name + "'");
}

}  // namespace kiln
