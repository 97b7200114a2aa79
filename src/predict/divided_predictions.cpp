#include "predict/divided_predictions.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace kiln {
namespace {

// The header of a packed batch; its lists follow.
struct Header {
  std::uint32_t first = 0, nominal = 0, count = 0, num_classes = 0, num_faults = 0;
};

// The header of a fault; its text follows.
struct FaultHeader {
  std::uint32_t sample = 0, is_damage = 0, length = 0;
};

template <PlainValue T>
void append(std::string& bytes, const T* values, std::size_t count) {
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::string_view take(std::size_t count) {
    if (count > bytes_.size()) throw InternalError("the predictions of a rank are truncated");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  template <PlainValue T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

}  // namespace

DividedPredictions::DividedPredictions(World& world, Predictor& predictor,
                                       const Predictions::Options& options)
    : world_(world),
      batch_size_(static_cast<std::size_t>(options.batch_size)),
      predictions_(predictor, options) {}

void DividedPredictions::for_each(Dataset& set,
                                  const std::function<void(const PredictedBatch&)>& use,
                                  std::uint32_t first) {
  if (world_.size() == 1) return predictions_.for_each(set, use, {.first = first});
  const auto num_ranks = static_cast<std::size_t>(world_.size());
  const std::size_t num_images =
      set.samples.size() - std::min<std::size_t>(first, set.samples.size());
  const std::size_t num_batches = (num_images + batch_size_ - 1) / batch_size_;
  std::size_t num_rounds = (num_batches + num_ranks - 1) / num_ranks;
  // Gathers one batch per rank, in image order. Ranks without a batch send an empty string.
  const auto exchange = [&](const std::string& mine) {
    for (const std::string& bytes : world_.gather(mine)) {
      if (!world_.leads() || bytes.empty()) continue;
      SentBatch batch = unpack_batch(bytes);
      use({batch.first, batch.images, std::move(batch.logits), std::move(batch.faults),
           std::move(batch.hashes)});
    }
    --num_rounds;
  };
  predictions_.for_each(
      set, [&](const PredictedBatch& batch) { exchange(pack_batch(batch)); },
      {.first = first, .index = static_cast<std::size_t>(world_.rank()), .stride = num_ranks});
  while (num_rounds > 0) exchange({});
}

std::string pack_batch(const PredictedBatch& batch) {
  const HostBatch& images = batch.images;
  const bool has_logits = images.count > 0;
  const Header header{batch.first, static_cast<std::uint32_t>(images.nominal),
                      static_cast<std::uint32_t>(images.count),
                      has_logits ? static_cast<std::uint32_t>(batch.logits.size(1)) : 0,
                      static_cast<std::uint32_t>(batch.faults.size())};
  std::string bytes;
  append(bytes, &header, 1);
  append(bytes, images.samples.data(), images.samples.size());
  append(bytes, batch.hashes.data(), batch.hashes.size());
  for (const BadImage& fault : batch.faults) {
    const FaultHeader about{fault.sample, fault.damaged ? 1U : 0U,
                            static_cast<std::uint32_t>(fault.fault.size())};
    append(bytes, &about, 1);
    bytes += fault.fault;
  }
  if (has_logits)
    append(bytes, batch.logits.const_data_ptr<float>(),
           static_cast<std::size_t>(batch.logits.numel()));
  return bytes;
}

SentBatch unpack_batch(std::string_view bytes) {
  Reader reader(bytes);
  const auto header = reader.take<Header>();
  SentBatch batch;
  batch.first = header.first;
  batch.images.nominal = static_cast<int>(header.nominal);
  batch.images.count = static_cast<int>(header.count);
  for (std::uint32_t i = 0; i < header.count; ++i)
    batch.images.samples.push_back(reader.take<std::uint32_t>());
  for (std::uint32_t i = 0; i < header.nominal; ++i)
    batch.hashes.push_back(reader.take<std::uint64_t>());
  for (std::uint32_t i = 0; i < header.num_faults; ++i) {
    const auto about = reader.take<FaultHeader>();
    batch.faults.push_back(
        {about.sample, std::string(reader.take(about.length)), about.is_damage != 0});
  }
  if (header.count > 0) {
    const std::size_t num_values = std::size_t{header.count} * header.num_classes;
    const std::string_view values = reader.take(num_values * sizeof(float));
    batch.logits = at::empty({header.count, header.num_classes}, at::kFloat);
    std::memcpy(batch.logits.data_ptr<float>(), values.data(), values.size());
  }
  if (!reader.at_end()) throw InternalError("the predictions of a rank have extra bytes");
  return batch;
}

}  // namespace kiln
