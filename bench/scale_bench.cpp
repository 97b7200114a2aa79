// kiln_bench scale: what images, classes, ranks and steps cost by their number; without pixels.
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/split/split_dataset.h"
#include "kiln_bench.h"
#include "parallel/ranks/peer_status.h"
#include "record/evaluation.h"
#include "record/run_file.h"
#include "record/run_sink.h"
#include "record/run_summary.h"
#include "report/page/page.h"
#include "run/checkpoint/image_hashes.h"
#include "run/checkpoint/saved_run.h"
#include "run/inputs/image_sizes.h"
#include "run/inputs/training_loaders.h"
#include "run/prepare/class_counts.h"
#include "run/vote.h"
#include "train/loss.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Seconds and memory of steps, by name: "peak" is what a step needed at most beyond what was in use
// when it began.
class Stages {
 public:
  template <typename Work>
  auto operator()(const char* name, Work&& work) {
    std::ofstream("/proc/self/clear_refs") << "5";  // forgets the peak
    const long long before = resident_memory_bytes();
    const Stopwatch watch;
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      add(name, watch.seconds(), before);
    } else {
      auto result = work();
      add(name, watch.seconds(), before);
      return result;
    }
  }
  void note(const char* name, double value) { json_[name] = value; }
  void print() const { std::printf("%s\n", json_.dump().c_str()); }

 private:
  void add(const char* name, double seconds, long long before) {
    json_[name] = {{"seconds", seconds}, {"peak_bytes", peak_bytes() - before}};
    std::fprintf(stderr, "%s: %.3f s\n", name, seconds);
  }
  static long long peak_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmHWM:")) return std::atoll(line.c_str() + 6) * 1024;
    return 0;
  }

  Json json_ = Json::object();
};

constexpr int kClassFolders = 1000, kMostLinks = 60'000;

// Class folders with `count` names of one small image: a data set without pixels.
void make_folders(const fs::path& folder, std::size_t count) {
  const std::string bytes = encode_jpeg({{8, 8}, std::vector<std::uint8_t>(8 * 8 * 3)}, 90);
  for (int c = 0; c < kClassFolders; ++c)
    fs::create_directories(folder / formatted("class_%04d", c));
  fs::path file;
  for (std::size_t i = 0; i < count; ++i) {
    const fs::path name =
        folder / formatted("class_%04zu", i % kClassFolders) / formatted("image_%08zu.jpg", i);
    if (i % kMostLinks == 0)
      write_file_durably(file = name, bytes);
    else if (::link(file.c_str(), name.c_str()) != 0)
      throw std::system_error(errno, std::generic_category(), name.string());
  }
}

// The same list without files, in list order.
Dataset made_up(const fs::path& root, std::size_t count) {
  Dataset set = read_labeled_dataset(root, "Training dataset");
  set.samples = {};
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t label = i * kClassFolders / count;
    set.samples.add(formatted("class_%04zu/image_%08zu.jpg", label, i), static_cast<int>(label));
  }
  set.samples.shrink_to_fit();
  return set;
}

void split(Stages& stage, const Dataset& set) {
  const std::size_t count = set.samples.size();
  const ScannedImages unread{std::vector<std::uint64_t>(count), {}};
  SplitImages images;
  images.num_classes = set.classes.size();
  for (std::size_t i = 0; i < count; ++i) images.labels.push_back(set.samples.label(i));
  const auto sides = stage("split", [&] {
    images.keys = split_keys(set, unread, 1);
    images.groups = groups_of(set, {}, "");
    return choose_sides(images, 0.1);
  });
  const std::string csv =
      stage("split_write", [&] { return format_split(set, sides, images.groups); });
  stage.note("split_csv_bytes", static_cast<double>(csv.size()));
  if (csv.size() < (std::size_t{1} << 30))
    stage("split_read", [&] { return parse_split(csv, "--split", set, {}).sides.size(); });
}

