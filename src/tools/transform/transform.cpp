#include <map>
#include <mutex>
#include <string>

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

// Transforms single images, on any number of threads.
class ImageChanger {
 public:
  ImageChanger(const Dataset& set, const TransformChain& chain, const TransformApplyConfig& config)
      : set_(set), chain_(chain), config_(config) {}

  // The PNG file of image `i`. Throws Error kInvalidDataset.
  std::string contents(std::size_t i) {
    try {
      std::string bytes;
      read_image_bytes(set_, i, bytes);
      DecodedImage decoded = decode_image(bytes, set_.exif);
      if (!decoded.damage.empty()) {
        const std::scoped_lock lock(mutex_);
        damaged_.emplace(i, set_.samples.file_name(i));
      }
      WorkImage memory;
      chain_.apply(decoded.image, key_of(i), memory);
      return encode_png(decoded.image);
    } catch (const ImageFault& fault) {
      set_.fail("'" + std::string(set_.samples.file_name(i)) + "' cannot be transformed: " +
                fault.what() + ". Fix the file or remove it, or change the transformation.");
    }
  }

  // The names of damaged images, in list order.
  std::vector<std::string> damaged() const {
    std::vector<std::string> names;
    for (const auto& [i, name] : damaged_) names.push_back(name);
    return names;
  }

 private:
  // An image must look the same to everyone who reads it for inference, so it uses a fixed key.
  DrawKey key_of(std::size_t i) const {
    if (config_.for_inference) return kInferenceKey;
    return {.seed = static_cast<std::uint64_t>(config_.random_seed), .image = i};
  }

  const Dataset& set_;
  const TransformChain& chain_;
  const TransformApplyConfig& config_;
  std::mutex mutex_;
  std::map<std::size_t, std::string> damaged_;
};

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
  for (const std::string& note : set.notes) log.warning(note);
  warn_of_lost_columns(set, log);
  if (config.for_inference) {
    chain = chain.for_inference();
    if (chain.is_random())
      log.warning(
          "ColorJitter changes all images by one draw: for inference, only operations whose names "
          "begin with Random are left out.");
  }
  log.info("Found " + plural(set.samples.size(), "image", "images") + " (" + describe(set.kind) +
           " '" + set.root.string() + "'). Operations: " + chain.summary() + ".");
  ImageChanger changer(set, chain, config);
  ScoringProgress progress(static_cast<long long>(set.samples.size()), log);
  write_changed_images(
      set, *std::move(folder),
      {.extension = ".png",
       .contents = [&](std::size_t i) { return changer.contents(i); },
       .num_threads = config.loader_threads > 0 ? config.loader_threads : usable_cpus(),
       .tell = [&](std::size_t done) { progress.show(static_cast<long long>(done)); }});
  constexpr std::size_t kNamed = 10;
  if (const std::vector<std::string> damaged = changer.damaged(); !damaged.empty())
    log.warning(plural(std::ssize(damaged), "damaged image was", "damaged images were") +
                " partly decoded: " + quoted_names(damaged, kNamed) + ".");
  log.info("Wrote the ImageDirectory '" + config.output_path + "'.");
  return 0;
}

}  // namespace kiln
