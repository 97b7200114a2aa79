// Which rows a job of `kiln score` writes: those of its part (--part), with the note beside its
// file, and those that a killed job left, if this one can continue them (--resume). And which of
// its answers are explained.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/content_hash.h"
#include "base/log.h"
#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "data/dataset/image_source.h"
#include "predict/inference.h"
#include "report/scores/score_file.h"
#include "report/scores/score_formats.h"

namespace kiln {

// Images of a list that are processed together.
constexpr std::int64_t kMaxOfList = 4096;

// The images that a job scores: `begin` to `end` - 1 of `num_images`. With a list and without
// --part, the last two are unknown.
struct ScoreRows {
  std::int64_t begin = 0, end = std::numeric_limits<std::int64_t>::max();
  std::int64_t num_images = 0;

  std::int64_t count() const { return num_images == 0 ? 0 : end - begin; }  // 0: unknown, or none
};

// The rows of a part of `num_images`, which are read in portions of at most `portion`. Parts are
// whole batches of an undivided job, since the last bits of a confidence depend on the batch.
ScoreRows rows_of_part(const JobPart& part, std::int64_t num_images, std::int64_t batch_size,
                       std::int64_t portion);

// The rows of this job. `set` is that of --data-path, unless there is --files-from. Throws Error
// kUserError if there is --part and the list cannot be read.
ScoreRows rows_of_job(const ScoreConfig& config, const Dataset& set);

// Creates the folder of a part in Parquet, whose path is `file`. Throws Error kFailedToWriteOutputs
// if it has parts of another division.
void prepare_folder_of_parts(const std::filesystem::path& file, const JobPart& part);

// Where the note of a complete part is: scores.part-3-of-8.csv.json. In a folder of
// Parquet files it begins with an underscore, so that their readers ignore it.
std::filesystem::path part_note_path(const std::filesystem::path& file);

// A JSON object of two lines, of which the first is that of all parts of one job. `model` is its
// fingerprint, `names` a hash of the names of all images.
std::string part_note(const ScoreConfig& config, const ScoreRows& rows, const std::string& model,
                      std::uint64_t names);

// A hash over the names and true labels of images, in order.
class NamesHash {
 public:
  void add(const Dataset& set, const TrueLabels& labels, std::size_t image);
  std::uint64_t value() const { return hash_.value(); }

 private:
  ContentHash hash_{0};
};

// The NamesHash of `count` images of --files-from, or otherwise of `set`, from image `first` on;
// empty if there are fewer.
std::optional<std::uint64_t> names_of_rows(std::int64_t first, std::int64_t count,
                                           const ScoreConfig& config, const Dataset& set,
                                           const TrueLabels& labels);

ScoreSettings score_settings(const ScoreConfig& config, const Predictor& predictor,
                             const Inference& inference, const ScoreColumns& columns);

// Why the rows of this job could not be continued by another one, as a clause; empty if they could.
// `list` is that of --files-from, or nullptr.
std::string why_in_one_go(const ScoreConfig& config, const ScoreFormat& format,
                          const FileList* list);

// What existing rows must match for this job to continue them.
struct ScoreResume {
  const ScoreSettings& settings;
  std::string in_one_go;  // why_in_one_go()
  std::function<std::optional<std::uint64_t>(std::int64_t count)> names_of_first;
};

// Where this job continues; empty if it starts over. Logs one line about what was done before, or
// why it is repeated.
std::optional<ScoreProgress> find_rows(ScoreFile& file, const ScoreResume& resume, Log& log);

struct NotableAnswer {
  std::size_t image = 0;  // its index over all scored images
  std::string path;
  RankedClass best;
};

// Selects the answers worth a look: the least confident ones, and the most confident mistakes.
// Holds at most 100 answers, however many it sees.
class NotableAnswers {
 public:
  // `unsure_alone`: only guesses (Score::is_unsure) count as unsure. Otherwise any answer may.
  explicit NotableAnswers(bool unsure_alone) : unsure_alone_(unsure_alone) {}

  // Call it in the order of the images. Ignores bad images.
  void see(std::size_t image, const Score& score, bool is_wrong);

  // The 24 least confident answers (76 guesses with `unsure_alone`), least confident first; then
  // those of the 24 most confident mistakes that are not among them, most confident first. On ties,
  // the first image.
  std::vector<NotableAnswer> all() const;

 private:
  const bool unsure_alone_;
  std::vector<NotableAnswer> doubtful_, wrong_;  // in the order of all()
};

}  // namespace kiln
