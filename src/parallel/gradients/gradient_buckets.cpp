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

struct Bucket {
  at::Tensor flat;
  at::Tensor narrow;                 // the bfloat16 copy that is sent; undefined: `flat` is sent
  std::vector<std::size_t> members;  // indices of its gradients
  std::size_t missing = 0;           // gradients that backward has not made yet
  Communicator::Ticket ticket = 0;   // of its all-reduce
};

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

struct GradientBuckets::State {
  State(std::vector<at::Tensor> all, const BucketPlan& plan, Communicator& between)
      : parameters(std::move(all)),
        gradients(parameters.size()),
        made(parameters.size()),
        is_filled(parameters.size()),
        communicator(between),
        num_ranks(plan.sums_ranks ? between.size() : 1) {}

  std::vector<at::Tensor> parameters, gradients;
  std::vector<at::Tensor> made;  // by backward, and not yet in the bucket
  std::vector<bool> is_filled;   // whether backward has set the gradient in this step
  std::vector<Bucket> buckets;
  Communicator& communicator;
  const int num_ranks;      // whose gradients are summed
  bool reducing = false;    // the step's last backward has begun
  std::size_t sent = 0;     // buckets handed to the communicator in this step
  double wait_seconds = 0;  // spent waiting for all-reduces

  bool is_alone() const { return num_ranks == 1; }
  void lay_out(const std::vector<std::size_t>& members, const BucketPlan& plan);
  void take_gradient(std::size_t i);
  void keep_gradient(std::size_t i, std::size_t bucket);
  void take_made(Bucket& bucket);
  void take_all_made();
  void fill_missing();
  void send(Bucket& bucket);
};

void GradientBuckets::State::lay_out(const std::vector<std::size_t>& members,
                                     const BucketPlan& plan) {
  std::int64_t length = 0;
  for (const std::size_t i : members) length += padded(parameters[i].numel());
  Bucket bucket;
  bucket.flat = at::zeros({length}, parameters[members.front()].options().requires_grad(false));
  if (plan.bfloat16)
    bucket.narrow = at::zeros({length}, bucket.flat.options().dtype(at::kBFloat16));
  bucket.members = members;
  bucket.missing = members.size();
  std::int64_t offset = 0;
  const std::size_t index = buckets.size();
  for (const std::size_t i : members) {
    const at::Tensor& parameter = parameters[i];
    gradients[i] = bucket.flat.as_strided(parameter.sizes(), parameter.strides(), offset);
    offset += padded(parameter.numel());
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameter, std::make_unique<GradientReady>([this, i, index] { keep_gradient(i, index); }));
  }
  buckets.push_back(std::move(bucket));
}

// Of a rank that is alone. Since the parameter's grad is undefined, backward stores its own tensor
// there instead of adding to zeros, which saves a pass.
void GradientBuckets::State::take_gradient(std::size_t i) {
  const c10::AutoGradMode no_grad(false);
  at::Tensor& gradient = parameters[i].mutable_grad();
  if (is_filled[i])
    gradients[i].add_(gradient);
  else
    gradients[i].set_data(gradient);
  gradient.reset();
  is_filled[i] = true;
}

// Of several ranks: a bucket takes its gradients together, in one operator.
void GradientBuckets::State::keep_gradient(std::size_t i, std::size_t index) {
  Bucket& bucket = buckets[index];
  if (made[i].defined()) take_made(bucket);  // the backward before did not reach all of them
  made[i] = std::exchange(parameters[i].mutable_grad(), {});
  if (--bucket.missing > 0) return;
  take_made(bucket);
  if (!reducing) bucket.missing = bucket.members.size();
  while (reducing && sent < buckets.size() && buckets[sent].missing == 0) send(buckets[sent++]);
}

void GradientBuckets::State::take_made(Bucket& bucket) {
  const c10::AutoGradMode no_grad(false);
  std::vector<at::Tensor> empty, first, filled, further;
  for (const std::size_t i : bucket.members) {
    if (!made[i].defined()) continue;
    (is_filled[i] ? filled : empty).push_back(gradients[i]);
    (is_filled[i] ? further : first).push_back(std::exchange(made[i], {}));
    is_filled[i] = true;
  }
  if (!empty.empty()) at::_foreach_copy_(empty, first);
  if (!filled.empty()) at::_foreach_add_(filled, further);
}

void GradientBuckets::State::take_all_made() {
  for (Bucket& bucket : buckets) {
    take_made(bucket);
    bucket.missing = bucket.members.size();
  }
}

void GradientBuckets::State::fill_missing() {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (is_filled[i]) continue;
    if (is_alone())
      gradients[i].set_data(at::zeros_like(parameters[i]));
    else
      gradients[i].zero_();
  }
}

void GradientBuckets::State::send(Bucket& bucket) {
  const c10::AutoGradMode no_grad(false);
  if (bucket.narrow.defined()) bucket.narrow.copy_(bucket.flat);
  bucket.ticket = communicator.all_reduce(bucket.narrow.defined() ? bucket.narrow : bucket.flat);
}

GradientBuckets::GradientBuckets(std::vector<at::Tensor> parameters, const BucketPlan& plan,
                                 Communicator& communicator)
    : state_(std::make_unique<State>(std::move(parameters), plan, communicator)) {
  const c10::AutoGradMode no_grad(false);
  if (!state_->is_alone()) {
    for (const auto& members : group(state_->parameters, plan)) state_->lay_out(members, plan);
    return;
  }
  for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
    const at::Tensor& parameter = state_->parameters[i];
    state_->gradients[i] = at::empty({0}, parameter.options().requires_grad(false));
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameter,
        std::make_unique<GradientReady>([state = state_.get(), i] { state->take_gradient(i); }));
  }
}

GradientBuckets::~GradientBuckets() {
  for (at::Tensor& parameter : state_->parameters) {
    parameter.mutable_grad().reset();
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
}

const std::vector<at::Tensor>& GradientBuckets::gradients() const {
  return state_->gradients;
}

std::vector<at::Tensor> GradientBuckets::flat() const {
  if (state_->is_alone()) return state_->gradients;
  std::vector<at::Tensor> buffers;
  for (const Bucket& bucket : state_->buckets) buffers.push_back(bucket.flat);
  return buffers;
}

void GradientBuckets::clear() {
  state_->is_filled.assign(state_->is_filled.size(), false);
}

void GradientBuckets::reduce_on_next_backward() {
  if (state_->is_alone()) return;
  state_->take_all_made();
  state_->reducing = true;
  state_->sent = 0;
}

void GradientBuckets::wait() {
  const c10::AutoGradMode no_grad(false);
  state_->take_all_made();
  state_->fill_missing();
  if (state_->is_alone()) return;
  while (state_->sent < state_->buckets.size()) state_->send(state_->buckets[state_->sent++]);
  const auto begin = std::chrono::steady_clock::now();
  for (const Bucket& bucket : state_->buckets) state_->communicator.wait(bucket.ticket);
  state_->wait_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (Bucket& bucket : state_->buckets)
    if (bucket.narrow.defined()) bucket.flat.copy_(bucket.narrow);
  state_->reducing = false;
}

std::size_t GradientBuckets::num_buckets() const {
  return state_->buckets.size();
}

int GradientBuckets::num_ranks() const {
  return state_->num_ranks;
}

std::optional<CommunicationTime> GradientBuckets::communication() const {
  if (state_->is_alone()) return {};
  const std::optional<double> summing = state_->communicator.all_reduce_seconds();
  if (!summing) return {};
  return CommunicationTime{*summing, state_->wait_seconds};
}

}  // namespace kiln
