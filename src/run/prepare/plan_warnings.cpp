#include "run/prepare/plan_warnings.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "data/dataset/dataset.h"
#include "data/image/image.h"
#include "data/split/groups.h"
#include "run/checkpoint/image_hashes.h"
#include "run/inputs/image_sizes.h"
#include "run/prepare/class_counts.h"
#include "run/prepare/shared_sources.h"
#include "train/schedule/catalogue.h"

namespace kiln {
namespace {

constexpr std::int64_t kFewSteps = 20;        // in an epoch
constexpr double kMuchLeftOver = 0.1;         // share of the images
constexpr double kMuchEnlarged = 2;           // factor for width and height
constexpr std::size_t kMaxLookedAt = 10'000;  // for orientations
constexpr std::size_t kHeadersToRead = 20;    // to find the typical size of the images

// The images that judge this run and that its initial weights were trained on, as far as rank 0 has
// read them.
long long num_seen_images(const Sources& sources) {
  if (!sources.seen) return 0;
  const SampleTable& judged = (sources.judged_out_of_fold ? sources.train : sources.valid).samples;
  return std::ranges::count_if(hashes_of(judged), [&](std::uint64_t hash) {
    return hash != 0 && sources.seen->was_trained_on(hash);
  });
}

class Warnings {
 public:
  Warnings(const Plan& plan, const Sources& sources) : plan_(plan), sources_(sources) {}

  std::vector<std::string> all() {
    said_ = sources_.notes;
    said_.insert(said_.end(), plan_.warnings.begin(), plan_.warnings.end());
    for (const Dataset* set : {&sources_.train, &sources_.valid})
      said_.insert(said_.end(), set->notes.begin(), set->notes.end());
    if (!plan_.precision.warning.empty()) warn(plan_.precision.warning);
    std::vector<std::string> unused;
    if (!sources_.train.is_stream() &&
        plan_.loading.shuffle_buffer != static_cast<std::size_t>(StreamConfig{}.shuffle_buffer))
      unused.emplace_back("--shuffle-buffer (for streams)");
    if (const std::string text =
            note_of_unused(plan_.loading.records, {&sources_.train, &sources_.valid}, unused);
        !text.empty())
      warn(text);
    const Division& division = plan_.division;
    const bool has_parts = division.has_own_train || division.has_own_valid || sources_.is_split;
    const long long num_valid = std::ssize(sources_.valid.samples);
    if (!has_parts && !sources_.train.is_stream() && num_valid > num_train())
      warn(
          formatted("there are more validation images (%s) than training images (%s): are "
                    "--train-data-path and --valid-data-path swapped?",
                    grouped(num_valid).c_str(), grouped(num_train()).c_str()));
    classes();
    steps();
    enlarged();
    turned();
    for (const Dataset* set : {&sources_.train, &sources_.valid})
      if (const std::string note = note_of_lost_contrast(*set);
          !note.empty() && (said_.empty() || note != said_.back()))
        warn(note);
    if (draws(plan_.pixels.valid))
      warn(
          "ColorJitter of --transform-path changes validation images too, all by one draw: only "
          "operations whose names begin with Random are for training alone");
    schedule();
    return std::move(said_);
  }

 private:
  void warn(std::string_view text) { said_.emplace_back(text); }

  long long num_train() const { return sources_.train.num_images(); }

  void classes() {
    const std::vector<std::string>& names = sources_.train.classes;
    const std::vector<std::vector<int>>& sets = sources_.train.labels.sets;
    if (sources_.train.num_labels() == 1)
      warn(std::string(sets.empty() ? "there is only one class"
                                    : "all training images have the same classes") +
           ": every prediction will be correct, and the model learns nothing");
    if (!sets.empty() && std::ranges::all_of(sets, [](const auto& ids) { return ids.size() < 2; }))
      warn(
          "--task multi-label, but no training image has several classes: in a list, a ';' and "
          "no blank is between the labels of an image");
    for (const auto& [set, kind] :
         {std::pair(&sources_.train, "training"), std::pair(&sources_.valid, "validation")}) {
      if (set->is_stream()) continue;
      const std::vector<long long> counts = counts_by_class(*set, names.size());
      std::vector<std::string> empty;
      for (std::size_t label = 0; label < counts.size(); ++label)
        if (counts[label] == 0) empty.push_back(names[label]);
      if (!empty.empty())
        warn("no " + std::string(kind) + " images for class " + quoted_names(empty, 10) +
             (set == &sources_.valid && !sets.empty()
                  ? ": its threshold is 0.5, and its confidence is not calibrated"
                  : ""));
    }
  }

