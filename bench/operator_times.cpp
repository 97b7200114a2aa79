#include "operator_times.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <utility>

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

enum KindIndex {
  kNone = -1,
  kConvolution,
  kBatchNorm,
  kReluAndAdd,
  kPooling,
  kLinear,
  kGradients,
  kOptimizer
};

// The first row whose `part` occurs in an operator's name decides. Some parts lack their first
// letter because it occurs in both cases. Names are those of LibTorch's operators ("aten::conv2d")
// and of autograd's functions ("ConvolutionBackward0"). Only small_map_convolution() uses addmm_.
struct NameRow {
  std::string_view part;
  KindIndex kind;
};
constexpr NameRow kNames[] = {
    {"evaluate_function", kNone}, {"AccumulateGrad", kGradients},
    {"zero_", kGradients},        {"fused_sgd", kOptimizer},
    {"onvolution", kConvolution}, {"conv2d", kConvolution},
    {"depthwise", kConvolution},  {"addmm_", kConvolution},
    {"atch_norm", kBatchNorm},    {"BatchNorm", kBatchNorm},
    {"linear", kLinear},          {"addmm", kLinear},
    {"Addmm", kLinear},           {"oftmax", kLinear},
    {"nll_loss", kLinear},        {"NllLoss", kLinear},
    {"cross_entropy", kLinear},   {"pool", kPooling},
    {"Pool", kPooling},           {"mean", kPooling},
    {"Mean", kPooling},           {"aten::cat", kPooling},
    {"CatBackward", kPooling},    {"relu", kReluAndAdd},
    {"Relu", kReluAndAdd},        {"threshold", kReluAndAdd},
    {"aten::add", kReluAndAdd},   {"AddBackward", kReluAndAdd},
};

KindIndex kind_of(std::string_view name) {
  for (const NameRow& row : kNames)
    if (name.find(row.part) != name.npos) return row.kind;
  return kNone;
}

// A running operator.
struct Frame : at::ObserverContext {
  Frame* around = nullptr;
  bool has_inner = false;
  bool is_backward = false;
  KindIndex kind = kNone;  // set only for the outermost operator that has a kind
  Clock::time_point begin;
  double flops_per_output = 0;
  double bytes_read = 0;
  std::array<const void*, 4> storages{};  // of the first inputs
};

struct Observer {
  OperatorSums sums;
  Frame* innermost = nullptr;
  bool is_in_kind = false;
};
thread_local std::unique_ptr<Observer> observer;

template <typename Values, typename Use>
void for_each_tensor(const Values& values, const Use& use) {
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage())
      use(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) use(tensor);
  }
}

// The operators that multiply by weights, which argument these are, and in which of its dimensions
// the output channels.
struct WeightRow {
  std::string_view name;
  std::size_t argument;
  std::int64_t dimension = 0;
};
constexpr WeightRow kWeights[] = {{"aten::conv2d", 1},
                                  {"aten::linear", 1},
                                  {"aten::addmm_", 2, 1},
                                  {"kiln::prepared_convolution", 1}};

// One multiply-add for each weight of the output channel.
double flops_per_output(std::string_view name, c10::ArrayRef<const c10::IValue> inputs) {
  const auto* const row = std::ranges::find(kWeights, name, &WeightRow::name);
  if (row == std::end(kWeights)) return 0;
  const at::Tensor& weight = inputs[row->argument].toTensor();
  return 2.0 * static_cast<double>(weight.numel()) /
         static_cast<double>(weight.size(row->dimension));
}

// On a GPU, autograd's thread inherits the callbacks but has no observer.
std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& function) {
  if (!observer) return nullptr;
  auto frame = std::make_unique<Frame>();
  frame->around = std::exchange(observer->innermost, frame.get());
  if (frame->around != nullptr) frame->around->has_inner = true;
  frame->is_backward = std::string_view(function.name()).starts_with("autograd::engine::") ||
                       (frame->around != nullptr && frame->around->is_backward);
  if (!observer->is_in_kind) frame->kind = kind_of(function.name());
  if (frame->kind != kNone) observer->is_in_kind = true;
  if (frame->kind != kNone && !frame->is_backward)  // autocast calls an operator from itself
    frame->flops_per_output = flops_per_output(function.name(), function.inputs());
  std::size_t number = 0;
  for_each_tensor(function.inputs(), [&](const at::Tensor& input) {
    frame->bytes_read += static_cast<double>(input.nbytes());
    if (number < frame->storages.size()) frame->storages[number++] = input.storage().data();
  });
  frame->begin = Clock::now();
  return frame;
}

// Whether the output was computed: it is neither a view nor uninitialized memory.
bool touches_memory(std::string_view name, const Frame& frame, const at::Tensor& output) {
  const bool is_view =
      !name.ends_with('_') && std::find(frame.storages.begin(), frame.storages.end(),
                                        output.storage().data()) != frame.storages.end();
  return !is_view && name.find("aten::empty") == name.npos;
}

void end_operator(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto& frame = static_cast<const Frame&>(*context);
  observer->innermost = frame.around;
  OperatorSums& sums = observer->sums;
  if (frame.kind != kNone) {
    sums.kinds[frame.kind].seconds +=
        std::chrono::duration<double>(Clock::now() - frame.begin).count();
    observer->is_in_kind = false;
  }
  const bool is_leaf = !frame.has_inner && function.scope() == at::RecordScope::FUNCTION;
  bool is_first = true;
  for_each_tensor(function.outputs(), [&](const at::Tensor& output) {
    if (is_first)
      sums.forward_flops += frame.flops_per_output * static_cast<double>(output.numel());
    if (is_leaf && touches_memory(function.name(), frame, output))
      sums.bytes += static_cast<double>(output.nbytes()) + (is_first ? frame.bytes_read : 0);
    is_first = false;
  });
}

}  // namespace

OperatorTimes::OperatorTimes() {
  observer = std::make_unique<Observer>();
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(begin_operator, end_operator)
                                           .needsInputs(true)
                                           .needsOutputs(true));
}

OperatorTimes::~OperatorTimes() {
  at::removeCallback(handle_);
  observer.reset();
}

const OperatorSums& OperatorTimes::sums() const {
  return observer->sums;
}

}  // namespace kiln
