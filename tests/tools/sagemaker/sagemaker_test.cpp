#include "tools/sagemaker/sagemaker_job.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "cli/parse.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChannels =
    R"({"train": {"TrainingInputMode": "File"}, "validation": {}, "model": {}})";

class SageMaker : public testing::Test {
 protected:
  SageMaker() {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "input/config");
    write("resourceconfig", R"({"current_host": "algo-1", "hosts": ["algo-1"]})");
    write("inputdataconfig", kChannels);
    write("hyperparameters", "{}");
  }
  ~SageMaker() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / "input/config" / (name + ".json")) << text;
  }
  void two_hosts() {
    write("resourceconfig", R"({"current_host": "algo-2", "hosts": ["algo-1", "algo-2"],
                                "network_interface_name": "eth0"})");
  }
  SageMakerJob job(int num_gpus = 0, const Words& own = {"train"}) const {
    return sagemaker_job(folder_, own, num_gpus);
  }
  Words command(int num_gpus = 0, const Words& own = {"train"}) const {
    Words words = job(num_gpus, own).command;
    std::sort(words.begin(), words.end());
    return words;
  }
  std::string fault(const std::string& hyperparameters) {
    write("hyperparameters", hyperparameters);
    return fault();
  }
  std::string fault() const {
    std::string text;
    const Problems all = problems();
    for (const Error& error : all.errors()) {
      if (text.empty()) {
        EXPECT_EQ(error.code(), ErrorCode::kParameterParsing);
      }
      text += error.message() + "\n";
    }
    return text.empty() ? "no fault" : text;
  }
  Problems problems() const {
    try {
      return job().invocation.problems;
    } catch (const Problems& of_files) {
      return of_files;
    }
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("kiln-sagemaker-" + std::to_string(::getpid()));
  const std::string data_ = (folder_ / "input/data/").string();
  Words paths(const Words& more) const {
    Words words = {"train",
                   "--train-data-path=" + data_ + "train",
                   "--valid-data-path=" + data_ + "validation",
                   "--untrained-model-path=" + data_ + "model",
                   "--trained-model-path=" + (folder_ / "model").string(),
                   "--log-path=" + (folder_ / "output/data/logs").string()};
    words.insert(words.end(), more.begin(), more.end());
    std::sort(words.begin(), words.end());
    return words;
  }
};

bool contains(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

TEST_F(SageMaker, IsDetectedForTrainWithoutPaths) {
  EXPECT_TRUE(is_sagemaker_start({"train"}, folder_));
  EXPECT_TRUE(is_sagemaker_start({"train", "--epochs", "3"}, folder_));
  EXPECT_FALSE(is_sagemaker_start({"train", "--train_data_path", "x"}, folder_));
  EXPECT_FALSE(is_sagemaker_start({"train", "--help"}, folder_));
  EXPECT_FALSE(is_sagemaker_start({"convert"}, folder_));
  EXPECT_FALSE(is_sagemaker_start({}, folder_));
  EXPECT_FALSE(is_sagemaker_start({"train"}, folder_ / "elsewhere"));
}

TEST_F(SageMaker, MapsChannelsAndOutputsToOptions) {
  EXPECT_EQ(command(), paths({}));
  EXPECT_TRUE(job().leads());
}

TEST_F(SageMaker, AcceptsAlternativeChannelNames) {
  write("inputdataconfig", R"({"training": {}, "test": {}, "model": {}, "weights": {}})");
  EXPECT_TRUE(contains(command(), "--train-data-path=" + data_ + "training"));
  EXPECT_TRUE(contains(command(), "--valid-data-path=" + data_ + "test"));
}

TEST_F(SageMaker, SplitsTheImagesOfOneChannel) {
  write("inputdataconfig", R"({"training": {}, "weights": {}})");
  write("hyperparameters",
        R"({"model_name": "resnet18", "weights": "/w/r.pth", "freeze": "backbone",
    "folds": "5", "time_limit": "\"10min\"", "group_by": "(p[0-9]+)_"})");
  EXPECT_EQ(fault(), "no fault");
  for (const std::string& word :
       {"--data-path=" + data_ + "training", std::string("--weights=/w/r.pth"),
        std::string("--freeze=backbone"), std::string("--folds=5"),
        std::string("--time-limit=10min"), std::string("--group-by=(p[0-9]+)_")})
    EXPECT_TRUE(contains(command(), word)) << word;
  for (const std::string& word : command())
    EXPECT_FALSE(word.starts_with("--train-data-path") || word.starts_with("--valid-data-path"))
        << word;
}

