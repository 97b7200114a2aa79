// Dispatches a command line to the run() of its command. There is one overload for each struct in
// `Command`, defined in the command's file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/run_config.h"
#include "run/process/process.h"

namespace kiln {

// Runs the command and returns its exit code. If the command prints its result and standard output
// cannot be written, that is Error kFailedToWriteOutputs. Throws faults of the command line as
// Problems before anything else is read or written, and whatever the command throws: Error,
// Problems, FailedElsewhere, or library exceptions.
int dispatch(const Invocation& invocation, Process& process);

// Throws the problems of the command line. From here on, error_info.json is written where the
// command line says. If it has problems and no --log-path, the default folder, which may hold a
// finished run, is left alone, except under Azure ML.
void require_faultless(const Invocation& invocation, Process& process);

// Runs `kiln train` as SageMaker started it, before any thread starts.
int run_in_sagemaker(const std::vector<std::string>& arguments, Process& process);

// Runs the program with these arguments: a command line, or how SageMaker starts the program.
int run_program(const std::vector<std::string>& arguments, Process& process);

// `kiln audit`: finds labeled images that deserve a look, and writes a page and files into a
// folder. Faults of model, images and output are thrown together. Throws Error kInvalidDataset if
// all images have the same class, or if they cannot be divided into folds.
int run(const AuditConfig& config, Process& process);

// `kiln compare`: compares runs in a table and an HTML page.
// Throws as `kiln report` does.
int run(const CompareConfig& config, Process& process);

// `kiln convert`: converts a folder of images to an ImageDirectory.
// Returns the exit code. Faults are thrown as Error.
int run(const ConvertConfig& config, Process& process);

// `kiln demo-data`: generates labeled training and validation images in class folders.
// Returns the exit code. Faults are thrown as Error.
int run(const DemoDataConfig& config, Process& process);

// `kiln describe`: prints a command's options in a platform's format.
// Throws Error kUserError for the component of a command that cannot be a pipeline step.
int run(const DescribeConfig& config, Process&);

// `kiln evaluate`: measures trained models on labeled images and compares them.
// Writes a page, JSON, CSV and TensorBoard events into a folder, and sends them to MLflow if it is
// configured. Faults of models, images and output are thrown together.
int run(const EvaluateConfig& config, Process& process);

// `kiln init-model`: writes a network with random or given weights as an UntrainedModelDirectory.
// Returns the exit code. Errors: 162 for `pretrained` without weights, 159 for weights that cannot
// be read or belong to another network, 160 for the output; thrown together where possible.
int run(const InitModelConfig& config, Process& process);

// `kiln inspect`: shows what a directory or file contains, and whether its images can be decoded.
// Prints a table or one JSON object. The exit status is 1 if `check` found a bad image (or the path
// itself is one), an image also occurs in `valid_data_path`, or a checkpoint is incomplete;
// otherwise 0. Damaged images, which are decoded as far as possible, are listed but do not count as
// bad. Throws what the readers throw, and Error kUserError if the kind of the path is unknown.
int run(const InspectConfig& config, Process& process);

// The launch requested by --ranks. Empty without it, in a rank started by launch, and if this
// process suffices.
std::optional<LaunchConfig> launch_of(const RanksConfig& ranks, const std::string& log_path,
                                      bool log_path_given);

// The log file of each rank of a command that runs as several processes:

// Locks the folder `log_path`, by rank 0's log file in it, for as long as `process.log_folder`
// holds the lock. Says so if it has to wait for another run's end, and if the file system has no
// locks. Throws Error kFailedToWriteOutputs if another run writes its logs there; error_info.json
// in the folder is left to that run.
void lock_log_folder(const std::string& log_path, Process& process);

// For rank 0, locks the folder first. Opens 70_driver_log_RANK.txt in `log_path`, which `kiln
// launch` names if a rank fails. If the folder cannot be written, logs a warning and returns false,
// or throws Error kFailedToWriteOutputs if the path was `given`.
bool open_driver_log(const std::string& log_path, bool given, Process& process);

// `kiln launch --ranks N -- train …`, and commands with --ranks N: starts the ranks with mpirun,
// shows rank 0's output, and reports which rank failed, where and how.
// Returns when all processes of the job have ended: the failing rank's exit code, or 128 + n after
// a stop by signal n. By then the failing rank, or otherwise this process, has written
// error_info.json. Throws Error if no rank could be started.
int run(const LaunchConfig& config, Process& process);

// `kiln pack`: packs images into shards, with their index.
int run(const PackConfig& config, Process& process);

// `kiln report`: creates the report of a run from its metrics.jsonl.
// The run may have ended in any way, or still be running. Throws Error kInvalidDataset if there is
// no run, kFailedToWriteOutputs.
int run(const ReportConfig& config, Process& process);

// `kiln score`: writes a trained model's predictions for images as rows of a file, or prints them.
// The exit code is 0 if no more images than allowed are bad. Faults of model, images and output are
// thrown together.
int run(const ScoreConfig& config, Process& process);

// `kiln split`: splits images into two or three ImageDirectories, which appear together.
// The exit code is 1 if `check_leaks` found copies of an image in different parts. Faults of input
// and outputs are thrown together.
int run(const SplitImagesConfig& config, Process& process);

// `kiln train`: sets up the ranks, world and log of a training run (run/training_run.h).
// Starts the ranks if requested; otherwise joins the world and runs as one of its ranks. Exit code:
// 0, or 128 + n after stop signal n. Throws Error, Problems, FailedElsewhere, or library
// exceptions.
int run(const TrainConfig& config, Process& process);

// `kiln transform init`: writes the operations of an image transformation.
// Throws Error kInvalidTransformationDirectory for invalid operations, and kFailedToWriteOutputs.
int run(const TransformInitConfig& config, Process& process);

// `kiln transform apply`: transforms images and writes them as an ImageDirectory.
// Faults of transformation, images and output are thrown together. If an image cannot be decoded,
// or an operation does not accept it, throws Error kInvalidDataset naming the image; nothing is
// written then.
int run(const TransformApplyConfig& config, Process& process);

// `kiln tune`: runs short trials of a training job with different settings, each in its own
// process.
// Throws Error kUserError if the job cannot run as it is, kFailedToWriteOutputs.
int run(const TuneConfig& config, Process& process);

// `kiln watch`: follows a running job through its metrics.jsonl.
// Waits for a run to start; returns when it has ended or on a stop signal. Throws Error kUserError
// if there is no folder for a run, kFailedToCompleteOperation if the run was probably killed.
int run(const WatchConfig& config, Process& process);

}  // namespace kiln
