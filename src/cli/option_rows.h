// Declarations for the *_options.cpp files, each of which holds the options of some commands:
// factories for common kinds of options, and the rows of the table in options.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/options.h"

namespace kiln {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

inline const std::string kPaths = "Inputs and outputs";
inline const std::string kTraining = "Training";
inline const std::string kRecipe = "Recipe";
inline const std::string kImages = "Images";
inline const std::string kMachine = "Machine";
inline const std::string kRanks = "Distributed training";
inline const std::string kReporting = "Reporting";
inline const std::string kModel = "Model";
inline const std::string kDrawing = "Drawing";

Option required_path(std::string name, std::string value_name, std::string help);
// The option's name may be omitted on the command line.
Option positional_path(std::string name, std::string value_name, std::string help);
Option optional_path(std::string name, std::string value_name, std::string default_text,
                     std::string group, std::string help);
Option integer(std::string name, std::string default_text, std::int64_t minimum,
               std::int64_t maximum, std::string unit, std::string group, std::string help);
// A number greater than 0.
Option number(std::string name, std::string default_text, std::int64_t maximum, std::string group,
              std::string help);
// A number from `minimum` to `maximum`, both included.
Option number_from(std::string name, std::string default_text, std::int64_t minimum,
                   std::int64_t maximum, std::string unit, std::string group, std::string help);
Option ranks(bool required, std::string group, std::string help);
Option choice(std::string name, std::vector<std::string> choices, std::string group,
              std::string help);
// A choice of the rows of `catalogue`. `help` precedes the description of each row.
Option catalogue_choice(const char* name, const auto& catalogue, std::string help,
                        std::string group = kRecipe) {
  std::vector<std::string> names;
  for (const auto& row : catalogue) {
    names.emplace_back(row.name);
    help += (help.empty() ? "" : " ") + std::string(row.name) + ": " +
            std::string(row.description) + ".";
  }
  return choice(name, std::move(names), std::move(group), std::move(help));
}
Option precision(std::string group, std::string help);
// A set of augmentation operations.
Option augment(std::string default_text, std::string help);
Option max_bad_images(std::string help);
Option read_threads();
// What is done with EXIF orientations. `help` ends its text.
Option exif(std::string group, std::string help);
Option seed(std::string group, std::string help);
Option yes_or_no(std::string name, ValueKind kind, std::string default_text, std::string group,
                 std::string help);

// A name from the table of networks. `help` says what the network is for.
Option network_name(std::string help);
// Reports a --group-by that is not a valid pattern.
void check_group_by(Binder& binder, const std::string& pattern);

// An option of `kiln train`. Changing an option may affect a run that resumes, so each states its
// effect.
struct TrainOption {
  TrainOption(Effect effect, Option of_row) : option(std::move(of_row)) { option.effect = effect; }
  Option option;
};

void check_train_paths(Binder& binder, const TrainConfig& config);  // train_paths.cpp
// Faults of an output that would replace one of a training job's inputs or its model, or be read as
// one.
Problems overlaps_with_job(const char* output_name, const std::string& output,
                           const TrainConfig& config);  // train_paths.cpp
std::vector<TrainOption> network_options();             // model_options.cpp
NetworkConfig bind_network(Binder& binder);
std::vector<TrainOption> split_options();  // split_options.cpp
SplitConfig bind_split(Binder& binder, bool has_shards);

std::vector<TrainOption> stream_options();  // stream_options.cpp
// Call it after the paths and the sharding of `config` are set.
void bind_stream(Binder& binder, DataConfig& config);

std::vector<TrainOption> checkpoint_options();  // checkpoint_options.cpp
CheckpointConfig bind_checkpoint(Binder& binder);
std::vector<TrainOption> fine_tuning_options();  // fine_tuning_options.cpp
void bind_fine_tuning(Binder& binder, OptimizationConfig& config);
void settle_fine_tuning(Binder& binder, TrainConfig& config);

std::vector<TrainOption> exchange_options();  // exchange_options.cpp
// Reports options that the exchange cannot be used with. Call it after `ranks` is bound.
void settle_exchange(Binder& binder, const TrainConfig& config);

std::vector<TrainOption> auto_options();  // auto_options.cpp
// Call it after the other options are bound.
void settle_auto(Binder& binder, TrainConfig& config);
// --classes, --first-label and --record-keys, for every command that reads datasets;
// record_options.cpp.
std::vector<Option> record_options();
std::vector<Option> with_record_options(std::vector<Option> options);  // adds them after `options`
std::vector<TrainOption> train_record_options();
RecordOptions bind_records(Binder& binder);
void bind_exif(Binder& binder, RecordOptions& options);

// Options for imbalanced classes.
std::vector<TrainOption> balance_options();  // balance_options.cpp
// Call it after `config.save` and `config.recipe` are set.
void bind_balance(Binder& binder, OptimizationConfig& config);

std::vector<TrainOption> transform_options();  // transform_options.cpp
// Call it after the options that --transform-path replaces are set in `config`.
void bind_transform(Binder& binder, DataConfig& config);

// A fault if --weights is a URL that may not be fetched; weight_options.cpp.
void check_weights_url(Binder& binder, const std::string& weights);
// --weights-sha256, for commands that have it.
Option weights_sha256();
// The hash in lowercase; empty if not given. Faults: as check_weights_url(); the hash is malformed;
// there is a hash but no weights.
std::string bind_weights_sha256(Binder& binder, const std::string& weights);

std::vector<TrainOption> recipe_options();  // recipe_options.cpp
// Applies the options that --recipe sets and the command line does not. Call it before any other
// option is read.
void imply_recipe(Binder& binder);
RecipeConfig bind_recipe(Binder& binder);
// Reports contradictory options.
void settle_recipe(Binder& binder, const TrainConfig& config);
std::vector<TrainOption> image_size_options();  // image_size_options.cpp
// Binds --image-size, --eval-resize and --eval-crop.
void bind_image_sizes(Binder& binder, DataConfig& config);

std::vector<TrainOption> insight_options();  // insight_options.cpp
InsightConfig bind_insight(Binder& binder);

std::vector<TrainOption> length_options();  // length_options.cpp
// Binds --epochs, --steps and --time-limit.
void bind_length(Binder& binder, OptimizationConfig& config);
// Every option with the value in effect: with a time limit, --epochs has a different default.
OptionTexts effective_options(const Binder& binder, const OptimizationConfig& config);

// Sets the role of each option on a designer's canvas, for the component with this name.
void place_on_canvas(std::string_view component, CommandInfo& command);

// The option with this name, which the command must have.
Option& option_named(CommandInfo& command, std::string_view name);

// The names of components that differ from the name of their command.
std::vector<std::string> own_component_names();  // component_table.cpp

// The rows of the command table, each defined in the file that holds the command's options and
// fills its struct. Only for the table in options.cpp.

CommandInfo train_command();            // train_options.cpp
CommandInfo score_command();            // score_options.cpp
CommandInfo evaluate_command();         //
CommandInfo audit_command();            //
CommandInfo launch_command();           // launch_options.cpp
CommandInfo tune_command();             // tune_options.cpp
CommandInfo init_model_command();       // model_options.cpp
CommandInfo convert_command();          // data_options.cpp
CommandInfo split_command();            // parts_options.cpp
CommandInfo pack_command();             // data_options.cpp
CommandInfo transform_init_command();   // transform_options.cpp
CommandInfo transform_apply_command();  //
CommandInfo demo_data_command();        // data_options.cpp
CommandInfo watch_command();            // view_options.cpp
CommandInfo inspect_command();          //
CommandInfo report_command();           //
CommandInfo compare_command();          //
// `names`: the commands and components that can be described.
CommandInfo describe_command(const std::vector<std::string>& names);

}  // namespace kiln