TEST_F(SageMaker, GoesOnWithTheModelOfItsChannelOnSplitImages) {
  write("inputdataconfig", R"({"train": {}, "model": {}})");
  write("hyperparameters", R"({"freeze": "norm", "time-limit": "1h"})");
  EXPECT_EQ(fault(), "no fault");
  EXPECT_TRUE(contains(command(), "--data-path=" + data_ + "train"));
  EXPECT_TRUE(contains(command(), "--untrained-model-path=" + data_ + "model"));
}

// Each host would split its own, without the others' duplicates and groups.
TEST_F(SageMaker, DoesNotSplitShards) {
  write("inputdataconfig", R"({"train": {"S3DistributionType": "ShardedByS3Key"}, "model": {}})");
  EXPECT_EQ(fault(), "no fault") << "one host has all";
  two_hosts();
  EXPECT_NE(fault().find("add the channel 'validation'"), std::string::npos) << fault();
}

TEST_F(SageMaker, TakesHyperparametersInEveryForm) {
  write("hyperparameters", R"({"epochs": "3", "learning_rate": "\"0.01\"", "augment": "flip",
    "save": "\"last\"", "sync-batch-norm": "True", "batch-size": 4,
    "sagemaker_program": "\"train.py\"", "_tuning_objective_metric": "validation:top1"})");
  EXPECT_EQ(command(), paths({"--epochs=3", "--learning-rate=0.01", "--augment=flip", "--save=last",
                              "--sync-batch-norm=True", "--batch-size=4"}));
}

TEST_F(SageMaker, AddsArgumentsOfTheContainer) {
  EXPECT_EQ(command(0, {"train", "--epochs", "3"}), paths({"--epochs", "3"}));
}

TEST_F(SageMaker, NamesTheNetworkWithoutAModelChannel) {
  write("inputdataconfig", R"({"train": {}, "validation": {}})");
  write("hyperparameters",
        R"({"model_name": "resnet18", "random_seed": "7", "weights": "/w/r.pth",
            "pretrained": "True"})");
  EXPECT_EQ(fault(), "no fault");
  for (const char* word : {"--model-name=resnet18", "--random-seed=7", "--weights=/w/r.pth"})
    EXPECT_TRUE(contains(command(), word)) << word;
  for (const std::string& word : command())
    EXPECT_FALSE(word.starts_with("--untrained-model-path")) << word;
  write("hyperparameters", "{}");
  EXPECT_TRUE(contains(command(0, {"train", "--model-name", "resnet18"}), "resnet18"));
}

TEST_F(SageMaker, PretrainedWithoutAFileIsAFault) {
  write("inputdataconfig", R"({"train": {}, "validation": {}})");
  write("hyperparameters", R"({"model_name": "resnet34", "pretrained": "True"})");
  const std::vector<Error> all = problems().errors();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_NE(all[0].message().find("--weights torchvision"), std::string::npos);
}

TEST_F(SageMaker, OptionsOfInitModelAloneAreFaults) {
  write("inputdataconfig", R"({"train": {}, "validation": {}})");
  for (const char* option :
       {R"("weights": "/w/r.pth", "weights_sha256": "00ff")", R"("memory_efficient": "True")"}) {
    write("hyperparameters", R"({"model_name": "densenet121", )" + std::string(option) + "}");
    EXPECT_NE(fault().find("channel 'model'"), std::string::npos) << fault();
  }
  write("hyperparameters", R"({"model_name": "densenet121", "memory_efficient": "False"})");
  EXPECT_EQ(fault(), "no fault");
}

