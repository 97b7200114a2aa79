#include "run/checkpoint/image_hashes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "data/loader/sampler.h"
#include "run/inputs/training_loaders.h"

namespace kiln {
namespace {

constexpr std::size_t kNamed = 3;  // of the changed images

std::vector<std::uint32_t> reported_train_samples(const TrainingJob& job) {
  const TrainingInputs& inputs = job.inputs;
  if (inputs.train.is_stream()) return {};
  if (job.uses_features || job.is_automatic)
    return validation_indices(static_cast<std::uint32_t>(inputs.train.samples.size()),
                              inputs.train_shard);
  if (job.config.optimization.sample == Sampling::kBalanced) {
    // Which images a rank has read varies from epoch to epoch, so it sends every hash it has.
    std::vector<std::uint32_t> all(inputs.train.samples.size());
    std::iota(all.begin(), all.end(), 0U);
    return all;
  }
  std::vector<std::uint32_t> order = training_order(job.config.optimization, inputs, 1);
  const auto used = order.begin() + inputs.images_per_epoch();
  const std::vector<std::uint32_t> left_out(used, order.end());
  order.erase(used, order.end());
  std::vector<std::uint32_t> told = training_indices(order, inputs.train_shard);
  told.insert(told.end(), left_out.begin(), left_out.end());
  return told;
}

std::vector<std::uint32_t> reported_valid_samples(const TrainingJob& job) {
  return validation_indices(static_cast<std::uint32_t>(job.inputs.valid.samples.size()),
                            job.inputs.valid_shard);
}

std::string pack(const SampleTable& samples, const std::vector<std::uint32_t>& told) {
  std::string bytes;
  const auto append = [&](std::uint64_t value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const std::uint32_t i : told) {
    const std::uint64_t hash = samples.hash(i);
    if (hash == 0) continue;
    append(i);
    append(hash);
  }
  return bytes;
}

std::vector<std::uint64_t> gather(World& world, const SampleTable& samples,
                                  const std::vector<std::uint32_t>& told) {
  std::vector<std::uint64_t> mine, all;
  for (const std::uint32_t i : told)
    if (const std::uint64_t hash = samples.hash(i); hash != 0) mine.push_back(hash);
  for (const auto& part : world.gather(mine)) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Puts the hashes of all ranks into the table of each.
void share(World& world, const std::string& mine, SampleTable& samples) {
  for (const std::string& packed : world.gather(mine)) unpack_hashes(packed, samples);
}

// The first of the names of all ranks.
std::vector<std::string> first_names(World& world, const SampleTable& samples,
                                     const std::vector<std::uint32_t>& images) {
  std::vector<std::string> mine, all;
  for (std::size_t k = 0; k < std::min(images.size(), kNamed); ++k)
    mine.emplace_back(samples.file_name(images[k]));
  for (const auto& theirs : world.gather(mine)) all.insert(all.end(), theirs.begin(), theirs.end());
  all.resize(std::min(all.size(), kNamed));
  return all;
}

void warn_of_changed(const TrainingJob& job, const char* set, SampleTable& samples) {
  World& world = job.world;
  const std::vector<std::uint32_t> changed = samples.take_changed();
  const double count = world.sum({static_cast<double>(changed.size())}).front();
  if (count == 0) return;
  const std::vector<std::string> names = first_names(world, samples, changed);
  const double rest = count - static_cast<double>(names.size());
  if (!world.leads()) return;
  job.log.warning(formatted("%.0f %s %s not have the bytes that this run read under the same name "
                            "before: ",
                            count, set, count == 1 ? "image does" : "images do") +
                  quoted_names(names, kNamed) +
                  (rest > 0 ? formatted(" and %.0f more", rest) : "") + ". Files were replaced" +
                  (world.size() > 1 ? " or differ between ranks" : "") +
                  ", so the results are of both contents. For those of one, start over.");
}

}  // namespace

std::string pack_train_hashes(const TrainingJob& job) {
  return pack(job.inputs.train.samples, reported_train_samples(job));
}

std::string pack_valid_hashes(const TrainingJob& job) {
  return pack(job.inputs.valid.samples, reported_valid_samples(job));
}

void unpack_hashes(std::string_view packed, SampleTable& samples) {
  samples.keep_hashes();
  for (std::size_t at = 0; at + 16 <= packed.size(); at += 16) {
    std::uint64_t index = 0, hash = 0;
    std::memcpy(&index, packed.data() + at, sizeof index);
    std::memcpy(&hash, packed.data() + at + sizeof index, sizeof hash);
    if (index < samples.size()) samples.note_hash(index, hash);
  }
}

void share_hashes(TrainingJob& job) {
  if (job.world.size() == 1) return;
  TrainingInputs& inputs = job.inputs;
  if (!job.config.data.has_train_shard)
    share(job.world, pack_train_hashes(job), inputs.train.samples);
  if (!job.config.data.has_valid_shard)
    share(job.world, pack_valid_hashes(job), inputs.valid.samples);
}

void warn_of_changed_images(TrainingJob& job) {
  warn_of_changed(job, "training", job.inputs.train.samples);
  warn_of_changed(job, "validation", job.inputs.valid.samples);
}

SeenImages gather_seen_images(const TrainingJob& job) {
  std::vector<std::uint64_t> train =
      gather(job.world, job.inputs.train.samples, reported_train_samples(job));
  std::vector<std::uint64_t> valid =
      gather(job.world, job.inputs.valid.samples, reported_valid_samples(job));
  if (!job.world.leads()) return {};
  return make_seen_images(std::move(train), std::move(valid));
}

}  // namespace kiln