// What an epoch and a checkpoint do with the list, as on one of `ranks` ranks.
void order_images(Stages& stage, Sources& sources) {
  Plan plan;
  SampleTable& samples = sources.train.samples;
  const auto count = static_cast<std::int64_t>(samples.size());
  plan.division.train = {.rank = 0, .num_ranks = 1, .batch_size = 1};
  plan.division.steps_per_epoch = count;
  stage("shuffle", [&] { return epoch_order(plan.loading, samples, count, 2).order; });
  const auto order = training_order(samples, 1, 2);
  stage("divide",
        [&] { return training_indices(order, {.rank = 3, .num_ranks = 8, .batch_size = 32}); });
  plan.loading.sample = Sampling::kBalanced;
  stage("balance", [&] { return epoch_order(plan.loading, samples, count, 2).order; });
  plan.loading.sample = Sampling::kShuffle;
  stage("fingerprint", [&] { return fingerprint_of(sources.train); });
  stage("hashes_kept", [&] { samples.keep_hashes(); });
  for (std::size_t i = 0; i < samples.size(); ++i) samples.set_hash(i, splitmix64(i) | 1);
  World alone;
  const std::string packed =
      stage("checkpoint", [&] { return gather_train_hashes(alone, plan, sources).at(0); });
  stage.note("checkpoint_bytes", static_cast<double>(packed.size()));
  stage("resume", [&] { unpack_hashes(packed, samples); });
  stage("seen_images", [&] {
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < samples.size(); ++i) all.push_back(samples.hash(i));
    return pack_seen_images(make_seen_images(std::move(all), {}));
  });
}

void bench_images(Stages& stage, std::size_t count, const fs::path& folder) {
  constexpr std::size_t kMostFolders = 1'000'000;  // more images are made up in memory
  const fs::path data = folder / "images";
  const bool is_made_up = count > kMostFolders;
  make_folders(data, is_made_up ? kClassFolders : count);
  Sources sources;
  sources.train =
      is_made_up ? made_up(data, count)
                 : stage("list", [&] { return read_labeled_dataset(data, "Training dataset"); });
  stage.note("list_bytes", static_cast<double>(sources.train.samples.memory_bytes()));
  std::string bytes = stage("broadcast_send", [&] { return to_bytes(sources.train); });
  stage.note("broadcast_bytes", static_cast<double>(bytes.size()));
  stage("broadcast_take", [&] { return dataset_of(bytes); });
  bytes = {};
  order_images(stage, sources);
  stage.note("list_bytes_with_hashes", static_cast<double>(sources.train.samples.memory_bytes()));
  split(stage, sources.train);
}

StepRecord step_at(std::int64_t number, int steps_per_epoch) {
  StepRecord step;
  step.epoch = static_cast<int>((number - 1) / steps_per_epoch) + 1;
  step.step = static_cast<int>((number - 1) % steps_per_epoch) + 1;
  step.num_steps = steps_per_epoch;
  step.num_epochs = 1000;
  step.time = 1.7e9 + 0.1 * static_cast<double>(number);
  step.learning_rate = 0.1;
  step.batch_seconds = 0.1 + 1e-9 * static_cast<double>(number % 977);
  step.batch_images_per_second = 320.123456;
  step.epoch_images_per_second = 319.87654321;
  step.batch = {
      .loss_sum = 100.0 + 1.0 / static_cast<double>(number), .top1 = 20, .top5 = 30, .count = 32};
  step.so_far = step.batch;
  return step;
}

RunStart start_of(int num_classes) {
  RunStart start;
  start.time = 1.7e9;
  start.model = "resnet18";
  start.num_epochs = 1000;
  start.steps_per_epoch = 10'000;
  start.global_batch = 32;
  for (int c = 0; c < num_classes; ++c) {
    start.data.classes.push_back(formatted("class number %06d", c));
    start.data.train_counts.push_back(100);
    start.data.valid_counts.push_back(1);
  }
  return start;
}

