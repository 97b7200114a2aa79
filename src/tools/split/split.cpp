#include "tools/commands.h"

#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "base/names.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/dataset.h"
#include "data/split/split.h"
#include "run/inputs/sources.h"
#include "tools/convert/convert.h"

namespace kiln {
namespace {

// An image that could be decoded has a hash. If there are too many images, none are decoded here.
void warn_of_undecodable(const Dataset& set, Log& log) {
  if (set.samples.size() > kMaxDecodedImages) return;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < set.samples.size(); ++i)
    if (set.samples.hash(i) == 0) names.push_back(std::string(set.samples.file_name(i)));
  if (names.empty()) return;
  log.warning(formatted("%zu of %zu files cannot be decoded: ", names.size(), set.samples.size()) +
              quoted_names(names, 10) + ". Training will skip those that are copied.");
}

void warn_of_leaks(const PartedDataset& split, const SplitImagesConfig& config, Log& log) {
  if (!split.leaks.empty())
    log.warning(plural(std::ssize(split.leaks), "image has", "images have") +
                " duplicates in another output: --keep-duplicates-together keeps them in one" +
                (config.check_leaks ? "." : ", --check-leaks lists them."));
  if (split.set.samples.size() > kMaxDecodedImages &&
      (config.check_leaks || config.keep_duplicates_together))
    log.warning(formatted("With more than %zu images only byte-identical duplicates are found.",
                          kMaxDecodedImages));
}

// {"same_bytes": true, "train": ["a/1.jpg"], "test": ["a/7.jpg"]}
std::string leak_line(const Leak& leak, const PartedDataset& split,
                      const std::vector<std::string>& names) {
  std::string line = std::string(R"({"same_bytes": )") + (leak.same_bytes ? "true" : "false");
  for (std::size_t p = 0; p < names.size(); ++p) {
    std::string images;
    for (const std::uint32_t i : leak.images)
      if (split.parts[i] == p)
        images += (images.empty() ? "" : ", ") +
                  quote_json(as_utf8(std::string(split.set.samples.file_name(i))));
    if (!images.empty()) line += ", " + quote_json(names[p]) + ": [" + images + "]";
  }
  return line + "}\n";
}

// Puts all outputs in place together, when the last one is complete.
void write_parts(const PartedDataset& split, std::vector<OutputFolder> folders, Log& log) {
  std::vector<ImageDirectoryOutput> outputs;
  outputs.reserve(folders.size());
  for (std::size_t p = 0; p < folders.size(); ++p) {
    std::vector<bool> keep(split.parts.size());
    for (std::size_t i = 0; i < keep.size(); ++i) keep[i] = split.parts[i] == p;
    outputs.emplace_back(split.set, keep, std::move(folders[p]));
  }
  for (ImageDirectoryOutput& output : outputs) {
    if (const std::string note = output.left_out().note(); !note.empty()) log.warning(note);
    output.put_in_place();
  }
}

}  // namespace

int run(const SplitImagesConfig& config, Process& process) {
  Log& log = process.log;
  if (config.check_leaks) log.use_standard_error();
  const PartsRequest request{.names = config.part_names,
                             .fractions = config.fractions,
                             .by_class = config.stratify,
                             .group_by = config.group_by,
                             .keep_duplicates_together = config.keep_duplicates_together,
                             .seed = static_cast<std::uint64_t>(config.random_seed)};
  Dataset set;
  Problems problems;
  problems.collect([&] {
    set = read_dataset(config.src_path, "Input dataset", config.records);
    report_unused(config.records, set);
    check_parts(request, set);
  });
  std::vector<OutputFolder> folders;
  for (const std::string& path : config.part_paths)
    problems.collect([&] { folders.push_back(take_image_output(path, config.src_path)); });
  problems.throw_if_any();
  const PartedDataset split =
      split_into_parts(std::move(set), request, scan_plan(usable_cpus(), log));
  warn_of_notes(split.set, log);
  warn_of_undecodable(split.set, log);
  warn_of_turned_images(split.set, log);
  write_parts(split, std::move(folders), log);
  log.info("Split '" + config.src_path + "' into " + split.summary + ".");
  log.info("Wrote the ImageDirectories " +
           quoted_names(config.part_paths, config.part_paths.size()) + ".");
  warn_of_leaks(split, config, log);
  if (!config.check_leaks) return 0;
  for (const Leak& leak : split.leaks)
    std::fputs(leak_line(leak, split, config.part_names).c_str(), stdout);
  return split.leaks.empty() ? 0 : 1;
}

}  // namespace kiln
