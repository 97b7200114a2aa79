#include "tools/score/score_rows.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/dataset/image_source.h"

namespace kiln {

namespace fs = std::filesystem;

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

}  // namespace kiln
