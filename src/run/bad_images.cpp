#include "run/bad_images.h"

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/image/image.h"
#include "run/prepare/shared_sources.h"

namespace kiln {
namespace {

constexpr std::size_t kLoggedImages = 10;   // maximum number of images named in the log
constexpr std::size_t kNamedAtTheEnd = 20;  // maximum number of images named in the error
constexpr double kCheckSeconds = 5;

}  // namespace

void BadImageLedger::record(const std::vector<BadImage>& faults, bool leads, Log& log) {
  const auto report = [&](const std::string& text) { leads ? log.warning(text) : log.info(text); };
  for (const BadImage& fault : faults) {
    if (faults_.samples.contains(fault.sample)) continue;
    add(fault);
    const std::size_t count = faults_.records.size();
    if (count <= kLoggedImages)
      report((fault.damaged ? "damaged " : "bad ") + name_ + " image '" +
             faults_.records.back().file + "': " + fault.fault +
             (fault.damaged ? " (used as far as it can be decoded)" : " (skipped)"));
    if (count == kLoggedImages + 1)
      report("more bad or damaged " + name_ +
             " images follow; training.json will list all of them");
  }
  if (on_bad_image_ == OnBadImage::kFail && faults_.num_bad > 0)
    throw Error(ErrorCode::kInvalidDataset,
                names() + ". Fix or remove it, or skip bad images with --on-bad-image skip.");
  // If the ranks share the faults, only rank 0's error is shown, so only rank 0 checks the rest.
  if (faults_.num_bad <= allowed_) return;
  const bool checked_all = (leads || is_shard_) && !set_.is_stream() && check_rest();
  const std::string count = std::to_string(faults_.num_bad);
  throw Error(ErrorCode::kInvalidDataset,
              names() + ". That is " + (checked_all ? "" : "at least ") + count + " of " +
                  std::to_string(set_.num_images()) + " images, and --max-bad-images allows " +
                  std::to_string(allowed_) + ": fix or remove them" +
                  (checked_all || set_.is_stream() ? "" : " (`kiln inspect --check` lists all)") +
                  ", or allow more (for example --max-bad-images " +
                  std::to_string(faults_.num_bad * 2) + " or 10%).");
}

void BadImageLedger::add(const BadImage& fault) {
  faults_.samples.insert(fault.sample);
  faults_.records.push_back(
      {name_, set_.is_stream() ? fault.name : std::string(set_.samples.file_name(fault.sample)),
       fault.fault, fault.damaged});
  faults_.num_bad += fault.damaged ? 0 : 1;
}

// Adds the bad images that the run has not reached yet. Returns false if there was not enough time
// to check all images.
bool BadImageLedger::check_rest() {
  const Stopwatch watch;
  std::string bytes;
  for (std::size_t i = 0; i < set_.samples.size(); ++i) {
    const auto sample = static_cast<std::uint32_t>(i);
    if (watch.seconds() > kCheckSeconds) return false;
    if (faults_.samples.contains(sample)) continue;
    try {
      read_image_bytes(set_, i, bytes);
      decode_image(bytes, Exif::kIgnore);
    } catch (const ImageFault& fault) {
      add({.sample = sample, .fault = fault.what()});
    }
  }
  return true;
}

void BadImageLedger::record_on_all_ranks(const std::vector<BadImage>& mine, World& world,
                                         Log& log) {
  // Indices into another shard mean nothing here, so each rank records only its own faults.
  const std::vector<BadImage> all = is_shard_ ? mine : share_faults(world, mine);
  world.agree([&] { record(all, world.leads(), log); });
}

std::string BadImageLedger::names() const {
  std::string text = (name_ == "training" ? "Training" : "Validation") + std::string(" dataset '") +
                     set_.root.string() + "' has bad images:";
  std::size_t named = 0;
  for (const ImageFaultRecord& record : faults_.records) {
    if (record.damaged) continue;
    if (named == kNamedAtTheEnd)
      return text + formatted("; and %zu more", static_cast<std::size_t>(faults_.num_bad) - named);
    text += (named++ == 0 ? " '" : "; '") + record.file + "' (" + record.fault + ")";
  }
  return text;
}

}  // namespace kiln
