// Which rows a job of `kiln score` writes, and which of its answers it explains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "cli/run_config.h"
#include "record/training_record.h"
#include "report/scores/score_formats.h"

namespace kiln {

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

// Where the note of a complete part is: scores.part-3-of-8.csv.json. In a folder of
// Parquet files it begins with an underscore, so that their readers ignore it.
std::filesystem::path part_note_path(const std::filesystem::path& file);

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
