#include "run/checkpoint/image_hashes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/text.h"
#include "data/loader/sampler.h"
#include "data/split/groups.h"
#include "run/inputs/training_loaders.h"

namespace kiln {
namespace {

constexpr std::size_t kNamed = 3;  // of the changed images

// The training images whose hashes this rank reports if it has images of its own; empty: all ranks
// share them.
std::optional<std::vector<std::uint32_t>> own_train_samples(const Plan& plan,
                                                            const Sources& sources) {
  const SampleTable& samples = sources.train.samples;
  const Division& division = plan.division;
  if (!division.has_own_train || sources.train.is_stream()) return std::nullopt;
  if (plan.uses_features || plan.is_automatic)
    return validation_indices(static_cast<std::uint32_t>(samples.size()), division.train);
  // Which images a rank has read varies from epoch to epoch, so it sends every hash it has.
  if (plan.loading.sample == Sampling::kBalanced) return validation_indices(samples.size(), {});
  std::vector<std::uint32_t> order = training_order(samples, plan.loading.seed, 1);
  const auto used = order.begin() + division.images_per_epoch();
  const std::vector<std::uint32_t> left_out(used, order.end());
  order.erase(used, order.end());
  std::vector<std::uint32_t> reported = training_indices(order, division.train);
  reported.insert(reported.end(), left_out.begin(), left_out.end());
  return reported;
}

std::optional<std::vector<std::uint32_t>> own_valid_samples(const Plan& plan,
                                                            const Sources& sources) {
  if (!plan.division.has_own_valid) return std::nullopt;
  return validation_indices(sources.valid.samples.size(), plan.division.valid);
}

// Of every image, in a table that all ranks share; 0: no rank has read it.
std::vector<std::uint64_t> hashes_of_all(World& world, const SampleTable& samples) {
  std::vector<std::uint64_t> hashes = hashes_of(samples);
  world.take_largest(hashes);
  return hashes;
}

std::vector<std::string> gather_packed(World& world, const SampleTable& samples,
                                       const std::optional<std::vector<std::uint32_t>>& own) {
  std::string bytes;
  const auto pack = [&bytes](std::uint64_t index, std::uint64_t hash) {
    if (hash == 0) return;
    append_bytes(bytes, index);
    append_bytes(bytes, hash);
  };
  if (own) {
    for (const std::uint32_t i : *own) pack(i, samples.hash(i));
    return world.gather_on_rank_0(bytes);
  }
  const std::vector<std::uint64_t> all = hashes_of_all(world, samples);
  if (!world.leads()) return {};
  for (std::uint64_t i = 0; i < all.size(); ++i) pack(i, all[i]);
  return {std::move(bytes)};
}

std::vector<std::uint64_t> gather(World& world, const SampleTable& samples,
                                  const std::optional<std::vector<std::uint32_t>>& own) {
  std::vector<std::uint64_t> mine, all;
  if (own) {
    for (const std::uint32_t i : *own) mine.push_back(samples.hash(i));
    all = concatenated(world.gather_on_rank_0(mine));
  } else {
    all = hashes_of_all(world, samples);
  }
  std::erase(all, 0U);
  return all;
}

// Puts the hashes of all ranks into the table of each.
void share(World& world, SampleTable& samples) {
  const std::vector<std::uint64_t> all = hashes_of_all(world, samples);
  samples.keep_hashes();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != 0) samples.set_hash(i, all[i]);
}

void warn_of_changed(World& world, Log& log, const char* set, SampleTable& samples) {
  const std::vector<std::uint32_t> changed = samples.take_changed();
  const double count = world.sum({static_cast<double>(changed.size())}).front();
  if (count == 0) return;
  std::vector<std::string> mine;
  for (std::size_t k = 0; k < std::min(changed.size(), kNamed); ++k)
    mine.emplace_back(samples.file_name(changed[k]));
  std::vector<std::string> names = concatenated(world.gather(mine));
  names.resize(std::min(names.size(), kNamed));
  const double rest = count - static_cast<double>(names.size());
  if (!world.leads()) return;
  log.warning(formatted("%.0f %s %s not have the bytes that this run read under the same name "
                        "before: ",
                        count, set, count == 1 ? "image does" : "images do") +
              quoted_names(names, kNamed) + (rest > 0 ? formatted(" and %.0f more", rest) : "") +
              ". Files were replaced" + (world.size() > 1 ? " or differ between ranks" : "") +
              ", so the results are of both contents. For those of one, start over.");
}

}  // namespace

std::vector<std::string> gather_train_hashes(World& world, const Plan& plan,
                                             const Sources& sources) {
  return gather_packed(world, sources.train.samples, own_train_samples(plan, sources));
}

std::vector<std::string> gather_valid_hashes(World& world, const Plan& plan,
                                             const Sources& sources) {
  return gather_packed(world, sources.valid.samples, own_valid_samples(plan, sources));
}

void unpack_hashes(std::string_view packed, SampleTable& samples) {
  samples.keep_hashes();
  while (packed.size() >= 16) {
    const auto index = value_from<std::uint64_t>(packed), hash = value_from<std::uint64_t>(packed);
    if (index < samples.size()) samples.set_hash(index, hash);
  }
}

void share_hashes(World& world, const Plan& plan, Sources& sources) {
  if (world.size() == 1) return;
  if (!plan.division.has_own_train) share(world, sources.train.samples);
  if (!plan.division.has_own_valid) share(world, sources.valid.samples);
}

void warn_of_changed_images(World& world, Log& log, Sources& sources) {
  warn_of_changed(world, log, "training", sources.train.samples);
  warn_of_changed(world, log, "validation", sources.valid.samples);
}

SeenImages gather_seen_images(World& world, const Plan& plan, const Sources& sources) {
  std::vector<std::uint64_t> train =
      gather(world, sources.train.samples, own_train_samples(plan, sources));
  std::vector<std::uint64_t> valid =
      gather(world, sources.valid.samples, own_valid_samples(plan, sources));
  if (!world.leads()) return {};
  SeenImages seen = make_seen_images(std::move(train), std::move(valid));
  if (sources.seen) seen.add(*sources.seen);  // by the initial weights
  return seen;
}

}  // namespace kiln
