// From a command line to the run() of the command that it names: an overload for each struct of
// `Command`, in the command's own file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/command_line.h"
#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// Runs the command; returns its exit code. Throws the faults of the command line as Problems,
// before anything else is read or written, and whatever the command throws: Error, Problems,
// FailedElsewhere, or what the libraries throw.
int dispatch(const Invocation& invocation, Process& process);

// The same for what the program was started with: a command line, or SageMaker's folder.
int run_program(const std::vector<std::string>& arguments, Process& process);

// `kiln bench collective`: how long sums over the ranks take, beside MPI's own on the same bytes.
// Starts the ranks when asked to, or joins those that were started, which must be several (Error
// kUserError otherwise). Rank 0 prints one JSON object; the medians in it are rank 0's, from call
// to result.
int run(const BenchCollectiveConfig& config, Process& process);

// `kiln bench loader`: how many images a second come from files to normalized float batches.
// Passes over the images of a folder or archive as over epochs of training, a first one not
// counted. Prints one JSON object. Images that cannot be decoded are counted.
int run(const BenchLoaderConfig& config, Process& process);

// `kiln compare`: several runs as one table and one page.
// Throws what `kiln report` throws.
int run(const CompareConfig& config, Process& process);

// `kiln convert`: a folder of images -> an ImageDirectory.
// The exit code. Faults are thrown as Error.
int run(const ConvertConfig& config, Process& process);

// `kiln demo-data`: draws labeled images, training and validation, as class folders.
// The exit code. Faults are thrown as Error.
int run(const DemoDataConfig& config, Process& process);

// `kiln describe`: prints a command's options in a form that a platform reads.
// Error kUserError for a component form of a command that is no step of a pipeline.
int run(const DescribeConfig& config, Process&);

// kiln init-model: a network by name, fresh or with given weights, as an UntrainedModelDirectory.
// Returns the exit code. Errors: 162 for `pretrained` without weights, 159 for weights that cannot
// be read or belong to another network, 160 for the output; those that can be found together are
// thrown together.
int run(const InitModelConfig& config, Process& process);

// `kiln inspect`: what a directory or a file holds, and whether its images can be decoded.
// Prints a table, or one JSON object. The exit status: 1 when `check` found a bad image (or the
// path is one), else 0. Damaged images, which are decoded as far as they go, are listed and do not
// count as bad. Throws what the readers throw, and Error kUserError when the path is nothing that
// kiln knows.
int run(const InspectConfig& config, Process& process);

// `kiln launch --ranks N -- train …`, and commands with --ranks N: starts the ranks with mpirun,
// shows what rank 0 says, and when a rank fails tells which, where and how.
// What `train --ranks` and `bench collective --ranks` ask for; empty without --ranks, in a rank
// that launch started, and where this process is enough.
std::optional<LaunchConfig> launch_of(const RanksConfig& ranks, const std::string& log_path,
                                      bool log_path_given);

// Returns when no process of the job is left: the failing rank's exit code, 128 + n after a stop by
// signal n. A failing rank, or else this, has then written error_info.json. Throws Error when no
// rank could be started.
int run(const LaunchConfig& config, Process& process);

// `kiln pack`: images -> tar shards and their index.
int run(const PackConfig& config, Process& process);

// `kiln report`: the page of a run, made from its metrics.jsonl.
// Of a run that has ended in any way, or has not. Throws Error kInvalidDataset where there is no
// run, kFailedToWriteOutputs.
int run(const ReportConfig& config, Process& process);

// `kiln train`: what stands around a training run (run/training_run.h): its ranks, their world and
// their log.
// Starts the ranks when asked to; otherwise joins the world and runs as one of its ranks. The exit
// code: 0, or 128 + n after stop signal n. Throws Error, Problems, FailedElsewhere, or what the
// libraries throw.
int run(const TrainConfig& config, Process& process);

// `kiln watch`: follows a running job by its metrics.jsonl.
// Until the run has ended or a stop signal comes.
int run(const WatchConfig& config, Process& process);

}  // namespace kiln