  // Images that are mixed in pairs need an even batch.
  int batch_step() const { return plan_.recipe.mix.mixes() ? 2 : 1; }

  // Warns of few steps per epoch, which more ranks make even fewer, and of many images left over.
  void steps() {
    if (plan_.uses_features) return;
    const int batch = plan_.loading.batch_size;
    const int ranks = plan_.num_training_ranks;
    const std::int64_t steps = plan_.division.steps_per_epoch;
    if (ranks > 1 && steps < kFewSteps)
      warn(formatted(
          "%d ranks have only %s per epoch (%lld with one): with few images lower "
          "--batch-size to %d, or use one rank",
          ranks, plural(steps, "step", "steps").c_str(), static_cast<long long>(steps) * ranks,
          std::max(batch_step(), batch / ranks / batch_step() * batch_step())));
    const long long left_over = images_left_over(plan_, sources_);
    if (static_cast<double>(left_over) <= kMuchLeftOver * static_cast<double>(num_train())) return;
    const long long others = plan_.global_batch / batch;
    long long best = batch, fewest = left_over;
    const int step = batch_step();
    for (long long smaller = batch - step; smaller >= std::max(2, batch / 2); smaller -= step)
      if (const long long left = num_train() % (smaller * others); left < fewest)
        best = smaller, fewest = left;
    const std::string text = formatted("%lld of %lld training images are left over in each epoch",
                                       left_over, num_train());
    if (best == batch) return warn(text + ", different ones each time");
    warn(text + formatted(": --batch-size %lld ", best) +
         (fewest == 0 ? "uses all" : formatted("leaves %lld", fewest)));
  }

  // Only if --image-size is given.
  void enlarged() {
    const int side = plan_.pixels.given_side;
    if (side == 0) return;
    const auto short_side = [](ImageSize size) { return std::min(size.height, size.width); };
    const int typical = static_cast<int>(
        median_of_sizes(sources_.train, kHeadersToRead, short_side).value_or(side));
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
    const KnownSchedule& schedule = *find_row(kKnownSchedules, plan.name);
    if (schedule.fall != nullptr && plan.peak < kRateFloor)
      warn(formatted("the learning rate is below the schedule's minimum and will rise to %g",
                     kRateFloor));
    else if (plan.warmup_epochs > 0 && plan.peak < kWarmupStart)
      warn(formatted(
          "the learning rate is below %g, where warm-up starts: warm-up will lower it instead of "
          "raising it",
          kWarmupStart));
    if (plan.warmup_epochs >= plan.epochs)
      warn("warm-up takes all epochs: the learning rate never reaches its peak");
  }

  const Plan& plan_;
  const Sources& sources_;
  std::vector<std::string> said_;
};

}  // namespace

std::vector<std::string> plan_warnings(const Plan& plan, const Sources& sources) {
  return Warnings(plan, sources).all();
}

void doubt_accuracy(World& world, Log& log, const Plan& plan, Sources& sources,
                    EpochRecord& record) {
  share_hashes(world, plan, sources);
  const Twins twins = find_twins(world, plan.division, sources);
  if (!sources.train.is_stream() && !sources.judged_out_of_fold)
    record.valid_in_train = twins.num_valid_in_train;
  if (!world.leads()) return;
  std::vector<std::string>& doubts = record.doubts;
  if (!twins.contradictions.empty()) doubts.push_back(twins.contradictions);
  if (const long long count = twins.num_valid_in_train; count > 0)
    doubts.push_back(
        grouped(count) + " of " + grouped(record.valid.count) +
        " validation images are also training images, byte for byte: the validation accuracy is "
        "optimistic. Remove them from one of the two.");
  // Of lists; a split of one set keeps its groups together.
  if (std::string torn = note_of_torn_groups(sources.train, sources.valid);
      !torn.empty() && !sources.judged_out_of_fold)
    doubts.push_back(std::move(torn));
  if (const long long count = num_seen_images(sources); count > 0)
    doubts.push_back("The initial weights were trained on " + grouped(count) +
                     " of the images that judge the model, byte for byte: the validation accuracy "
                     "is optimistic. Judge it on other images, or start from other weights.");
  for (const std::string& doubt : doubts) log.warning(doubt);
}

long long images_left_over(const Plan& plan, const Sources& sources) {
  if (plan.division.has_own_train || plan.uses_features ||
      plan.loading.sample == Sampling::kBalanced)
    return 0;
  return sources.train.num_images() - plan.division.steps_per_epoch * plan.global_batch;
}

}  // namespace kiln
