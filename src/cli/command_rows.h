// The rows that several commands share, and the commands, each defined in the file that holds its
// rows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/rows.h"

namespace kiln {

inline const std::string kAnswers = "Answers";

// --classes, --first-label and --record-keys, for every command that reads datasets;
// data_options.cpp.
Rows<RecordOptions> record_rows();
// What is done with EXIF orientations. `help` ends its text.
Row<RecordOptions> exif_row(const std::string& group, const std::string& help);

// A fault if --weights is a URL that may not be fetched; model_options.cpp.
void check_weights(Binder& binder, const std::string& weights);
// --weights-sha256, for commands that have it.
extern const char* const kWeightsHashHelp;
Reader<std::string> sha256();
void check_weights_hash(Binder& binder);  // a fault if there is a hash but no weights

template <typename Config>
Row<Config> seed_row(const std::string& group, const std::string& help) {
  return opt(&Config::random_seed, "random-seed", from(kLowest, kHighest), group, help);
}

// The options of train that describe a network; model_options.cpp.
Rows<NetworkConfig> network_rows();
void check_network(Binder& binder, const NetworkConfig& config);

// train_checks.cpp: the options that --recipe sets and the command line does not; then what follows
// from several options together.
void imply_recipe(Binder& binder, const TrainConfig& config);
void check_train(Binder& binder, TrainConfig& config);
// Faults of an output that would replace one of a training job's inputs or its model, or be read as
// one.
Problems overlaps_with_job(const char* output_name, const std::string& output,
                           const TrainConfig& config);

// The names of components that differ from the name of their command.
std::vector<std::string> own_component_names();  // component_table.cpp

CommandInfo train_command();            // train_rows.cpp
CommandInfo score_command();            // score_options.cpp
CommandInfo evaluate_command();         //
CommandInfo audit_command();            //
CommandInfo launch_command();           // launch_options.cpp
CommandInfo tune_command();             //
CommandInfo init_model_command();       // model_options.cpp
CommandInfo convert_command();          // data_options.cpp
CommandInfo split_command();            //
CommandInfo pack_command();             //
CommandInfo demo_data_command();        //
CommandInfo transform_init_command();   // transform_options.cpp
CommandInfo transform_apply_command();  //
CommandInfo watch_command();            //
CommandInfo inspect_command();          //
CommandInfo report_command();           //
CommandInfo compare_command();          //
// `names`: the commands and components that can be described.
CommandInfo describe_command(const std::vector<std::string>& names);

}  // namespace kiln
