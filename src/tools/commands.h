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

// Runs the program with these arguments: a command line, or how SageMaker starts the program.
int run_program(const std::vector<std::string>& arguments, Process& process);

// Runs the command and returns its exit code. If the command prints its result and standard output
// cannot be written, that is Error kFailedToWriteOutputs. Throws faults of the command line as
// Problems before anything else is read or written, and whatever the command throws: Error,
// Problems, FailedElsewhere, or library exceptions.
int dispatch(const Invocation& invocation, Process& process);

// Throws the problems of the command line. From here on, error_info.json is written where
// place_of_error_info() says.
void require_faultless(const Invocation& invocation, Process& process);

// Runs `kiln train` as SageMaker started it, before any thread starts.
int run_in_sagemaker(const std::vector<std::string>& arguments, Process& process);

// The launch requested by --ranks. Empty without it, in a rank started by launch, and if this
// process suffices.
std::optional<LaunchConfig> launch_of(const TrainConfig& config);

// Locks the folder `log_path`, by rank 0's log file in it, for as long as `process.log_folder`
// holds the lock, and sets the logs of an earlier run there aside. Says so if it has to wait for
// another run's end, and if the file system has no locks. Throws Error kFailedToWriteOutputs if
// another run writes its logs there; error_info.json in the folder is left to that run.
void lock_log_folder(const std::string& log_path, Process& process);

// Opens 70_driver_log_RANK.txt in `log_path`, which `kiln
// launch` names if a rank fails. If the folder cannot be written, logs a warning and returns false,
// or throws Error kFailedToWriteOutputs if the path was `given`.
bool open_driver_log(const std::string& log_path, bool given, Process& process);

// Each run() returns the exit code: 0 unless said otherwise. Faults of inputs and outputs are
// thrown together where possible.

// Trains as one of the ranks, or starts the ranks if asked to. 128 + n after stop signal n.
int run(const TrainConfig& config, Process& process);

// Starts the ranks with mpirun, shows rank 0's output, and reports which rank failed, where and
// how. Returns when all processes of the job have ended: the failing rank's exit code, or 128 + n
// after a stop by signal n. By then the failing rank, or otherwise this process, has written
// error_info.json. Throws Error if no rank could be started.
int run(const LaunchConfig& config, Process& process);

// Runs short trials of a training job with different settings, each in its own process. Throws
// Error kUserError if the job cannot run as it is.
int run(const TuneConfig& config, Process& process);

// Errors: 162 for `pretrained` without weights, 159 for weights that cannot be read or belong to
// another network, 160 for the output.
int run(const InitModelConfig& config, Process& process);

// Writes predictions as rows of a file, or prints them.
int run(const ScoreConfig& config, Process& process);

// Answers requests until SIGTERM or SIGINT: 0, once what was running is answered; 128 + n after
// another stop signal n in the meantime. SIGHUP reloads the model. Throws Error kUserError if the
// address cannot be listened on.
int run(const ServeConfig& config, Process& process);

// Measures trained models on labeled images, and writes a page, JSON, CSV and TensorBoard events
// into a folder; sends them to MLflow if it is configured. 4 if a metric is below --at-least.
int run(const EvaluateConfig& config, Process& process);

// Writes the features of images as a table, or those that a trained model keeps of its own.
int run(const EmbedConfig& config, Process& process);

// Writes a table of the images of an unlabeled set to label next, and a page to label them on.
// Throws Error kFailedToWriteOutputs if the table exists, which may have labels by now.
int run(const SelectConfig& config, Process& process);

// Writes a trained model as a file or folder that other programs read. Throws Error
// kFailedToWriteOutputs if the output exists, kUserError for a model that the format cannot hold.
int run(const ExportConfig& config, Process& process);

// Finds labeled images that deserve a look. Throws Error kInvalidDataset if all images have the
// same class, or if they cannot be divided into folds.
int run(const AuditConfig& config, Process& process);

int run(const ConvertConfig& config, Process& process);

// The parts appear together. 1 if `check_leaks` found copies of an image in different parts.
int run(const SplitImagesConfig& config, Process& process);

int run(const PackConfig& config, Process& process);

int run(const DemoDataConfig& config, Process& process);

// Throws Error kInvalidTransformationDirectory for invalid operations.
int run(const TransformInitConfig& config, Process& process);

// Throws Error kInvalidDataset, naming the image, if one cannot be decoded or an operation does not
// accept it; nothing is written then.
int run(const TransformApplyConfig& config, Process& process);

// Prints a table or one JSON object. 1 if `check` found a bad image (or the path itself is one), an
// image also occurs in `valid_data_path`, or a checkpoint is incomplete. Damaged images, which are
// decoded as far as possible, are listed but do not count as bad. Throws what the readers throw,
// and Error kUserError if the kind of the path is unknown.
int run(const InspectConfig& config, Process& process);

// The run may have ended in any way, or still be running. Throws Error kInvalidDataset if there is
// no run.
int run(const ReportConfig& config, Process& process);

// Throws as `kiln report` does.
int run(const CompareConfig& config, Process& process);

}  // namespace kiln
