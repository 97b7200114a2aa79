#include "run/inputs/split_inputs.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_index.h"
#include "data/split/split_files.h"

namespace kiln {
namespace {

constexpr double kFirstNews = 3, kBetweenNews = 30, kBetweenLiveLines = 0.2;  // seconds

// Reports the progress of a scan for duplicates. Not thread-safe.
class ScanNews {
 public:
  explicit ScanNews(Log& log) : log_(log) {}

  void tell(std::size_t done, std::size_t all) {
    const double now = watch_.seconds();
    if (now < kFirstNews || done == all) return;
    const std::string text = "looking for duplicates: " + grouped(static_cast<long long>(done)) +
                             " of " + grouped(static_cast<long long>(all)) + " images";
    if (log_.on_terminal() && now - shown_ >= kBetweenLiveLines) {
      shown_ = now;
      log_.progress(text);
    } else if (told_ == 0 || now - told_ >= kBetweenNews) {
      told_ = now;
      log_.detail(text);
    }
  }

 private:
  Log& log_;
  Stopwatch watch_;
  double shown_ = 0, told_ = 0;
};

}  // namespace

ScanPlan scan_plan(int num_threads, Log& log) {
  return {.num_threads = num_threads,
          .visit = {},
          .progress = [news = std::make_shared<ScanNews>(log)](std::size_t done, std::size_t all) {
            news->tell(done, all);
          }};
}

void read_split_inputs(const DataConfig& config, std::uint64_t seed, const ScanPlan& scan,
                       Sources& sources) {
  const SplitConfig& options = config.split;
  SplitDataset split = split_dataset(
      read_indexed_dataset(options.data_path, "Dataset",
                           {.with_sizes = needs_sizes(config, sources), .records = config.records}),
      {.fraction = options.all_train ? 0 : options.valid_fraction,
       .group_by = options.group_by,
       .seed = seed,
       .split_file = options.file,
       .labels_file = options.labels},
      scan);
  std::vector<bool> trains(split.sides.size()), validates(split.sides.size());
  InputSplit& told = sources.split.emplace();
  for (std::size_t i = 0; i < split.sides.size(); ++i) {
    validates[i] = split.sides[i] == Side::kValid;
    trains[i] = !validates[i];
    if (!split.groups.empty())
      (validates[i] ? told.valid_groups : told.train_groups).push_back(split.groups[i]);
  }
  told.csv = format_split(split.set, split.sides, split.groups);
  told.summary = std::move(split.summary);
  sources.train = part_of(split.set, trains);
  sources.valid = part_of(split.set, validates);
  sources.train.name = "Training dataset";
  sources.valid.name = "Validation dataset";
  sources.train.notes = std::move(split.set.notes);
}

void write_split(const OutputConfig& output, const Sources& sources, Log& log) {
  if (!sources.split) return;
  log.info("split:            " + sources.split->summary);
  const std::filesystem::path folder = output.log_path;
  try {
    make_folders(folder);
    write_file_durably(folder / kSplitFileName, sources.split->csv);
  } catch (const Error& fault) {
    if (output.log_path_given) throw;
    log.warning(std::string("the split was not written: ") + fault.what());
  }
}

}  // namespace kiln
