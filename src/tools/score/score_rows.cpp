#include "tools/score/score_rows.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "base/unicode_form.h"
#include "run/process/versions.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kAtOnce = 4096;  // paths read from a list at a time

// The path is made absolute, since the same names in another folder are other images.
std::string full_path(const std::string& path) {
  std::error_code failure;
  return as_utf8(fs::absolute(path.empty() ? "." : path, failure).lexically_normal().string());
}

// The shortest text that parses as the same number.
std::string number_text(const std::optional<double>& number) {
  if (!number) return "";
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), *number).ptr;
  return {buffer.data(), end};
}

std::string switch_text(bool is_on) {
  return is_on ? "True" : "False";
}

// A clause that says what differs; empty if nothing that determines the rows does.
std::string what_differs(const ScoreProgress& progress, const ScoreResume& resume) {
  if (!resume.in_one_go.empty()) return resume.in_one_go;
  const auto changes = differences(progress.settings.rows, resume.settings.rows);
  if (!changes.empty()) return joined(changes, "; ");
  return resume.names_of_first(progress.num_images) == progress.names
             ? ""
             : "the images have different names, labels or order";
}

}  // namespace

ScoreRows rows_of_part(const JobPart& part, std::int64_t num_images, std::int64_t batch_size,
                       std::int64_t portion) {
  const auto batches_of = [&](std::int64_t images) {
    return (images + batch_size - 1) / batch_size;
  };
  const std::int64_t num_batches =
      num_images / portion * batches_of(portion) + batches_of(num_images % portion);
  const auto first_of = [&](std::int64_t batch) {
    const std::int64_t whole = batch / batches_of(portion), rest = batch % batches_of(portion);
    return std::min(num_images, whole * portion + rest * batch_size);
  };
  return {.begin = first_of(num_batches * (part.number - 1) / part.count),
          .end = first_of(num_batches * part.number / part.count),
          .num_images = num_images};
}

ScoreRows rows_of_job(const ScoreConfig& config, const Dataset& set) {
  auto num_images = static_cast<std::int64_t>(set.samples.size());
  if (config.files_from.empty()) {
    if (!config.part) return {.begin = 0, .end = num_images, .num_images = num_images};
    return rows_of_part(*config.part, num_images, config.prediction.batch_size,
                        std::max<std::int64_t>(1, num_images));
  }
  if (!config.part) return {};
  FileList list(config.files_from, config.data_path);
  if (!list.can_be_read_again())
    throw Error(ErrorCode::kUserError,
                "--part needs to know the number of images, but the list of --files-from is not a "
                "file: write it to one.");
  for (Dataset some; list.next(kMaxOfList, some);)
    num_images += static_cast<std::int64_t>(some.samples.size());
  return rows_of_part(*config.part, num_images, config.prediction.batch_size, kMaxOfList);
}

void prepare_folder_of_parts(const fs::path& file, const JobPart& part) {
  const fs::path folder = file.parent_path();
  std::error_code failure;
  fs::create_directory(folder, failure);  // whoever opens the file says why there is none
  const std::string own = formatted("-of-%d.", part.count);
  for (auto entry = fs::directory_iterator(folder, failure); entry != fs::directory_iterator();
       entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("part-") && name.find(own) == name.npos)
      throw Error(ErrorCode::kFailedToWriteOutputs,
                  "--output-path " + quoted_path(folder) + " has a part of another division: " +
                      quoted_path(name) + ". Empty the folder or choose another.");
  }
}

fs::path part_note_path(const fs::path& file) {
  const std::string name = file.filename().string() + ".json";
  return file.parent_path() / (file.extension() == ".parquet" ? "_" + name : name);
}

std::string part_note(const ScoreConfig& config, const ScoreRows& rows, const std::string& model,
                      std::uint64_t names) {
  return "{\"all_parts\": {\"model\": \"" + model + "\", \"names\": \"" + hex_digits(names) +
         formatted("\", \"images\": %lld, \"batch_size\": %d, \"parts\": %d},\n",
                   static_cast<long long>(rows.num_images), config.prediction.batch_size,
                   config.part->count) +
         formatted(" \"part\": %d, \"first_row\": %lld, \"rows\": %lld}\n", config.part->number,
                   static_cast<long long>(rows.begin), static_cast<long long>(rows.count()));
}

void NamesHash::add(const Dataset& set, const TrueLabels& labels, std::size_t image) {
  constexpr std::string_view kEnd("\0", 1);  // occurs in no path
  hash_.add(set.samples.file_name(image));
  hash_.add(kEnd);
  hash_.add(labels.of(image));
  hash_.add(kEnd);
}

