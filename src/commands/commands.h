// Dispatches a command line to the run() of its command: an overload for each struct of `Command`,
// defined in the command's file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/command_line.h"
#include "config/run_config.h"
#include "process/process.h"

namespace kiln {

// Runs the command; returns its exit code. Where what it prints is its result, standard output that
// cannot be written is Error kFailedToWriteOutputs. Throws the faults of the command line as
// Problems, before anything else is read or written, and whatever the command throws: Error,
// Problems, FailedElsewhere, or library exceptions.
int dispatch(const Invocation& invocation, Process& process);

// Runs the program's arguments: a command line, or a start by SageMaker.
int run_program(const std::vector<std::string>& arguments, Process& process);

// `kiln audit`: the labeled images that deserve a look, as a page and files in a folder. Faults of
// model, images and output are thrown together. Throws Error kInvalidDataset for images of a single
// class, and where they cannot be divided into folds.
int run(const AuditConfig& config, Process& process);

// `kiln bench collective`: times all-reduce against MPI's own on the same data.
// Starts the ranks if requested, or joins those already started, of which there must be several
// (Error kUserError otherwise). Rank 0 prints one JSON object; its medians are rank 0's times from
// call to result.
int run(const BenchCollectiveConfig& config, Process& process);

// `kiln bench loader`: images per second from files to normalized float batches.
// Makes several passes over the images of a folder or archive, like training epochs; the first is
// not counted. Prints one JSON object. Images that cannot be decoded are counted.
int run(const BenchLoaderConfig& config, Process& process);

// `kiln bench step`: images per second of one training step on the same random batch, its share of
// what this machine can do (a product of large matrices, a copy of a large tensor), and on a CPU
// where its time goes. Prints one JSON object.
int run(const BenchStepConfig& config, Process& process);

// `kiln compare`: compares runs in a table and an HTML page.
// Throws the same as `kiln report`.
int run(const CompareConfig& config, Process& process);

// `kiln convert`: a folder of images -> an ImageDirectory.
// The exit code. Faults are thrown as Error.
int run(const ConvertConfig& config, Process& process);

// `kiln demo-data`: generates labeled training and validation images in class folders.
// The exit code. Faults are thrown as Error.
int run(const DemoDataConfig& config, Process& process);

// `kiln describe`: prints a command's options in a platform's format.
// Error kUserError for the component of a command that cannot be a pipeline step.
int run(const DescribeConfig& config, Process&);

// `kiln evaluate`: measures trained models on labeled images, and compares them. Writes a page,
// JSON, CSV and TensorBoard's events into a folder, and sends them to MLflow where that is set up.
// Faults of models, images and output are thrown together.
int run(const EvaluateConfig& config, Process& process);

// `kiln init-model`: writes a network, with fresh or given weights, as an UntrainedModelDirectory.
// Returns the exit code. Errors: 162 for `pretrained` without weights, 159 for weights that cannot
// be read or belong to another network, 160 for the output; thrown together where possible.
int run(const InitModelConfig& config, Process& process);

// `kiln inspect`: shows what a directory or file contains, and whether its images can be decoded.
// Prints a table or one JSON object. Exit status: 1 if `check` found a bad image (or the path is
// one), an image is in `valid_data_path` too, or a checkpoint is incomplete, else 0. Damaged
// images, which are decoded as far as possible, are listed but do not count as bad. Throws what the
// readers throw, and Error kUserError if the path is of an unknown kind.
int run(const InspectConfig& config, Process& process);

// `kiln launch --ranks N -- train …`, and commands with --ranks N: starts the ranks with mpirun,
// shows rank 0's output, and reports which rank failed, where and how. The launch requested by
// `train --ranks` or `bench collective --ranks`; empty without --ranks, in a rank started by
// launch, and if this process suffices.
std::optional<LaunchConfig> launch_of(const RanksConfig& ranks, const std::string& log_path,
                                      bool log_path_given);

// Returns when all processes of the job have ended: the failing rank's exit code, or 128 + n after
// a stop by signal n. The failing rank, or else this process, has written error_info.json by then.
// Throws Error if no rank could be started.
int run(const LaunchConfig& config, Process& process);

// `kiln pack`: images -> tar shards and their index.
int run(const PackConfig& config, Process& process);

// `kiln report`: creates the report of a run from its metrics.jsonl.
// The run may have ended in any way, or still be running. Throws Error kInvalidDataset if there is
// no run, kFailedToWriteOutputs.
int run(const ReportConfig& config, Process& process);

// `kiln score`: the answers of a trained model to images, as rows of a file, or as text.
// Exit code 0 with at most the allowed number of bad images. Faults of model, images and output are
// thrown together.
int run(const ScoreConfig& config, Process& process);

// `kiln split`: images -> two or three ImageDirectories, which appear together. Exit code 1 if
// `check_leaks` found copies of an image in different ones. Faults of input and outputs are thrown
// together.
int run(const SplitImagesConfig& config, Process& process);

// `kiln train`: sets up the ranks, world and log of a training run (run/training_run.h).
// Starts the ranks if requested; otherwise joins the world and runs as one of its ranks. Exit code:
// 0, or 128 + n after stop signal n. Throws Error, Problems, FailedElsewhere, or library
// exceptions.
int run(const TrainConfig& config, Process& process);

// `kiln transform init`: writes the operations of a transformation of images.
// Throws Error kInvalidTransformationDirectory for operations that cannot be, and
// kFailedToWriteOutputs.
int run(const TransformInitConfig& config, Process& process);

// `kiln transform apply`: transforms images into those of an ImageDirectory.
// Faults of transformation, images and output are thrown together. Error kInvalidDataset names an
// image that cannot be decoded, or that an operation does not take; nothing is written then.
int run(const TransformApplyConfig& config, Process& process);

// `kiln tune`: short trials of a training job under other settings, as processes of their own.
// Throws Error kUserError if the job cannot run as it is, kFailedToWriteOutputs.
int run(const TuneConfig& config, Process& process);

// `kiln watch`: follows a running job by its metrics.jsonl.
// Waits for one to begin; returns when the run has ended or on a stop signal. Throws Error
// kUserError if there is no folder for a run, kFailedToCompleteOperation if it was probably killed.
int run(const WatchConfig& config, Process& process);

}  // namespace kiln
