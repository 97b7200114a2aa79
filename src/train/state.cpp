#include "train/state.h"

#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include "base/content_hash.h"
#include "base/error.h"

namespace kiln {

namespace {

void take_largest_counts(const std::vector<NamedTensor>& state, World& world) {
  std::vector<at::Tensor> counts;
  std::vector<std::uint64_t> largest;
  for (const NamedTensor& item : state) {
    if (!item.name.ends_with(".num_batches_tracked")) continue;
    counts.push_back(item.tensor);
    largest.push_back(static_cast<std::uint64_t>(item.tensor.item<std::int64_t>()));
  }
  world.take_largest(largest);
  for (std::size_t i = 0; i < counts.size(); ++i)
    counts[i].fill_(static_cast<std::int64_t>(largest[i]));
}

}  // namespace

std::vector<NamedTensor> copied_weights(const ImageModel& model) {
  std::vector<NamedTensor> copies;
  for (const NamedTensor& sample : model.state())
    copies.push_back({sample.name, sample.tensor.detach().to(at::TensorOptions(at::kCPU),
                                                             /*non_blocking=*/false, /*copy=*/true,
                                                             at::MemoryFormat::Contiguous)});
  return copies;
}

void broadcast_tensors(const std::vector<NamedTensor>& tensors, Communicator& communicator) {
  if (communicator.size() == 1) return;
  const at::NoGradGuard no_grad;
  for (const NamedTensor& item : tensors) {
    const at::Tensor copy = item.tensor.detach().clone(at::MemoryFormat::Contiguous);
    communicator.broadcast(copy);
    item.tensor.copy_(copy);
  }
}

void average_statistics(const std::vector<NamedTensor>& state, Communicator& communicator,
                        World& world, int num_training_ranks) {
  if (communicator.size() == 1) return;
  const at::NoGradGuard no_grad;
  take_largest_counts(state, world);
  std::vector<at::Tensor> statistics;  // vectors
  for (const NamedTensor& item : state)
    if (item.name.ends_with(".running_mean") || item.name.ends_with(".running_var"))
      statistics.push_back(item.tensor);
  if (statistics.empty()) return;
  const at::Tensor flat = at::cat(statistics).to(at::kDouble);  // the mean of equal ones is exact
  if (world.rank() >= num_training_ranks) flat.zero_();
  communicator.wait(communicator.all_reduce(flat));
  flat.div_(num_training_ranks);
  std::int64_t offset = 0;
  for (const at::Tensor& item : statistics) {
    item.copy_(flat.narrow(0, offset, item.numel()));
    offset += item.numel();
  }
}

void require_equal_replicas(const ImageModel& model, World& world) {
  if (world.size() == 1) return;
  const std::vector<NamedTensor> state = model.state();
  std::vector<std::uint64_t> mine;
  world.agree([&] {  // faults of a GPU surface here
    for (const NamedTensor& item : state) {
      const at::Tensor host = item.tensor.detach().cpu().contiguous();
      mine.push_back(
          content_hash({static_cast<const char*>(host.const_data_ptr()), host.nbytes()}));
    }
  });
  const std::vector<std::vector<std::uint64_t>> all = world.gather(mine);
  world.agree([&] {
    for (std::size_t i = 0; i < state.size(); ++i)
      for (int rank = 1; rank < world.size(); ++rank)
        if (all[rank][i] != all[0][i])
          throw Error(
              ErrorCode::kFailedToCompleteOperation,
              "The ranks' models have diverged from each other: tensor '" + state[i].name +
                  "' of " + world.name_of(rank) + " differs from " + world.name_of(0) +
                  "'s. This is a hardware, driver or kiln bug: train again, and report it if it "
                  "recurs.");
  });
}

}  // namespace kiln