TEST_F(SageMaker, OptionsComeBeforeWordsThatStandForThemselves) {
  const Words words = sagemaker_job(folder_, {"train", "--epochs", "3", "--"}, 0).command;
  ASSERT_FALSE(words.empty());
  EXPECT_EQ(words.back(), "--");
}

TEST_F(SageMaker, StartsARankForEachGpu) {
  EXPECT_EQ(command(8), paths({"--ranks=8"}));
  write("hyperparameters", R"({"sagemaker_mpi_num_of_processes_per_host": "4"})");
  EXPECT_EQ(command(8), paths({"--ranks=4"}));
  write("hyperparameters", R"({"ranks": "2"})");
  EXPECT_EQ(command(8), paths({"--ranks=2"}));
}

TEST_F(SageMaker, KeepsCheckpointsWhereTheJobHasAPlaceForThem) {
  const std::string place = "--checkpoint-path=" + (folder_ / "checkpoints").string();
  write("hyperparameters", R"({"checkpoint_every": "5s"})");
  const Environment job(Environment::Values{{"TRAINING_JOB_NAME", "job"}});
  EXPECT_NE(fault().find("--checkpoint-path"), std::string::npos);
  fs::create_directories(folder_ / "checkpoints");
  EXPECT_EQ(command(), paths({"--checkpoint-every=5s", place}));
  write("hyperparameters", R"({"checkpoint_path": "/elsewhere"})");
  EXPECT_EQ(command(), paths({"--checkpoint-path=/elsewhere"}));
}

// A restored spot job has other hosts; the leading one finds the checkpoints, and all their ranks.
TEST_F(SageMaker, RanksFollowTheOrderOfTheHosts) {
  fs::create_directories(folder_ / "checkpoints");
  write("resourceconfig", R"({"current_host": "algo-9", "hosts": ["algo-9", "algo-3"]})");
  const SageMakerJob found = job(2);
  EXPECT_TRUE(found.leads());
  EXPECT_TRUE(contains(found.command, "--hosts=algo-9:2,algo-3:2"));
  EXPECT_TRUE(contains(found.command, "--checkpoint-path=" + (folder_ / "checkpoints").string()));
}

TEST_F(SageMaker, LaunchesOverSeveralHosts) {
  two_hosts();
  const SageMakerJob found = job(4);
  EXPECT_FALSE(found.leads());
  EXPECT_EQ(found.network_interface, "eth0");
  EXPECT_EQ(Words(found.command.begin(), found.command.begin() + 5),
            (Words{"launch", "--ranks=auto", "--hosts=algo-1:4,algo-2:4", "--", "train"}));
  EXPECT_FALSE(contains(found.command, "--ranks=4"));
  EXPECT_NE(fault(R"({"ranks": "2"})").find("sagemaker_mpi_num_of_processes_per_host instead"),
            std::string::npos);
}

TEST_F(SageMaker, IgnoresTheSdksOwnHyperparameters) {
  write("hyperparameters", R"({"sagemaker_custom": "{\"a\": 1}", "sagemaker_list": [1],
    "sagemaker_program": "train.py"})");
  EXPECT_EQ(command(), paths({}));
  EXPECT_EQ(job().warnings, Words{});
}

TEST_F(SageMaker, TakesTheVariablesOfMpirunsOptions) {
  write("hyperparameters", R"({"sagemaker_mpi_custom_mpi_options":
    "\"-verbose -x NCCL_DEBUG=INFO --mca btl ^openib )"
                           R"( -x FI_PROVIDER -x A=b=c -x KILN_LAUNCHED=2\""})");
  const SageMakerJob found = job();
  EXPECT_EQ(fault(), "no fault");
  EXPECT_EQ(found.mpi.names, (Words{"NCCL_DEBUG", "FI_PROVIDER", "A"}));
  EXPECT_EQ(found.mpi.variables, (std::vector<std::pair<std::string, std::string>>{
                                     {"NCCL_DEBUG", "INFO"}, {"A", "b=c"}}));
  EXPECT_EQ(found.warnings,
            (Words{"Of sagemaker_mpi_custom_mpi_options kiln uses only variables (-x); "
                   "'-verbose', '--mca btl ^openib', '-x KILN_LAUNCHED=2' are ignored: kiln "
                   "chooses its own."}));
  EXPECT_EQ(command(), paths({})) << "what is trained stays the same";
}

