// `kiln bench loader` and `kiln bench collective`.
#include "config/binder.h"
#include "config/command_rows.h"
#include "config/option_kinds.h"

namespace kiln {
namespace {

std::vector<Option> bench_loader_options() {
  return {
      required_path("data", "PATH", "Images: a folder or archive, as train takes them."),
      integer("size", "224", 16, 2048, "pixels", kImages,
              "Height and width that images are brought to."),
      choice("augment", {"standard", "none", "flip", "strong"}, kImages,
             "How images are varied, as in training."),
      integer("batch-size", "64", 1, kMillion, "images", kImages, "Images in a batch."),
      integer("passes", "3", 1, kMillion, "passes", kMachine,
              "Passes that are measured, after one that fills the page cache."),
      integer("step-ms", "0", 0, 60'000, "milliseconds", kMachine,
              "Sleep so long after every batch, in place of a training step."),
      integer("threads", "auto", 1, 256, "threads", kMachine,
              "Threads that make batches. auto: one for each processor."),
      integer("read-ahead", "auto", 1, 4096, "files", kMachine,
              "Files to read before they are decoded. auto: 64 where reading is slow."),
  };
}

Command bind_bench_loader(Binder& binder) {
  BenchLoaderConfig config;
  config.data = binder.path("data");
  config.size = binder.small_integer("size");
  config.augment = binder.augment();
  config.threads = binder.small_integer("threads");
  config.batch_size = binder.small_integer("batch-size");
  config.passes = binder.small_integer("passes");
  config.step_ms = binder.small_integer("step-ms");
  config.read_ahead = binder.small_integer("read-ahead");
  return config;
}

std::vector<Option> bench_collective_options() {
  return {
      ranks(
          false, kRanks,
          "Processes to start. auto: one for each GPU of this host. Left out where mpirun or srun "
          "has started them."),
      choice("device", {"auto", "cuda", "cpu"}, kMachine,
             "Where the sums are: on GPUs they go over NCCL, on CPUs over MPI."),
      optional_path("log-path", "DIR", "logs", kReporting,
                    "Folder of 70_mpi_log.txt, which keeps what mpirun and all ranks say."),
  };
}

Command bind_bench_collective(Binder& binder) {
  BenchCollectiveConfig config;
  config.ranks.launch = binder.ranks();
  config.ranks.arguments = binder.words();
  config.ranks.device = binder.device();
  config.log_path = binder.path("log-path");
  config.log_path_given = binder.given("log-path");
  return config;
}

}  // namespace

CommandInfo bench_loader_command() {
  return {"bench loader",
          "Measure how fast images come from files into batches; prints one JSON object.",
          "--data PATH [options]", bench_loader_options(), bind_bench_loader};
}

CommandInfo bench_collective_command() {
  return {"bench collective",
          "Measure sums over several processes, beside MPI's own; prints one JSON object.",
          "--ranks N|auto [options]", bench_collective_options(), bind_bench_collective};
}

}  // namespace kiln
