// `kiln score --part`: which rows a part has, and the note beside its file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include "cli/run_config.h"
#include "data/dataset/dataset.h"

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

}  // namespace kiln