TEST_F(SageMaker, VariablesOfMpirunsOptionsHaveNames) {
  for (const char* options : {"-x", "-x =1", "-x 1A=2", "-x A-B=1", "-x --mca"}) {
    const std::string text =
        fault(std::string(R"({"sagemaker_mpi_custom_mpi_options": ")") + options + R"("})");
    EXPECT_NE(text.find("needs the name of a variable"), std::string::npos) << options;
  }
}

TEST_F(SageMaker, LetsTheConfigFileSetOptions) {
  const std::string file = (folder_ / "run.yaml").string();
  std::ofstream(file) << "log_path: over\nranks: 2\n";
  write("hyperparameters", R"({"config": ")" + file + R"("})");
  const Words words = command(8);
  EXPECT_FALSE(contains(words, "--ranks=8"));
  EXPECT_FALSE(contains(words, "--log-path=" + (folder_ / "output/data/logs").string()));
}

TEST_F(SageMaker, PassesOnWhichChannelsAreSharded) {
  const auto channels = [&](const char* train, const char* valid) {
    write("inputdataconfig", std::string(R"({"model": {}, "train": {"S3DistributionType": ")") +
                                 train + R"("}, "valid": {"S3DistributionType": ")" + valid +
                                 R"("}})");
  };
  channels("ShardedByS3Key", "FullyReplicated");
  EXPECT_FALSE(contains(command(), "--shard-by=none")) << "one host has everything";
  two_hosts();
  EXPECT_TRUE(contains(command(), "--shard-by=train"));
  channels("ShardedByS3Key", "ShardedByS3Key");
  EXPECT_TRUE(contains(command(), "--shard-by=none"));
  channels("FullyReplicated", "FullyReplicated");
  EXPECT_FALSE(contains(command(), "--shard-by=none"));
  channels("FullyReplicated", "ShardedByS3Key");
  EXPECT_NE(fault().find("shard both, neither"), std::string::npos);
}

TEST_F(SageMaker, TrainingImagesMayComeThroughPipes) {
  const auto train_path = [&](const std::string& channels) {
    write("inputdataconfig", "{" + channels + R"(, "validation": {}, "model": {}})");
    for (const std::string& word : command())
      if (word.starts_with("--train-data-path=")) return word.substr(18 + data_.size());
    return fault();
  };
  const std::string pipe = R"({"TrainingInputMode": "Pipe"})";
  EXPECT_EQ(train_path("\"train\": " + pipe), "train_{epoch}");
  EXPECT_EQ(train_path("\"training\": " + pipe), "training_{epoch}");
  EXPECT_EQ(train_path("\"train_0\": " + pipe + ", \"train_1\": " + pipe), "train_{rank}_{epoch}");
  EXPECT_EQ(train_path(R"("train_0": {}, "train_1": {})"), "train_{rank}");
}

TEST_F(SageMaker, HostsDivideWhatEachOfThemHas) {
  const auto channels = [&](const std::string& of_0, const std::string& of_1) {
    write("inputdataconfig", R"({"train_0": )" + of_0 + R"(, "train_1": )" + of_1 +
                                 R"(, "validation": {}, "model": {}})");
  };
  const std::string all = R"({"S3DistributionType": "FullyReplicated"})",
                    pipe = R"({"TrainingInputMode": "Pipe"})",
                    part = R"({"S3DistributionType": "ShardedByS3Key"})";
  channels(all, all);
  EXPECT_FALSE(contains(command(2), "--shard-by=host")) << "one host";
  two_hosts();
  EXPECT_TRUE(contains(command(2), "--shard-by=host"));
  write("hyperparameters", R"({"shard_by": "record"})");
  EXPECT_FALSE(contains(command(2), "--shard-by=host")) << "as given";
  write("hyperparameters", "{}");
  channels(pipe, pipe);
  EXPECT_TRUE(contains(command(2), "--shard-by=host"));
  channels(part, part);
  EXPECT_FALSE(contains(command(2), "--shard-by=host"));
  channels(all, part);
  ASSERT_FALSE(job(2).invocation.problems.empty());
  EXPECT_NE(job(2).invocation.problems.errors()[0].message().find(
                "'train_0' and 'train_1' differ: files, FullyReplicated and files, ShardedByS3Key"),
            std::string::npos);
  write("inputdataconfig", R"({"train": )" + pipe + R"(, "validation": {}, "model": {}})");
  EXPECT_TRUE(contains(command(), "--shard-by=host"));
  write("inputdataconfig", kChannels);
  EXPECT_FALSE(contains(command(), "--shard-by=host")) << "rank 0 lists the files for all";
}

