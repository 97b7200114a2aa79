#include "parallel/gradients/gradient_buckets.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>
#include <functional>
#include <utility>

namespace kiln {
namespace {

constexpr std::int64_t kAlignment = 16;  // elements: a cache line of float32

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

// Assigns parameters to buckets, from the last parameter to the first. A bucket is full only once
// it has reached its limit, so that the small bias of the output layer is not sent alone.
std::vector<std::vector<std::size_t>> group(const std::vector<at::Tensor>& parameters,
                                            const BucketPlan& plan) {
  std::vector<std::vector<std::size_t>> groups;
  std::size_t bytes = 0, limit = 0;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (groups.empty() || bytes >= limit) {
      limit = groups.empty() ? plan.first_bytes : plan.bytes;
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(i);
    bytes += parameters[i].nbytes();
  }
  return groups;
}

}  // namespace

void GradientBuckets::lay_out(const std::vector<std::size_t>& members, const BucketPlan& plan) {
  std::int64_t length = 0;
  for (const std::size_t i : members) length += padded(parameters_[i].numel());
  Bucket bucket;
  bucket.flat = at::zeros({length}, parameters_[members.front()].options().requires_grad(false));
  if (plan.bfloat16)
    bucket.narrow = at::zeros({length}, bucket.flat.options().dtype(at::kBFloat16));
  bucket.members = members;
  bucket.missing = members.size();
  std::int64_t offset = 0;
  const std::size_t index = buckets_.size();
  for (const std::size_t i : members) {
    const at::Tensor& parameter = parameters_[i];
    gradients_[i] = bucket.flat.as_strided(parameter.sizes(), parameter.strides(), offset);
    offset += padded(parameter.numel());
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameter, std::make_unique<GradientReady>([this, i, index] { keep_gradient(i, index); }));
  }
  buckets_.push_back(std::move(bucket));
}

// Of a rank that is alone. Since the parameter's grad is undefined, backward stores its own tensor
// there instead of adding to zeros, which saves a pass.
void GradientBuckets::take_gradient(std::size_t i) {
  const c10::AutoGradMode no_grad(false);
  at::Tensor& gradient = parameters_[i].mutable_grad();
  if (is_filled_[i])
    gradients_[i].add_(gradient);
  else
    gradients_[i].set_data(gradient);
  gradient.reset();
  is_filled_[i] = true;
}

// Of several ranks: a bucket takes its gradients together, in one operator.
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
    (is_filled_[i] ? filled : empty).push_back(gradients_[i]);
    (is_filled_[i] ? further : first).push_back(std::exchange(made_[i], {}));
    is_filled_[i] = true;
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

void GradientBuckets::fill_missing() {
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (is_filled_[i]) continue;
    if (is_alone())
      gradients_[i].set_data(at::zeros_like(parameters_[i]));
    else
      gradients_[i].zero_();
  }
}

void GradientBuckets::send(Bucket& bucket) {
  const c10::AutoGradMode no_grad(false);
  if (bucket.narrow.defined()) bucket.narrow.copy_(bucket.flat);
  bucket.ticket = communicator_.all_reduce(bucket.narrow.defined() ? bucket.narrow : bucket.flat);
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
  if (!is_alone()) {
    for (const auto& members : group(parameters_, plan)) lay_out(members, plan);
    return;
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    gradients_[i] = at::empty({0}, parameters_[i].options().requires_grad(false));
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameters_[i], std::make_unique<GradientReady>([this, i] { take_gradient(i); }));
  }
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
  for (const Bucket& bucket : buckets_) buffers.push_back(bucket.flat);
  return buffers;
}

void GradientBuckets::reduce_on_next_backward() {
  if (is_alone()) return;
  take_all_made();
  is_reducing_ = true;
  sent_ = 0;
}

void GradientBuckets::wait() {
  const c10::AutoGradMode no_grad(false);
  take_all_made();
  fill_missing();
  if (is_alone()) return;
  while (sent_ < buckets_.size()) send(buckets_[sent_++]);
  const auto begin = std::chrono::steady_clock::now();
  for (const Bucket& bucket : buckets_) communicator_.wait(bucket.ticket);
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (Bucket& bucket : buckets_)
    if (bucket.narrow.defined()) bucket.flat.copy_(bucket.narrow);
  is_reducing_ = false;
}

std::optional<CommunicationTime> GradientBuckets::communication() const {
  if (is_alone()) return {};
  const std::optional<double> summing = communicator_.all_reduce_seconds();
  if (!summing) return {};
  return CommunicationTime{*summing, wait_seconds_};
}

}  // namespace kiln