EpochRecord epoch_at(int number) {
  EpochRecord epoch;
  epoch.epoch = number;
  epoch.num_steps = 10'000;
  epoch.time = 1.7e9 + 1000.0 * number;
  epoch.train = {.loss_sum = 3e5, .top1 = 200'000, .top5 = 300'000, .count = 320'000};
  epoch.valid = {.loss_sum = 9e4 / number, .top1 = 50'000, .top5 = 80'000, .count = 100'000};
  epoch.macro = MacroScores{0.5, 0.5};
  epoch.train_seconds = 990;
  return epoch;
}

RunEnd end_of_run() {
  RunEnd end;
  end.time = 2e9;
  end.status = RunStatus::kFinished;
  end.saved_epoch = 2;
  return end;
}

// The record of a run of `steps` steps, every tenth printed.
void bench_record(Stages& stage, std::int64_t steps, const fs::path& folder, Log& log) {
  constexpr int kPrinted = 10;
  RunReporter reporter(log);
  const RunStart start = start_of(10);
  fs::remove_all(folder);
  fs::create_directories(folder);
  reporter.add([&] { return make_run_file(folder / kRunFileName); });
  stage("write", [&] {
    reporter.start(start);
    for (std::int64_t number = 1; number <= steps; ++number) {
      if ((number - 1) % start.steps_per_epoch % kPrinted == 0)
        reporter.step(step_at(number, start.steps_per_epoch));
      if (number % start.steps_per_epoch == 0)
        reporter.epoch(epoch_at(static_cast<int>(number / start.steps_per_epoch)), nullptr);
    }
  });
  stage.note("file_bytes", static_cast<double>(fs::file_size(folder / kRunFileName)));
  const std::string text = stage("checkpoint", [&] { return reporter.record_text(); });
  stage.note("checkpoint_bytes", static_cast<double>(text.size()));
  stage("resume", [&] { return parse_run(text).steps.size(); });
  stage("end", [&] { reporter.end(end_of_run()); });
  const RunRecord run = stage("read", [&] { return read_run(folder); });
  stage.note("steps_read", static_cast<double>(run.steps.size()));
  stage.note("page_bytes",
             static_cast<double>(stage("page", [&] { return report_html(run); }).size()));
  stage("plausible_silence", [&] { return plausible_silence(run); });
}

// A run with that many classes: the last layer's outputs and everything that is kept by class.
void bench_classes(Stages& stage, int classes, const fs::path& folder) {
  constexpr int kBatch = 64, kImages = 1000;
  const at::Tensor logits = at::randn({kBatch, classes});
  const at::Tensor labels = at::randint(classes, {kBatch}, at::kLong);
  stage("loss", [&] { return reported_loss(logits, labels).item<double>(); });
  MetricSums sums(at::kCPU);
  stage("metrics", [&] {
    sums.add(logits, labels, reported_loss(logits, labels), 1);
    return sums.totals().top5;
  });
  std::vector<Prediction> predictions;
  for (std::uint32_t i = 0; i < 100'000; ++i)
    predictions.push_back(
        {i, static_cast<int>(i % classes), static_cast<int>((7 * i) % classes), 0.5F});
  stage("macro", [&] { return macro_scores(class_counts(predictions, classes)).recall; });
  stage.note("vote_bytes", 3.0 * 8 * classes);
  stage("evaluate_1000", [&] {
    Evaluation evaluation(classes, 5);
    std::vector<float> row(classes, 1.0F / static_cast<float>(classes));
    for (int i = 0; i < kImages; ++i) {
      const std::int32_t top[] = {i % classes, 1, 2, 3, 4};
      evaluation.add({i % classes, top, row});
    }
    return macro_f1(evaluation.classes());
  });
  RunRecord run;
  run.start = start_of(classes);
  run.epochs = {epoch_at(1), epoch_at(2)};
  run.details.epoch = 2;
  stage("confusion", [&] { return empty_matrix(classes); });
  run.end = end_of_run();
  const std::string text = stage("record_write", [&] {
    return run_line(run.start) + run_line(run.epochs[0], nullptr) +
           run_line(run.epochs[1], &run.details) + run_line(run.end);
  });
  stage.note("record_bytes", static_cast<double>(text.size()));
  run = stage("record_read", [&] { return parse_run(text); });
  stage.note("page_bytes",
             static_cast<double>(stage("page", [&] { return report_html(run); }).size()));
  stage("training_json", [&] { return format_training_json(run, run.end); });
  const std::string schema =
      stage("schema_write", [&] { return schema_text(run.start.data.classes); });
  stage.note("schema_bytes", static_cast<double>(schema.size()));
  stage("label_map",
        [&] { return parse_label_map(format_label_map(run.start.data.classes)).size(); });
  fs::remove_all(folder);
  fs::create_directories(folder / "images");
  write_file_durably(folder / "images" / "a.jpg",
                     encode_jpeg({{8, 8}, std::vector<std::uint8_t>(192)}, 90));
  write_file_durably(folder / kMetaName, meta_text());
  write_file_durably(folder / kSchemaName, schema);
  const Sample sample{.file_name = "images/a.jpg", .label = classes - 1, .id = 0, .size = {}};
  write_file_durably(folder / kListName,
                     list_line(sample, sample.file_name, &run.start.data.classes.back()));
  write_file_durably(folder / kSamplesName, "[]");
  stage("schema_read",
        [&] { return read_labeled_dataset(folder, "Training dataset").classes.size(); });
}

// A world of `ranks` ranks in this process: what they compute and the texts that they exchange.
void bench_ranks(Stages& stage, int ranks, int classes) {
  constexpr std::uint32_t kImages = 1'281'167;
  const auto order = permutation(kImages, {1, 1});
  stage("divide", [&] {
    std::size_t all = 0;
    for (int rank = 0; rank < ranks; ++rank)
      all += training_indices(order, {.rank = rank, .num_ranks = ranks, .batch_size = 32}).size();
    return all;
  });
  stage("vote", [&] {
    std::vector<double> sums;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto values = to_values(ballot(rank == 17, summed_numbers(StepRecord{})));
      sums.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
    }
    stage.note("vote_bytes", 8.0 * static_cast<double>(sums.size()));
    return to_vote(sums).has_bad_images;
  });
  SavedRun saved;
  saved.machine.num_ranks = ranks;
  saved.ranks.resize(1);
  Sources sources;
  for (int c = 0; c < classes; ++c)
    sources.train.classes.push_back(formatted("class number %06d", c));
  sources.train.samples.add("a.jpg", 0);
  const DatasetFingerprint print = fingerprint_of(sources.train);
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks; ++rank)
    texts.push_back(format_rank(rank == 0 ? SavedRank{{}, {}, {}, print, print} : SavedRank{}));
  stage.note("gathered_bytes_of_rank_0", static_cast<double>(texts[0].size()));
  stage.note("gathered_bytes_of_rank_1", static_cast<double>(texts[1].size()));
  const std::string state = stage("state_write", [&] { return format_saved_run(saved, texts); });
  stage.note("state_bytes", static_cast<double>(state.size()));
  stage("state_read", [&] { return parse_saved_run(state).ranks.size(); });
  std::vector<PeerStatus> peers(static_cast<std::size_t>(ranks));
  for (PeerStatus& peer : peers) peer.phase = "training, epoch 2, step 17";
  const std::vector<std::string> hosts(peers.size(), "node0123.cluster.example.com");
  const std::string missing = stage("missing", [&] { return missing_ranks({peers, hosts, 0, 5}); });
  stage.note("missing_bytes", static_cast<double>(missing.size()));
}

// Decodes, resizes and encodes the JPEG files of a folder on all processors, as little as can be.
void bench_jpegs(Stages& stage, const fs::path& folder, int short_side) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".jpg") files.push_back(entry.path());
  std::atomic<std::size_t> bytes = 0;
  stage("jpegs", [&] {
    in_parallel(files.size(), usable_cpus(), [&](std::size_t i) {
      const std::string small = bare_jpeg(read_file(files[i]), short_side, 92);
      bytes += small.size();
    });
  });
  stage.note("images", static_cast<double>(files.size()));
  stage.note("bytes", static_cast<double>(bytes));
}

}  // namespace

void bench_scale(Words& words, Process& process) {
  const std::string part = words.take("part", "");
  const fs::path folder = words.take("folder", "");
  const int count = words.take_number("count", 10'000);
  const int classes = words.take_number("classes", 1000);
  const int short_side = words.take_number("short-side", 256);
  words.finish();
  Stages stage;
  stage.note("count", count);
  if (part == "images")
    bench_images(stage, static_cast<std::size_t>(count), folder);
  else if (part == "classes")
    bench_classes(stage, count, folder);
  else if (part == "record")
    bench_record(stage, count, folder, process.log);
  else if (part == "ranks")
    bench_ranks(stage, count, classes);
  else if (part == "jpegs")
    bench_jpegs(stage, folder, short_side);
  else
    throw Error(ErrorCode::kUserError, "--part is images, classes, record, ranks or jpegs.");
  stage.print();
}

}  // namespace kiln