TEST_F(SageMaker, NamesChannelsThatNothingReads) {
  write("inputdataconfig",
        R"({"train": {}, "validation": {}, "model": {}, "extra": {}, "weights": {}})");
  write("hyperparameters", R"({"labels": ")" + data_ + R"(weights/labels.csv"})");
  const Words warnings = job().warnings;
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].starts_with("The channel 'extra' is not used.")) << warnings[0];
}

TEST_F(SageMaker, AParameterServerIsAnExchange) {
  write("hyperparameters", R"({"sagemaker_parameter_server_enabled": "true"})");
  EXPECT_TRUE(contains(command(), "--exchange=parameter-server"));
  write("hyperparameters", R"({"sagemaker_parameter_server_enabled": "false"})");
  EXPECT_FALSE(contains(command(), "--exchange=parameter-server"));
  EXPECT_NE(fault(R"({"sagemaker_parameter_server_enabled": "maybe"})").find("True or False"),
            std::string::npos);
}

TEST_F(SageMaker, ValidationImagesMayComeThroughAPipe) {
  write("inputdataconfig",
        R"({"train": {}, "validation": {"TrainingInputMode": "Pipe"}, "model": {}})");
  EXPECT_TRUE(contains(command(), "--valid-data-path=" + data_ + "validation_{epoch}"));
}

TEST_F(SageMaker, RefusesPipesOfOtherChannels) {
  write("inputdataconfig",
        R"({"train": {}, "validation": {}, "model": {"TrainingInputMode": "Pipe"}})");
  EXPECT_NE(fault().find("The channel 'model' uses Pipe mode"), std::string::npos);
  write("inputdataconfig", R"({"train": {"TrainingInputMode": "Pipe"}, "model": {}})");
  EXPECT_NE(fault().find("no channel 'validation'"), std::string::npos);
}

TEST_F(SageMaker, NeedsTheWholeModel) {
  write("inputdataconfig",
        R"({"train": {}, "validation": {}, "model": {"S3DistributionType": "ShardedByS3Key"}})");
  EXPECT_EQ(fault(), "no fault") << "one host has all";
  two_hosts();
  EXPECT_NE(fault().find("needs the complete model"), std::string::npos);
}

TEST_F(SageMaker, ReportsUnusedChannels) {
  write("inputdataconfig", R"({"train": {}, "training": {}, "valid": {}, "model": {}})");
  EXPECT_EQ(
      job().warnings,
      (Words{
          "The channel 'training' is ignored: --train-data-path comes from the channel 'train'."}));
}

TEST_F(SageMaker, NamesWhatIsMissing) {
  write("inputdataconfig", "{}");
  const std::string text = fault();
  for (const char* words : {"no channel 'train'", "no model to train"})
    EXPECT_NE(text.find(words), std::string::npos) << text;
  write("inputdataconfig", R"({"photos": {}, "validation": {}, "model": {}})");
  EXPECT_NE(fault().find("It has 'model', 'photos', 'validation'."), std::string::npos);
}