std::optional<std::uint64_t> names_of_rows(std::int64_t first, std::int64_t count,
                                           const ScoreConfig& config, const Dataset& set,
                                           const TrueLabels& labels) {
  NamesHash hash;
  auto before = static_cast<std::size_t>(first), left = static_cast<std::size_t>(count);
  const auto add = [&](const Dataset& images) {
    std::size_t i = std::min(before, images.samples.size());
    before -= i;
    for (; i < images.samples.size() && left > 0; ++i, --left) hash.add(images, labels, i);
  };
  if (config.files_from.empty()) {
    add(set);
  } else {
    FileList list(config.files_from, config.data_path);
    for (Dataset part; left > 0 && list.next(kAtOnce, part);) add(part);
  }
  return left == 0 ? std::optional(hash.value()) : std::nullopt;
}

ScoreSettings score_settings(const ScoreConfig& config, const Predictor& predictor,
                             const Inference& inference, const ScoreColumns& columns) {
  return {
      .rows = {{"the model", as_utf8(predictor.print())},
               {"--data-path", full_path(config.data_path)},
               {"--top-k", std::to_string(columns.top_k)},
               {"--all-classes", switch_text(columns.all_classes)},
               {"--raw", switch_text(config.raw)},
               {"--min-confidence", number_text(config.min_confidence)},
               {"--answer-at", number_text(config.answer_at)},
               {"--precision", precision_name(inference.precision())},
               {"the column true_label", switch_text(columns.true_labels)}},
      .bits = {{"--batch-size", std::to_string(config.prediction.batch_size)},
               {"the number of compute threads", std::to_string(at::get_num_threads())},
               {"the device", inference.device().is_cuda ? inference.device().description : "CPU"},
               {"the instruction set", at::get_cpu_capability()},
               {"the program", std::string(program_version())}}};
}

std::string why_in_one_go(const ScoreConfig& config, const ScoreFormat& format,
                          const FileList* list) {
  if (!format.is_lines) return "a file of this format cannot be resumed";
  if (!config.scored_dataset.empty()) return "--scored-dataset cannot be resumed";
  if (!config.explain.empty()) return "--explain needs all of them";
  if (list != nullptr && !list->can_be_read_again())
    return "the list of --files-from is not a file";
  return "";
}

std::optional<ScoreProgress> find_rows(ScoreFile& file, const ScoreResume& resume, Log& log) {
  UnfinishedScores left = file.unfinished();
  if (!left.damage.empty())
    log.warning("The rows of an earlier job cannot be reused, so all images are scored again: " +
                left.damage + ".");
  if (!left.progress) return std::nullopt;
  const std::string before = grouped(left.progress->num_images) + " images were already scored";
  if (const std::string why = what_differs(*left.progress, resume); !why.empty()) {
    log.info("restarted: " + before + ", but are scored again: " + why);
    return std::nullopt;
  }
  log.info("resumed:   " + before);
  const auto changes = differences(left.progress->settings.bits, resume.settings.bits);
  if (!changes.empty())
    log.warning(
        "Later confidences may differ in their last bits from those of an uninterrupted job: " +
        joined(changes, "; ") + ".");
  left.progress->settings = resume.settings;
  return left.progress;
}

void NotableAnswers::see(std::size_t image, const Score& score, bool is_wrong) {
  if (score.best.empty()) return;
  const NotableAnswer answer{image, score.path, score.best.front()};
  const auto confidence = [](const NotableAnswer& one) { return one.best.confidence; };
  // Of equal answers the one seen first comes first.
  const auto keep = [&](std::vector<NotableAnswer>& answers, std::size_t most, const auto& order) {
    answers.insert(std::ranges::upper_bound(answers, confidence(answer), order, confidence),
                   answer);
    if (answers.size() > most) answers.pop_back();
  };
  if (score.is_unsure || !unsure_alone_) keep(doubtful_, unsure_alone_ ? 76 : 24, std::less{});
  if (is_wrong) keep(wrong_, 24, std::greater{});
}

std::vector<NotableAnswer> NotableAnswers::all() const {
  std::vector<NotableAnswer> answers = doubtful_;
  for (const NotableAnswer& answer : wrong_)
    if (std::ranges::find(doubtful_, answer.image, &NotableAnswer::image) == doubtful_.end())
      answers.push_back(answer);
  return answers;
}

}  // namespace kiln
