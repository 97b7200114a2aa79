#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/dataset.h"
#include "data/dataset/image_bytes.h"
#include "data/image/image.h"
#include "data/transform/operations.h"
#include "run/inputs/sources.h"
#include "store/transformation_directory.h"
#include "tools/commands.h"
#include "tools/convert/convert.h"
#include "tools/score/scoring_progress.h"

namespace kiln {
namespace {

// The PNG file of image `i`; sets damaged[i] if it is. Throws Error kInvalidDataset. An image must
// look the same to everyone who reads it for inference, so it uses a fixed key there.
std::string changed_image(const Dataset& set, const TransformChain& chain,
                          const TransformApplyConfig& config, std::size_t i,
                          std::vector<char>& damaged) try {
  std::string bytes;
  read_image_bytes(set, i, bytes);
  DecodedImage decoded = decode_image(bytes, set.exif);
  damaged[i] = decoded.damage.empty() ? 0 : 1;
  WorkImage memory;
  const DrawKey key = {.seed = static_cast<std::uint64_t>(config.random_seed), .image = i};
  chain.apply(decoded.image, config.for_inference ? kInferenceKey : key, memory);
  return encode_png(decoded.image);
} catch (const ImageFault& fault) {
  set.fail("'" + std::string(set.samples.file_name(i)) + "' cannot be transformed: " +
           fault.what() + ". Fix the file or remove it, or change the transformation.");
}

}  // namespace

int run(const TransformInitConfig& config, Process& process) {
  Log& log = process.log;
  Problems problems;
  const TransformChain chain =
      TransformChain::parse(config.operations, "the requested operations", problems);
  problems.throw_if_any();
  const OutputFolder folder = prepare_transformation_output(config.output_path);
  for (const std::string& name : config.ignored)
    log.warning("--" + name + " changes nothing, as in the designer: no operation is written.");
  if (chain.empty())
    log.warning("No operation was requested, so the transformation changes nothing.");
  write_transformation_directory(folder, chain.to_json());
  log.info("Wrote the TransformationDirectory '" + config.output_path + "': " + chain.summary() +
           ".");
  return 0;
}

int run(const TransformApplyConfig& config, Process& process) {
  Log& log = process.log;
  TransformChain chain;
  Dataset set;
  std::optional<OutputFolder> folder;
  Problems problems;
  problems.collect([&] { chain = read_transformation(config.transform_path); });
  problems.collect([&] { set = read_dataset(config.image_path, "Input dataset", config.records); });
  problems.collect(
      [&] { folder.emplace(take_image_output(config.output_path, config.image_path)); });
  problems.throw_if_any();
  report_unused(config.records, set);
  warn_of_notes(set, log);
  if (config.for_inference) {
    chain = chain.for_inference();
    if (chain.is_random())
      log.warning(
          "ColorJitter changes all images by one draw: for inference, only operations whose names "
          "begin with Random are left out.");
  }
  log.info("Found " + plural(set.samples.size(), "image", "images") + " (" + describe(set.kind) +
           " '" + set.root.string() + "'). Operations: " + chain.summary() + ".");
  std::vector<char> is_damaged(set.samples.size(), 0);
  ScoringProgress progress(static_cast<long long>(set.samples.size()), log);
  ImageDirectoryOutput output(
      set,
      ChangedImages{
          .contents =
              [&](std::size_t i) { return changed_image(set, chain, config, i, is_damaged); },
          .num_threads = config.loader_threads > 0 ? config.loader_threads : usable_cpus(),
          .tell = [&](std::size_t done) { progress.show(static_cast<long long>(done)); }},
      *std::move(folder));
  output.put_in_place();
  std::vector<std::string> damaged;
  for (std::size_t i = 0; i < is_damaged.size(); ++i)
    if (is_damaged[i] != 0) damaged.emplace_back(set.samples.file_name(i));
  constexpr std::size_t kNamed = 10;
  if (!damaged.empty())
    log.warning(plural(std::ssize(damaged), "damaged image was", "damaged images were") +
                " partly decoded: " + quoted_names(damaged, kNamed) + ".");
  log.info("Wrote the ImageDirectory '" + config.output_path + "'.");
  return 0;
}

}  // namespace kiln