TEST_F(SageMaker, RefusesInvalidHosts) {
  const auto expect = [&](const std::string& text, const std::string& words) {
    write("resourceconfig", text);
    EXPECT_NE(fault().find(words), std::string::npos) << text << fault();
  };
  expect(
      R"({"current_host": "algo-3", "hosts": ["algo-1", "algo-2"]})",
      "names 'algo-3' as the current host, which is not one of the job's hosts: algo-1 or algo-2");
  expect(R"({"current_host": "a", "hosts": ["a", "a"]})", "lists the host 'a' twice");
  expect(R"({"current_host": "a", "hosts": ["a", 2]})", "lists 2 as a host");
  expect(R"({"current_host": "a", "hosts": ["a", "-oProxyCommand=touch x"]})",
         "lists \"-oProxyCommand=touch x\" as a host");
  expect(R"({"current_host": "a", "hosts": ["a", "b:9,c"]})", "lists \"b:9,c\" as a host");
  for (const char* text :
       {R"({"hosts": ["a"]})", R"({"current_host": "a"})", R"({"current_host": "a", "hosts": "a"})",
        R"({"current_host": "a", "hosts": []})"})
    expect(text, "does not list the hosts");
}

TEST_F(SageMaker, RefusesFilesThatAreBrokenOrMissing) {
  for (const std::string name : {"resourceconfig", "inputdataconfig", "hyperparameters"}) {
    const fs::path path = folder_ / ("input/config/" + name + ".json");
    const std::string whole = read_file(path);
    for (const char* text : {"", "{", "[]", "\"text\"", "{} {}"}) {
      write(name, text);
      EXPECT_NE(fault().find(name + ".json' is not a JSON object"), std::string::npos) << text;
    }
    fs::remove(path);
    EXPECT_NE(fault().find(name + ".json' cannot be read"), std::string::npos);
    write(name, whole);
  }
}

TEST_F(SageMaker, RefusesWrongHyperparameters) {
  const auto expect = [&](const std::string& hyperparameters, const std::string& words) {
    const std::string text = fault(hyperparameters);
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  expect(R"({"learning_rat": "1"})",
         "'learning_rat' is not a hyperparameter of kiln. Did you mean "
         "'learning-rate'?");
  expect(R"({"color": "1"})", "`kiln train --help all`");
  expect(R"({"epochs": "[1, 2]"})", "'epochs' is '[1, 2]', a list or an object");
  expect(R"({"epochs": {"a": 1}})", "'epochs' is a list or an object");
  expect(R"({"epochs": ""})", "--epochs is empty");
  expect(R"({"augment": "\"\""})", "--augment is empty");
  expect(R"({"learning_rate": "0.1", "learning-rate": "0.2"})", "--learning-rate is given twice");
  expect(R"({"train_data_path": "x"})", "the job's channels");
  expect(R"({"model-name": "resnet18"})", "the channel 'model' already provides one");
}

TEST_F(SageMaker, ReportsFaultsOfTheJobAndItsCommandTogether) {
  write("hyperparameters", R"({"epochs": "zero", "batchsize": "64"})");
  EXPECT_EQ(problems().errors().size(), 2U) << fault();
  EXPECT_NE(fault().find("Did you mean 'batch-size'?"), std::string::npos);
  EXPECT_NE(fault().find("--epochs is 'zero'"), std::string::npos);
  EXPECT_TRUE(job().command.empty());
  EXPECT_EQ(job().invocation.log_path, (folder_ / "output/data/logs").string());
}

TEST_F(SageMaker, ReportsEachFaultOnceWithoutItsConsequences) {
  write("inputdataconfig", R"({"photos": {}})");
  write("hyperparameters", R"({"model_name": "[1]", "random_seed": "x", "epochs": "0"})");
  const std::vector<Error> all = problems().errors();
  EXPECT_EQ(all.size(), 4U) << fault();  // the channel, model_name, random_seed, epochs
  EXPECT_EQ(exit_code(all.back().code()), 1);
  write("inputdataconfig", R"({"train": {}, "validation": {}})");
  write("hyperparameters", R"({"model_name": "resnet18", "random_seed": "x"})");
  EXPECT_EQ(problems().errors().size(), 1U) << fault() << "it is an option of both commands";
  two_hosts();
  write("hyperparameters", R"({"model_name": "resnet18", "ranks": "2", "epochs": "0"})");
  EXPECT_EQ(problems().errors().size(), 2U) << fault();
}

}  // namespace
}  // namespace kiln
