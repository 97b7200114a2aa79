// kiln_bench: measures parts of Kiln and prints a JSON object.
//
//   kiln_bench loader --data PATH [--size 224] [--augment standard] [--batch-size 64] [--passes 3]
//              [--step-ms 0] [--threads N] [--read-ahead N]
//       Images per second from files to normalized float batches, over several passes like training
//       epochs, after one that warms the page cache. Bad images are counted. Steps of training are
//       simulated by sleeping after every batch.
//   kiln_bench step [--model-name resnet18] [--batch-size 64] [--size 224] [--classes 1000]
//              [--inference] [--precision fp32] [--against PRECISION] [--steps 20] [--device auto]
//              [--threads N]
//       A training step on the same random batch (of two or more images), or the forward pass of
//       `kiln score`: images per second, the share of what this machine can do (judged by a large
//       matrix product and a copy of a large tensor), and on a CPU where the time goes. With
//       --against: how many times as fast it is as in another precision, step by step in turn.
//   kiln_bench depthwise [--batch-size 16] [--size 224] [--rounds 10] [--threads N]
//       The gradients of networks' depthwise layers for images of that size, by oneDNN and by
//       Kiln's own kernels, in turn: the least milliseconds.
//   mpirun -np N kiln_bench collective [--device auto]
//       Kiln's all-reduce: rank 0's seconds from call to result. GPUs use NCCL, CPUs use MPI.
//   mpirun -np N kiln_bench mpi
//       MPI's own blocking all-reduce on the same sizes.
//   kiln_bench scale --part images|classes|record|ranks|jpegs [--count N] [--folder NEW] [--classes
//   N]
//       Seconds and memory of what is done once for each image, class, printed step or rank,
//       without pixels; `jpegs` is the peer of `kiln pack --short-side` (bench/scale.py).
#include "kiln_bench.h"

#include <algorithm>
#include <charconv>
#include <exception>

#include "base/error.h"
#include "base/platform/installation.h"
#include "base/system.h"

namespace kiln {

Words::Words(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--"))
      throw Error(ErrorCode::kUserError, "'" + words[i] + "' is not expected here.");
    const bool has_value = i + 1 < words.size() && !words[i + 1].starts_with("--");
    const std::string name = words[i].substr(2);
    values_[name] = has_value ? words[++i] : "";
  }
}

std::string Words::take(const std::string& name, const std::string& otherwise) {
  const auto node = values_.extract(name);
  return node.empty() ? otherwise : node.mapped();
}

int Words::take_number(const std::string& name, int otherwise, int least) {
  if (!values_.contains(name)) return otherwise;
  const std::string text = take(name, "");
  int number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault == std::errc() && end == text.data() + text.size() && number >= least) return number;
  throw Error(ErrorCode::kUserError, "--" + name + " is '" + text +
                                         "', but must be a number from " + std::to_string(least) +
                                         " on.");
}

bool Words::take_flag(const std::string& name) {
  return !values_.extract(name).empty();
}

DeviceChoice Words::take_device() {
  const std::string text = take("device", "auto");
  if (text == "auto") return DeviceChoice::kAuto;
  if (text == "cuda") return DeviceChoice::kCuda;
  if (text == "cpu") return DeviceChoice::kCpu;
  throw Error(ErrorCode::kUserError, "--device is '" + text + "', but must be auto, cuda or cpu.");
}

void Words::finish() const {
  if (values_.empty()) return;
  throw Error(ErrorCode::kUserError, "There is no option --" + values_.begin()->first + " here.");
}

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

namespace {

void run(const std::vector<std::string>& arguments, Process& process) {
  process.log.use_standard_error();
  const std::string part = arguments.empty() ? "" : arguments.front();
  Words words({arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end()});
  if (part == "loader") return bench_loader(words, process);
  if (part == "step") return bench_step(words, process);
  if (part == "depthwise") return bench_depthwise(words);
  if (part == "collective") return bench_collective(words, process);
  if (part == "mpi") return bench_mpi(words);
  if (part == "scale") return bench_scale(words, process);
  throw Error(ErrorCode::kUserError,
              "Usage: kiln_bench loader, step, collective, mpi or scale, and options "
              "(bench/kiln_bench.cpp has them).");
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) try {
  kiln::Process process;
  int code = 0;
  try {
    kiln::run({argv + 1, argv + argc}, process);
  } catch (...) {
    code = kiln::report_exception(std::current_exception(), process);
  }
  return process.world.leave(code);
} catch (const std::exception&) {
  kiln::end_without_memory();
}
