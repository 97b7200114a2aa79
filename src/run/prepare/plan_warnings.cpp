#include "run/prepare/plan_warnings.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/image_index.h"
#include "data/image/image.h"
#include "run/prepare/shared_sources.h"
#include "train/schedule/catalogue.h"
#include "train/schedule/schedule.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFewSteps = 20;        // in an epoch
constexpr double kMuchLeftOver = 0.1;         // share of the images
constexpr double kMuchEnlarged = 2;           // factor for width and height
constexpr std::size_t kMaxLookedAt = 10'000;  // for orientations
constexpr std::size_t kHeadersToRead = 20;    // to find the typical size of the images

// The folders of the training and the validation data; empty if unknown.
std::pair<fs::path, fs::path> real_roots(const Sources& sources) {
  std::error_code fault;
  return {fs::weakly_canonical(sources.train.root, fault),
          fs::weakly_canonical(sources.valid.root, fault)};
}

// Also true for two equal paths.
bool is_inside(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

class Warnings {
 public:
  Warnings(const Plan& plan, const Machine& machine, const Sources& sources)
      : plan_(plan), precision_(machine.precision), sources_(sources) {}

  std::vector<std::string> all() {
    said_ = sources_.notes;
    said_.insert(said_.end(), plan_.warnings.begin(), plan_.warnings.end());
    for (const Dataset* set : {&sources_.train, &sources_.valid})
      said_.insert(said_.end(), set->notes.begin(), set->notes.end());
    if (!precision_.warning.empty()) warn(precision_.warning);
    same_data();
    swapped_data();
    classes();
    steps();
    enlarged();
    turned();
    schedule();
    return std::move(said_);
  }

 private:
  void warn(std::string_view text) { said_.emplace_back(text); }

  long long num_train() const { return sources_.train.num_images(); }
  long long num_valid() const { return static_cast<long long>(sources_.valid.samples.size()); }

  void same_data() {
    const auto [train, valid] = real_roots(sources_);
    const std::string consequence =
        ": the validation accuracy says nothing about new images. Use images that are not in the "
        "training data.";
    if (sources_.judged_out_of_fold || !share_a_folder(sources_)) return;
    if (train == valid)
      warn("training and validation data are the same, '" + train.string() + "'" + consequence);
    else if (is_inside(valid, train))
      warn("the validation data '" + valid.string() + "' are part of the training data '" +
           train.string() + "'" + consequence);
    else
      warn("the training data '" + train.string() + "' are part of the validation data '" +
           valid.string() + "'" + consequence);
  }

  void swapped_data() {
    const Division& division = plan_.division;
    if (division.has_own_train || division.has_own_valid || sources_.is_split) return;
    if (sources_.train.is_stream()) return;
    if (num_valid() <= num_train()) return;
    warn(
        formatted("there are more validation images (%s) than training images (%s): are "
                  "--train-data-path and --valid-data-path swapped?",
                  grouped(num_valid()).c_str(), grouped(num_train()).c_str()));
  }

  void classes() {
    const std::vector<std::string>& names = sources_.train.classes;
    if (names.size() == 1)
      warn(
          "there is only one class: every prediction will be correct, and the model learns "
          "nothing");
    for (const auto& [set, kind] :
         {std::pair(&sources_.train, "training"), std::pair(&sources_.valid, "validation")}) {
      if (set->is_stream()) continue;
      const std::vector<long long> counts = counts_by_class(*set, names.size());
      std::vector<std::string> empty;
      for (std::size_t label = 0; label < counts.size(); ++label)
        if (counts[label] == 0) empty.push_back(names[label]);
      if (!empty.empty())
        warn("no " + std::string(kind) + " images for class " + quoted_names(empty, 10));
    }
  }

  // Warns of few steps per epoch, which more ranks make even fewer, and of many images left over.
  void steps() {
    if (plan_.uses_features) return;
    const int batch = plan_.loading.batch_size;
    const int ranks = plan_.num_training_ranks;
    const std::int64_t steps = plan_.division.steps_per_epoch;
    if (ranks > 1 && steps < kFewSteps)
      warn(
          formatted("%d ranks have only %lld %s per epoch (%lld with one): with few images lower "
                    "--batch-size to %d, or use one rank",
                    ranks, static_cast<long long>(steps), steps == 1 ? "step" : "steps",
                    static_cast<long long>(steps) * ranks, std::max(1, batch / ranks)));
    const long long left_over = images_left_over(plan_, sources_);
    if (static_cast<double>(left_over) <= kMuchLeftOver * static_cast<double>(num_train())) return;
    const long long others = plan_.global_batch / batch;
    for (long long smaller = batch - 1; smaller >= std::max(2, batch / 2); --smaller)
      if (num_train() % (smaller * others) == 0) {
        warn(
            formatted("%lld of %lld training images are left over in each epoch: --batch-size "
                      "%lld uses all",
                      left_over, num_train(), smaller));
        return;
      }
    warn(formatted(
        "%lld of %lld training images are left over in each epoch, different ones each time: a "
        "smaller --batch-size leaves fewer",
        left_over, num_train()));
  }

  // Only if --image-size is given.
  void enlarged() {
    const int side = plan_.pixels.given_side;
    if (side == 0) return;
    std::vector<int> sides;
    std::string bytes;
    for (std::size_t i = 0; i < std::min(sources_.train.samples.size(), kHeadersToRead); ++i) {
      try {
        read_first_bytes(sources_.train, i, 64 << 10, bytes);
        const ImageSize size = read_image_size(bytes, sources_.train.exif);
        sides.push_back(std::min(size.height, size.width));
      } catch (const ImageFault&) {  // the loader will report why
      }
    }
    if (sides.empty()) return;
    std::nth_element(sides.begin(), sides.begin() + static_cast<std::ptrdiff_t>(sides.size() / 2),
                     sides.end());
    const int typical = sides[sides.size() / 2];
    const double times = static_cast<double>(side) / typical;
    if (times < kMuchEnlarged) return;
    warn(
        formatted("images of about %d pixels are enlarged to %d: training takes about %.0f times "
                  "as long without more detail; leave --image-size out, or use %d",
                  typical, side, times * times, std::max(32, typical)));
  }

  // Images that are trained on as stored, although they say how to turn them.
  void turned() {
    if (plan_.pixels.train.exif == Exif::kApply) return;
    for (const Dataset* set : {&sources_.train, &sources_.valid}) {
      const TurnedImages found = turned_images(*set, kMaxLookedAt);
      if (found.turned == 0) continue;
      const bool is_all = found.looked_at == set->samples.size();
      warn(formatted(
          "%zu of %s%zu images of the %s data have an EXIF orientation, which is ignored: "
          "the network sees them turned or mirrored; --exif apply makes them upright",
          found.turned, is_all ? "" : "the first ", found.looked_at,
          set == &sources_.train ? "training" : "validation"));
    }
  }

  void schedule() {
    if (plan_.uses_features) return;
    const SchedulePlan& plan = plan_.recipe.schedule;
    const KnownSchedule& schedule = *find_known_schedule(plan.name);
    if (schedule.falls_to_floor && plan.peak < kRateFloor)
      warn(formatted("the learning rate is below the schedule's minimum and will rise to %g",
                     kRateFloor));
    else if (schedule.has_linear_warmup && plan.warmup_epochs > 0 && plan.peak < kWarmupStart)
      warn(formatted(
          "the learning rate is below %g, where warm-up starts: warm-up will lower it instead of "
          "raising it",
          kWarmupStart));
    if (plan.warmup_epochs >= plan.epochs)
      warn("warm-up takes all epochs: the learning rate never reaches its peak");
  }

  const Plan& plan_;
  const PrecisionChoice& precision_;
  const Sources& sources_;
  std::vector<std::string> said_;
};

}  // namespace

std::vector<std::string> plan_warnings(const Plan& plan, const Machine& machine,
                                       const Sources& sources) {
  return Warnings(plan, machine, sources).all();
}

bool share_a_folder(const Sources& sources) {
  if (sources.is_split) return false;
  const auto [train, valid] = real_roots(sources);
  if (train.empty() || valid.empty()) return false;
  return is_inside(valid, train) || is_inside(train, valid);
}

long long warn_of_shared_images(World& world, Log& log, const Sources& sources,
                                long long num_valid) {
  const long long count = count_valid_in_train(world, sources.train.samples, sources.valid.samples);
  if (count == 0 || share_a_folder(sources) || !world.leads()) return count;
  log.warning(
      formatted("%lld of %lld validation images are also training images, byte for byte: the "
                "validation accuracy is optimistic. Remove them from one of the two.",
                count, num_valid));
  return count;
}

long long images_left_over(const Plan& plan, const Sources& sources) {
  if (plan.division.has_own_train || plan.uses_features ||
      plan.loading.sample == Sampling::kBalanced)
    return 0;
  return sources.train.num_images() - plan.division.steps_per_epoch * plan.global_batch;
}

}  // namespace kiln
