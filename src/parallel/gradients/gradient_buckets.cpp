#include "parallel/gradients/gradient_buckets.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>
#include <functional>
#include <utility>

namespace kiln {
namespace {

constexpr std::int64_t kAlignment = 16;  // elements: a cache line of float32
constexpr std::size_t kWhole = 1 << 20;  // bytes: large enough for MPI to move at full speed

// Called by backward when a parameter's gradient is complete.
class GradientReady : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit GradientReady(std::function<void()> ready) : ready_(std::move(ready)) {}
  void operator()(const torch::autograd::Variable&) override { ready_(); }

 private:
  std::function<void()> ready_;
};

std::int64_t padded(std::int64_t count) {
  return (count + kAlignment - 1) / kAlignment * kAlignment;
}

// Assigns parameters to buckets, from the last parameter to the first. A parameter of at least
// `whole` bytes is a bucket of its own. Another bucket is full only once it has reached its limit,
// so that the small bias of the output layer is not sent alone.
std::vector<std::vector<std::size_t>> group(const std::vector<at::Tensor>& parameters,
                                            const BucketPlan& plan, std::size_t whole) {
  std::vector<std::vector<std::size_t>> groups;
  std::size_t limit = plan.first_bytes, bytes = limit;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const bool is_whole = parameters[i].nbytes() >= whole;
    if (is_whole || bytes >= limit) {
      if (!groups.empty()) limit = plan.bytes;
      groups.emplace_back();
      bytes = is_whole ? limit : 0;
    }
    groups.back().push_back(i);
    bytes += parameters[i].nbytes();
  }
  return groups;
}

}  // namespace

void GradientBuckets::lay_out(const std::vector<std::size_t>& members) {
  Bucket bucket;
  bucket.members = members;
  bucket.missing = members.size();
  const at::TensorOptions options = parameters_[members.front()].options().requires_grad(false);
  std::int64_t length = 0;
  for (const std::size_t i : members) length += padded(parameters_[i].numel());
  if (members.size() > 1) bucket.together = at::zeros({length}, options);
  std::int64_t offset = 0;
  const std::size_t index = buckets_.size();
  for (const std::size_t i : members) {
    const at::Tensor& parameter = parameters_[i];
    gradients_[i] = bucket.together.defined()
                        ? bucket.together.as_strided(parameter.sizes(), parameter.strides(), offset)
                        : at::empty_like(parameter, options);
    offset += padded(parameter.numel());
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameter, std::make_unique<GradientReady>([this, i, index] { keep_gradient(i, index); }));
  }
  buckets_.push_back(std::move(bucket));
}

// Since the parameter's grad is undefined, backward stores its own tensor there instead of adding
// to zeros, which saves a pass. A bucket takes its gradients together, in one operator.
void GradientBuckets::keep_gradient(std::size_t i, std::size_t index) {
  Bucket& bucket = buckets_[index];
  if (made_[i].defined()) take_made(bucket);  // the backward before did not reach all of them
  made_[i] = std::exchange(parameters_[i].mutable_grad(), {});
  if (--bucket.missing > 0) return;
  take_made(bucket);
  if (!is_reducing_) bucket.missing = bucket.members.size();
  while (is_reducing_ && sent_ < buckets_.size() && buckets_[sent_].missing == 0)
    send(buckets_[sent_++]);
}

void GradientBuckets::take_made(Bucket& bucket) {
  const c10::AutoGradMode no_grad(false);
  std::vector<at::Tensor> empty, first, filled, further;
  for (const std::size_t i : bucket.members) {
    if (!made_[i].defined()) continue;
    const at::Tensor made = std::exchange(made_[i], {});
    const bool is_first = !is_filled_[i];
    is_filled_[i] = true;
    // It lies in memory as the parameter does, and nothing else uses that memory.
    const bool is_own_and_like = made.is_contiguous(parameters_[i].suggest_memory_format()) &&
                                 made.storage().use_count() == 1;
    if (is_first && !bucket.together.defined() && is_own_and_like) {
      gradients_[i].set_data(made);
      continue;
    }
    (is_first ? empty : filled).push_back(gradients_[i]);
    (is_first ? first : further).push_back(made);
  }
  if (!empty.empty()) at::_foreach_copy_(empty, first);
  if (!filled.empty()) at::_foreach_add_(filled, further);
}

void GradientBuckets::take_all_made() {
  for (Bucket& bucket : buckets_) {
    take_made(bucket);
    bucket.missing = bucket.members.size();
  }
}

at::Tensor GradientBuckets::flat(const Bucket& bucket) const {
  if (bucket.together.defined()) return bucket.together;
  const at::Tensor& gradient = gradients_[bucket.members.front()];
  return gradient.as_strided({gradient.numel()}, {1});
}

void GradientBuckets::send(Bucket& bucket) {
  const c10::AutoGradMode no_grad(false);
  bucket.ticket = communicator_.all_reduce(flat(bucket));
}

GradientBuckets::GradientBuckets(std::vector<at::Tensor> parameters, const BucketPlan& plan,
                                 Communicator& communicator)
    : parameters_(std::move(parameters)),
      gradients_(parameters_.size()),
      made_(parameters_.size()),
      is_filled_(parameters_.size()),
      communicator_(communicator),
      num_ranks_(plan.sums_ranks ? communicator.size() : 1) {
  const c10::AutoGradMode no_grad(false);
  const std::size_t whole = is_alone() ? 0 : parameters_.front().is_cpu() ? kWhole : plan.bytes;
  for (const auto& members : group(parameters_, plan, whole)) lay_out(members);
}

GradientBuckets::~GradientBuckets() {
  for (at::Tensor& parameter : parameters_) {
    parameter.mutable_grad().reset();
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
}

std::vector<at::Tensor> GradientBuckets::flat() const {
  if (is_alone()) return gradients_;
  std::vector<at::Tensor> buffers;
  for (const Bucket& bucket : buckets_) buffers.push_back(flat(bucket));
  return buffers;
}

void GradientBuckets::reduce_on_next_backward() {
  if (is_alone()) return;
  take_all_made();
  is_reducing_ = communicator_.overlaps();
  sent_ = 0;
}

void GradientBuckets::wait() {
  const c10::AutoGradMode no_grad(false);
  take_all_made();
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (!is_filled_[i]) gradients_[i].zero_();
  if (is_alone()) return;
  while (sent_ < buckets_.size()) send(buckets_[sent_++]);
  const auto begin = std::chrono::steady_clock::now();
  for (const Bucket& bucket : buckets_) communicator_.wait(bucket.ticket);
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  is_reducing_ = false;
}

std::optional<CommunicationTime> GradientBuckets::communication() const {
  if (is_alone()) return {};
  const std::optional<double> summing = communicator_.all_reduce_seconds();
  if (!summing) return {};
  return CommunicationTime{*summing, wait_seconds_};
}

}  // namespace kiln
