#include "tools/sagemaker/sagemaker_job.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "base/files.h"
#include "base/platform/sagemaker.h"
#include "base/system.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/rows.h"

namespace fs = std::filesystem;

namespace kiln {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kSeed = "random-seed";  // an option of both train and init-model

// Names of the channels for images, the usual one first.
const Words kTrainingChannels = {"train", "training"};
const Words kValidationChannels = {"validation", "valid", "test"};

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::kParameterParsing, message);
}

bool is_variable_name(const std::string& name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::ranges::all_of(name,
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// True for the variables that tell a rank what started it. They are set for every rank and must not
// be overridden.
bool is_own(std::string_view name) {
  return name == "KILN_LAUNCHED" || name == "KILN_PASS_ON" || name.starts_with("OMPI_COMM_WORLD_");
}

// Splits `text` at white space, as SageMaker's toolkit does.
MpiOptions read_mpi_options(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  MpiOptions options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_variable = words[i] == "-x";
    std::string value = is_variable && i + 1 < words.size() ? words[i + 1] : "";
    const std::string name = value.substr(0, value.find('='));
    if (is_variable && !is_variable_name(name))
      fail(std::string(kMpiOptions) + " has -x" + (value.empty() ? "" : " " + excerpt(value)) +
           ", but needs the name of a variable: -x NAME=VALUE or -x NAME.");
    if (is_variable && !is_own(name)) {
      ++i;
      options.names.push_back(name);
      if (name != value) options.variables.emplace_back(name, value.substr(name.size() + 1));
      continue;
    }
    std::string ignored = words[i];  // with its arguments
    while (i + 1 < words.size() && !words[i + 1].starts_with('-')) ignored += " " + words[++i];
    options.ignored.push_back("'" + excerpt(ignored) + "'");
  }
  return options;
}

// True if the option's value is a path that comes from the layout of SageMaker's folder.
bool is_place(const Option* option) {
  return option != nullptr && option->kind == ValueKind::kPath &&
         (option->canvas == Canvas::kDataIn || option->canvas == Canvas::kModelIn ||
          option->canvas == Canvas::kModelOut || option->name == "data-path");
}

class Translation {
 public:
  Translation(const fs::path& folder, Words own, int num_gpus)
      : folder_(folder), own_(std::move(own)), ranks_per_host_(std::max(num_gpus, 1)) {}

  SageMakerJob run() {
    tree_ = read_sagemaker_tree(folder_, problems_);
    problems_.collect([&] { add_mpi_settings(); });
    for (const auto& [name, text] : tree_.hyperparameters)
      problems_.collect([&, &parameter = name, &value = text] { take(parameter, value); });
    add_images();
    problems_.collect([&] { add_model(); });
    add_unused_channels();
    return job();
  }

 private:
  void add_mpi_settings() {
    problems_.collect([&] { mpi_ = read_mpi_options(tree_.mpi_options); });
    if (!mpi_.ignored.empty())
      warnings_.push_back("Of " + std::string(kMpiOptions) + " kiln uses only variables (-x); " +
                          joined(mpi_.ignored, ", ") + (mpi_.ignored.size() == 1 ? " is" : " are") +
                          " ignored: kiln chooses its own.");
    if (tree_.ranks_per_host.empty()) return;
    const auto count =
        integer_value(*find_option(train_, "ranks"), tree_.ranks_per_host, kRanksPerHost);
    if (count > 0) ranks_per_host_ = static_cast<int>(count);
  }

  void take(const std::string& name, const std::string& text) {
    const Option* of_train = find_option(train_, name);
    const Option* of_model = find_option(init_model_, name);
    if (of_train == nullptr && of_model == nullptr) refuse_unknown(name);
    if (is_place(of_train))
      fail("The hyperparameter '" + name +
           "' is a path, and paths come from the job's channels: remove it.");
    // Of the options that only init-model has, a job without the channel `model` can obey none but
    // `pretrained`, which says the same as `weights`.
    if (of_train == nullptr && of_model->name != "pretrained" &&
        (of_model->default_text.empty() ||
         !of_model->same_value(*of_model, text, of_model->default_text)))
      fail("The hyperparameter '" + of_model->name +
           "' is of `kiln init-model` alone: make the network with it, and give its folder as the "
           "channel 'model'.");
    const bool of_network = of_model != nullptr && !same_name(name, kSeed);
    Words& words = of_network ? network_words_ : train_words_;
    if (of_train != nullptr) words.push_back("--" + of_train->name + "=" + text);
    if (!of_network) return;
    of_network_ = name;
    model_words_.push_back("--" + of_model->name + "=" + text);
    says_pretrained_ = says_pretrained_ || of_train == nullptr;
  }

  [[noreturn]] void refuse_unknown(const std::string& name) const {
    std::string guess;
    for (const CommandInfo* command : {&train_, &init_model_}) {
      const Option* meant = find_option(*command, meant_option(*command, name));
      if (guess.empty() && meant != nullptr && !is_place(meant)) guess = meant->name;
    }
    fail("'" + excerpt(name) + "' is not a hyperparameter of kiln." +
         (guess.empty() ? " `kiln train --help all` and, for jobs without a 'model' channel, `kiln "
                          "init-model --help` list them."
                        : " Did you mean '" + guess + "'?"));
  }

  fs::path folder_of_channel(const std::string& name) const {
    return folder_ / "input/data" / name;
  }

  // Throws Error if the channel `name`, which the job must have, uses Pipe mode.
  void require_files(const std::string& name) const {
    if (tree_.channels.at(name).is_pipe)
      fail("The channel '" + name +
           "' uses Pipe mode, which kiln reads for images alone: use File or FastFile mode.");
  }

  // Adds training images that come through a pipe, or from one channel per rank: train_0, train_1,
  // … In Pipe mode, the pipe of `train` for the first epoch is named `train_0` too, so it is the
  // job's list of channels that tells the two apart. Returns false if the job has neither.
  bool add_streams_or_parts() {
    for (const std::string& name : kTrainingChannels) {
      const bool per_rank = !tree_.channels.contains(name);
      const std::string channel = per_rank ? name + "_0" : name;
      const auto found = tree_.channels.find(channel);
      if (found == tree_.channels.end()) continue;
      if (!per_rank && !found->second.is_pipe) continue;
      train_words_.push_back("--train-data-path=" + folder_of_channel(name).string() +
                             (per_rank ? "_{rank}" : "") +
                             (found->second.is_pipe ? "_{epoch}" : ""));
      used_.insert(channel);
      if (per_rank) problems_.collect([&] { add_channels_of_ranks(name); });
      if (is_in_parts(channel))
        in_parts_.emplace_back("train-data-path");
      else
        is_divided_ = tree_.hosts.size() > 1;
      return true;
    }
    return false;
  }

  void add_channels_of_ranks(const std::string& name) {
    const auto first = tree_.channels.find(name + "_0");
    for (int rank = 1; rank < ranks_per_host_; ++rank) {
      const auto other = tree_.channels.find(name + "_" + std::to_string(rank));
      if (other == tree_.channels.end()) break;  // the rank says what it lacks
      used_.insert(other->first);
      if (other->second == first->second) continue;
      fail("The channels '" + first->first + "' and '" + other->first +
           "' differ: " + in_words(first->second) + " and " + in_words(other->second) +
           ". Give the channels of all ranks the same mode and distribution.");
    }
  }

  static std::string in_words(const SageMakerChannel& channel) {
    return std::string(channel.is_pipe ? "Pipe mode, " : "files, ") +
           (channel.is_sharded ? "ShardedByS3Key" : "FullyReplicated");
  }

  // True if each host has its own shard of the channel.
  bool is_in_parts(const std::string& channel) const {
    return tree_.hosts.size() > 1 && tree_.channels.at(channel).is_sharded;
  }

  // Returns those of `names` that are channels of the job.
  Words channels_among(const Words& names) const {
    Words found;
    for (const std::string& name : names)
      if (tree_.channels.contains(name)) found.push_back(name);
    return found;
  }

  // If there are no validation images, the training images are split, provided that they are files
  // in a single channel.
  void add_images() {
    if (!add_streams_or_parts()) {
      if (channels_among(kValidationChannels).empty())
        return problems_.collect([&] { add_path("data-path", kTrainingChannels); });
      problems_.collect([&] { add_path("train-data-path", kTrainingChannels); });
    }
    problems_.collect([&] { add_path("valid-data-path", kValidationChannels); });
  }

  // Sets the option to the first of the channels `names` that the job has. It is set even if there
  // is none, so that it is not also reported as missing.
  void add_path(const std::string& option, const Words& names) {
    const Words found = channels_among(names);
    const std::string& used = found.empty() ? names.front() : found.front();
    const bool is_stream =
        option == "valid-data-path" && !found.empty() && tree_.channels.at(used).is_pipe;
    train_words_.push_back("--" + option + "=" + folder_of_channel(used).string() +
                           (is_stream ? "_{epoch}" : ""));
    has_images_ = has_images_ && !found.empty();
    if (found.empty()) {
      Words channels;
      for (const auto& [name, channel] : tree_.channels) channels.push_back("'" + name + "'");
      fail("The job has no channel '" + names.front() + "', which provides --" + option +
           ": add it (also accepted: " + join_choices({names.begin() + 1, names.end()}) +
           "). It has " + (channels.empty() ? "none" : joined(channels, ", ")) + ".");
    }
    used_.insert(found.begin(), found.end());
    for (const std::string& name : Words(found.begin() + 1, found.end()))
      warnings_.push_back("The channel '" + name + "' is ignored: --" + option +
                          " comes from the channel '" + used + "'.");
    if (is_in_parts(used)) in_parts_.push_back(option);
    if (!is_stream) require_files(used);
  }

  // The channel `model` may hold a network made by init-model, or the output of an earlier job,
  // packed or not.
  void add_model() {
    if (tree_.channels.contains("model")) {
      used_.insert("model");
      train_words_.push_back("--untrained-model-path=" + folder_of_channel("model").string());
      require_files("model");
      if (is_in_parts("model"))
        fail(
            "The channel 'model' is sharded across the hosts (ShardedByS3Key), but each host needs "
            "the complete model: use FullyReplicated.");
      if (!of_network_.empty())
        fail("The hyperparameter '" + of_network_ +
             "' describes a new network, but the channel 'model' already provides one: remove "
             "one of them.");
      return;
    }
    train_words_.insert(train_words_.end(), network_words_.begin(), network_words_.end());
    Words given = {"train"};
    given.insert(given.end(), own_.begin(), own_.end());
    if (parse_arguments(init_model_, model_words_).has("model-name") ||
        parse_arguments(train_, given).has("model-name")) {
      if (!says_pretrained_) return;
      // The hyperparameters that only init-model has.
      Words words = model_words_;
      words.push_back("--untrained-model-path=" + (folder_ / "model").string());
      of_model_ = parse_command_line(words).problems;
      return;
    }
    // So that it is not also reported as missing.
    train_words_.push_back("--untrained-model-path=" + folder_of_channel("model").string());
    if (std::none_of(tree_.unreadable.begin(), tree_.unreadable.end(),
                     [](const std::string& name) { return same_name(name, "model-name"); }))
      fail(
          "There is no model to train: add the channel 'model', or the hyperparameter "
          "'model-name', such as resnet50.");
  }

  // Whether a hyperparameter, an argument or the ssh key is a file of the channel.
  bool is_named(const std::string& channel) const {
    const std::string folder = folder_of_channel(channel).string() + "/";
    const auto names_it = [&](const std::string& text) {
      return (text + "/").find(folder) != text.npos;
    };
    return names_it(environment("KILN_HOSTS_KEY")) || std::ranges::any_of(own_, names_it) ||
           std::ranges::any_of(tree_.hyperparameters,
                               [&](const auto& item) { return names_it(item.second); });
  }

  // Names the channels that nothing reads.
  void add_unused_channels() {
    Words unused;
    for (const auto& [name, channel] : tree_.channels)
      if (!used_.contains(name) && !is_named(name)) unused.push_back("'" + name + "'");
    if (unused.empty()) return;
    warnings_.push_back((unused.size() == 1 ? "The channel " : "The channels ") +
                        joined(unused, ", ") + (unused.size() == 1 ? " is" : " are") +
                        " not used. kiln reads train (or train_0 and so on, for each rank of a "
                        "host), validation, model, and files that hyperparameters name.");
  }

  // After a -- every word would be a value.
  void add_option(const std::string& word) {
    train_words_.insert(std::ranges::find(train_words_, "--"), word);
  }

  // Sets --shard-by if images are sharded across the hosts, or if each host has all images of a
  // stream or of its ranks' channels. Other replicated training images with sharded validation
  // images are not supported.
  void add_sharding(const Given& given) {
    if (!has_images_ || given.has("shard-by")) return;
    if (in_parts_.empty()) {
      if (is_divided_) add_option("--shard-by=host");
      return;
    }
    if (in_parts_.front() == "data-path")
      fail(
          "The images are sharded across the hosts (ShardedByS3Key), and there is no channel "
          "'validation': add the channel 'validation', or use FullyReplicated.");
    if (in_parts_.front() != "train-data-path")
      fail(
          "The validation images are sharded across the hosts (ShardedByS3Key), but the training "
          "images are not: shard both, neither, or only the training images.");
    add_option(in_parts_.size() == 1 ? "--shard-by=train" : "--shard-by=none");
  }

  // Returns the options that the job passes to train, including those in its --config file.
  Given given_to_train() const {
    Given given = parse_arguments(train_, train_words_);
    read_config_file(given);
    return given;
  }

  SageMakerJob job() {
    train_words_.insert(train_words_.end(), own_.begin(), own_.end());
    problems_.collect([&] {
      const std::string& text = tree_.parameter_server;
      if (!text.empty() && boolean_value({}, text, kParameterServer) &&
          !given_to_train().has("exchange"))
        add_option("--exchange=parameter-server");
    });
    const Given given = given_to_train();
    problems_.collect([&] { add_sharding(given); });
    problems_.collect([&] {
      if (tree_.hosts.size() > 1 && given.has("ranks"))
        fail("'ranks' is the number of processes on a single host, but this job has " +
             std::to_string(tree_.hosts.size()) + " hosts: set the number per host as " +
             kRanksPerHost + " instead.");
    });
    add_option("--trained-model-path=" + (folder_ / "model").string());
    if (!given.has("log-path")) add_option("--log-path=" + (folder_ / "output/data/logs").string());
    // SageMaker creates this folder for jobs with a CheckpointConfig, and restores its contents
    // when a spot job restarts.
    const fs::path checkpoints = folder_ / "checkpoints";
    if (!given.has("checkpoint-path") && is_folder(checkpoints))
      add_option("--checkpoint-path=" + checkpoints.string());
    if (tree_.hosts.size() == 1 && ranks_per_host_ > 1 && !given.has("ranks"))
      add_option("--ranks=" + std::to_string(ranks_per_host_));
    SageMakerJob job{.hosts = tree_.hosts,
                     .current_host = tree_.current_host,
                     .network_interface = tree_.network_interface,
                     .mpi = mpi_,
                     .warnings = warnings_};
    if (problems_.empty()) job.command = with_launch();
    // The faults of the resulting command are reported together with those of the job.
    job.invocation = parse_command_line(problems_.empty() ? job.command : train_words_);
    job.invocation.problems = merged({problems_, of_model_, job.invocation.problems});
    return job;
  }

  Words with_launch() const {
    if (tree_.hosts.size() == 1) return train_words_;
    const std::string slots = std::to_string(ranks_per_host_);
    std::string hosts;
    for (const std::string& host : tree_.hosts)
      hosts += (hosts.empty() ? "" : ",") + host + ":" + slots;
    Words words = {"launch", "--ranks=auto", "--hosts=" + hosts, "--"};
    words.insert(words.end(), train_words_.begin(), train_words_.end());
    return words;
  }

  const CommandInfo& train_ = *find_command("train");
  const CommandInfo& init_model_ = *find_command("init-model");
  const fs::path& folder_;
  Words own_;
  int ranks_per_host_;
  SageMakerTree tree_;
  Problems problems_;
  Words train_words_ = {"train"}, model_words_ = {"init-model"};
  Words network_words_;  // for train, if no channel provides the network
  MpiOptions mpi_;
  Words warnings_;
  std::set<std::string> used_;    // channels that something reads
  bool has_images_ = true;        // all image channels exist
  bool is_divided_ = false;       // hosts divide training images that each of them has
  Words in_parts_;                // the path options whose channels are sharded across hosts
  std::string of_network_;        // a hyperparameter that describes a new network; empty: none
  bool says_pretrained_ = false;  // there is one of these that only init-model has
  Problems of_model_;
};

}  // namespace

bool is_sagemaker_start(const std::vector<std::string>& arguments, const fs::path& folder) {
  if (arguments.empty() || arguments.front() != "train" ||
      !is_there(folder / "input/config/resourceconfig.json"))
    return false;
  const Given raw = parse_arguments(*find_command("train"), arguments);
  return !raw.help && std::ranges::none_of(raw.mentioned, is_place);
}

SageMakerJob sagemaker_job(const fs::path& folder, const std::vector<std::string>& arguments,
                           int num_gpus) {
  return Translation(folder, {arguments.begin() + 1, arguments.end()}, num_gpus).run();
}

}  // namespace kiln
