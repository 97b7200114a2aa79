#include "cli/command_line.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "cli/options.h"
#include "cli/parse.h"

namespace kiln {
namespace {

TEST(CommandLine, CompareTakesAnyNumberOfRuns) {
  const auto compare =
      parse_as<CompareConfig>({"compare", "a", "--log-path", "b", "--output-path", "x", "c"});
  EXPECT_EQ(compare.log_paths, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(compare.output_path, "x");
  EXPECT_EQ(parse_as<CompareConfig>({"compare", "a", "b"}).output_path, "compare.html");
  EXPECT_NE(fault({"compare"}).find("--log-path"), std::string::npos);
  EXPECT_NE(fault({"compare", "a"}).find("at least two"), std::string::npos);
  EXPECT_NE(fault({"compare", "a", "b", "--output-path", "x", "--output-path", "y"}).find("twice"),
            std::string::npos);
}

TEST(CommandLine, TrainHasTheDesignersDefaults) {
  const auto config = parse_as<TrainConfig>(train());
  EXPECT_EQ(config.data.untrained_model_path, "u");
  EXPECT_EQ(config.data.train_path, "t");
  EXPECT_EQ(config.data.valid_path, "v");
  EXPECT_EQ(config.output.trained_model_path, "o");
  EXPECT_EQ(config.optimization.epochs, 5);
  EXPECT_EQ(config.optimization.batch_size, 16);
  EXPECT_EQ(config.optimization.num_warmup_steps, 0);
  EXPECT_DOUBLE_EQ(config.optimization.learning_rate, 0.001);
  EXPECT_EQ(config.optimization.random_seed, 1);
  EXPECT_EQ(config.optimization.patience, 3);
  EXPECT_EQ(config.output.print_freq, 10);
  EXPECT_EQ(config.data.image_size, ImageSize());
  EXPECT_EQ(config.data.normalization, NormalizationChoice::kAuto);
  EXPECT_EQ(config.data.on_bad_image, OnBadImage::kSkip);
  EXPECT_TRUE(config.data.max_bad_images.is_share);
  EXPECT_EQ(config.data.loader_threads, 0);
  EXPECT_EQ(config.ranks.threads, 0);
  EXPECT_EQ(config.ranks.device, DeviceChoice::kAuto);
  EXPECT_EQ(config.optimization.save, SaveChoice::kBest);
  EXPECT_EQ(config.optimization.precision, Precision::kFp32);
  EXPECT_EQ(config.output.log_path, "logs");
  EXPECT_FALSE(config.settings.is_given("log-path"));
}

TEST(CommandLine, TakesEveryTrainOption) {
  const auto config = parse_as<TrainConfig>(train({"--epochs",
                                                   "7",
                                                   "--batch-size=32",
                                                   "--num_warmup_steps",
                                                   "9",
                                                   "--learning-rate",
                                                   "1e-2",
                                                   "--random-seed",
                                                   "-4",
                                                   "--patience",
                                                   "2",
                                                   "--print_freq=1",
                                                   "--image-size",
                                                   "224",
                                                   "--normalization",
                                                   "half",
                                                   "--on-bad-image",
                                                   "fail",
                                                   "--max-bad-images",
                                                   "12",
                                                   "--loader-threads",
                                                   "3",
                                                   "--threads",
                                                   "4",
                                                   "--device=CPU",
                                                   "--save",
                                                   "last",
                                                   "--log-path",
                                                   "l"}));
  EXPECT_EQ(config.optimization.epochs, 7);
  EXPECT_EQ(config.optimization.batch_size, 32);
  EXPECT_EQ(config.optimization.num_warmup_steps, 9)
      << "more warm-up epochs than epochs are allowed";
  EXPECT_DOUBLE_EQ(config.optimization.learning_rate, 0.01);
  EXPECT_EQ(config.optimization.random_seed, -4);
  EXPECT_EQ(config.optimization.patience, 2);
  EXPECT_EQ(config.output.print_freq, 1);
  EXPECT_EQ(config.data.image_size, (ImageSize{224, 224}));
  EXPECT_EQ(config.data.normalization, NormalizationChoice::kHalf);
  EXPECT_EQ(config.data.on_bad_image, OnBadImage::kFail);
  EXPECT_EQ(config.data.max_bad_images.of(1000), 12);
  EXPECT_EQ(config.data.loader_threads, 3);
  EXPECT_EQ(config.ranks.threads, 4);
  EXPECT_EQ(config.ranks.device, DeviceChoice::kCpu);
  EXPECT_EQ(config.optimization.save, SaveChoice::kLast);
  EXPECT_EQ(config.output.log_path, "l");
  EXPECT_TRUE(config.settings.is_given("log-path"));
}

TEST(CommandLine, EffectiveOptionsListEveryOptionOnce) {
  const auto config = parse_as<TrainConfig>(train({"--epochs", "7"}));
  const OptionTexts texts = config.settings.texts();
  const std::map<std::string, std::string> used(texts.begin(), texts.end());
  const CommandInfo& command = *find_command("train");
  EXPECT_EQ(texts.size(), command.options.size());
  for (const Option& option : command.options) EXPECT_TRUE(used.contains(option.name));
  EXPECT_EQ(used.at("epochs"), "7");
  EXPECT_EQ(used.at("learning-rate"), "0.001");
  EXPECT_EQ(used.at("log-path"), "logs");
}

TEST(CommandLine, UnknownOptionsGetASuggestion) {
  ErrorCode code{};
  const std::string text = fault(train({"--epoch", "7"}), &code);
  EXPECT_EQ(text, "--epoch is not an option of `kiln train`. Did you mean '--epochs'?");
  EXPECT_EQ(code, ErrorCode::kParameterParsing);
  EXPECT_NE(fault(train({"--batchsize=7"})).find("'--batch-size'"), std::string::npos);
  EXPECT_EQ(fault(train({"--color", "red"})),
            "--color is not an option of `kiln train`. `kiln train --help all` lists them.");
}

TEST(CommandLine, NamesOfOtherTrainersAreKnown) {
  EXPECT_EQ(fault({"train", "--model", "resnet50", "--data-dir", "t", "--lr=0.1", "--out", "o"}),
            "--model, --data-dir, --lr, --out are another program's: type `kiln train --model-name "
            "resnet50 t --learning-rate 0.1 --run-path o`.");
  const CommandInfo &training = *find_command("train"), &packing = *find_command("pack"),
                    &creation = *find_command("init-model");
  EXPECT_EQ(meant_option(training, "bs"), "batch-size");
  EXPECT_EQ(meant_option(training, "amp"), "precision");
  EXPECT_EQ(meant_option(training, "num_workers"), "loader-threads");
  EXPECT_EQ(meant_option(training, "out"), "run-path");
  EXPECT_EQ(meant_option(packing, "out"), "output-path");
  EXPECT_EQ(meant_option(packing, "lr"), "");
  EXPECT_EQ(meant_option(creation, "model"), "model-name");
}

TEST(CommandLine, PathsMayStandBare) {
  const auto pack = parse_as<PackConfig>({"pack", "small/train", "sp", "--shuffle"});
  EXPECT_EQ(pack.input_path, "small/train");
  EXPECT_EQ(pack.output_path, "sp");
  EXPECT_TRUE(pack.shuffle);
  EXPECT_EQ(parse_as<PackConfig>({"pack", "--shuffle", "in", "out"}).input_path, "in");
  EXPECT_EQ(parse_as<PackConfig>({"pack", "--output-path", "sp", "in"}).input_path, "in");
  EXPECT_EQ(parse_as<ConvertConfig>({"convert", "in", "out"}).output_path, "out");
  EXPECT_EQ(parse_as<DemoDataConfig>({"demo-data", "small"}).output_path, "small");
  EXPECT_NE(fault({"pack", "in", "out", "more"}).find("'more' is not expected"), std::string::npos);
  EXPECT_NE(fault({"pack", "in"}).find("--output-path"), std::string::npos);
}

TEST(CommandLine, AMistypedRequiredOptionIsNotCalledMissingToo) {
  EXPECT_EQ(fault({"convert", "--input-pth", "a", "--output-path", "b"}),
            "--input-pth is not an option of `kiln convert`. Did you mean '--input-path'?");
}

TEST(CommandLine, MissingEmptyAndRepeatedValuesAreFaults) {
  for (const Option& option : find_command("train")->options) {
    const std::string flag = "--" + option.name;
    // The four paths are already there, so this repeats them.
    const Words there = train();
    if (std::ranges::find(there, flag) != there.end()) {
      EXPECT_NE(fault(train({flag, "x"})).find(flag + " is given twice"), std::string::npos);
      continue;
    }
    if (option.kind == ValueKind::kSwitch || option.kind == ValueKind::kFlag) continue;
    ErrorCode code{};
    EXPECT_NE(fault(train({flag}), &code).find(flag + " needs a value"), std::string::npos);
    EXPECT_EQ(exit_code(code), 2);
    const std::vector<Error> followed = faults(train({flag, "--epochs", "1"}));
    ASSERT_FALSE(followed.empty());
    EXPECT_NE(followed[0].message().find(flag + " needs a value"), std::string::npos);
    for (const Words& empty : {Words{flag + "="}, Words{flag, ""}}) {
      EXPECT_NE(fault(train(empty), &code).find(flag + " is empty, but must be"),
                std::string::npos);
      EXPECT_EQ(exit_code(code), 2);
    }
    const std::string value = option.default_text.empty() ? "/dev/null" : option.default_text;
    EXPECT_NE(fault(train({flag, value, flag + "=" + value}), &code).find("is given twice"),
              std::string::npos);
    EXPECT_EQ(exit_code(code), 2);
  }
}

TEST(CommandLine, EmptyRequiredPathIsAFault) {
  EXPECT_EQ(fault({"convert", "--input-path", "", "--output-path", "b"}),
            "--data-path is empty, but must be a path.");
}

TEST(CommandLine, TheCenterCropFitsInTheResizedImage) {
  EXPECT_EQ(fault(train({"--eval-resize", "200", "--eval-crop", "224"})),
            "--eval-resize is 200, smaller than the center crop of 224 pixels: use --eval-resize "
            "224 or more, or a smaller --eval-crop.");
  EXPECT_NE(fault(train({"--eval-resize", "200", "--image-size", "224"})), "no fault");
  EXPECT_EQ(fault(train({"--eval-resize", "200", "--eval-crop", "200", "--image-size", "224"})),
            "no fault");
  EXPECT_EQ(faults(train({"--eval-resize", "200", "--eval-crop", "224", "--epochs", "0"})).size(),
            2U);
}

TEST(CommandLine, AllFaultsAreReportedTogetherParsingFirst) {
  const std::vector<Error> all =
      faults({"train", "--epochs", "0", "--color", "red", "--batch-size", "two", "stray",
              "--untrained-model-path", "u", "--train-data-path", "t", "--patience", "-1"});
  ASSERT_EQ(all.size(), 6u);
  EXPECT_TRUE(all[0].message().starts_with("--color is not an option"));
  EXPECT_EQ(all[1].message(), "--batch-size is 'two', but must be auto or an integer.");
  EXPECT_TRUE(all[2].message().starts_with("'stray' "));
  EXPECT_TRUE(all[3].message().starts_with("--valid-data-path DIR is missing"));
  EXPECT_TRUE(all[4].message().starts_with("--epochs is 0"));
  EXPECT_TRUE(all[5].message().starts_with("--patience is -1"));
  EXPECT_EQ(exit_code(all[3].code()), 2);
  EXPECT_EQ(exit_code(all[4].code()), 1);
}

TEST(CommandLine, EveryMissingPathIsReported) {
  EXPECT_EQ(faults({"train"}).size(), 2u) << "the network and the output have defaults";
  EXPECT_EQ(faults({"convert"}).size(), 2u);
  EXPECT_EQ(faults({"demo-data"}).size(), 1u);
  EXPECT_EQ(faults({"inspect"}).size(), 1u);
  EXPECT_EQ(faults({"init-model"}).size(), 2u);
}

TEST(CommandLine, UnknownCommandsAreFaults) {
  for (const Words& words :
       {Words{"--version"}, Words{"-V"}, Words{"version"}, Words{"help", "version"}})
    EXPECT_TRUE(std::holds_alternative<VersionRequest>(parse_command_line(words).command));
  EXPECT_EQ(fault({"trian"}), "'trian' is not a command of kiln. Did you mean 'train'?");
  for (const char* word : {"predict", "classify", "infer"})
    EXPECT_NE(fault({word}).find("`kiln score`"), std::string::npos) << word;
  for (const char* word : {"test", "eval", "val", "validate"})
    EXPECT_NE(fault({word}).find("`kiln evaluate`"), std::string::npos) << word;
  EXPECT_NE(
      fault({"zebra"}).find(
          "train, score, serve, evaluate, audit, embed, select, export, launch, tune, init-model, "
          "convert, split, transform init, transform apply, "
          "pack, demo-data, inspect, report, compare or describe"),
      std::string::npos);
  EXPECT_FALSE(parse_as<HelpRequest>({}).asked_for);
  EXPECT_NE(fault({"--epochs", "5"}).find("precedes the command"), std::string::npos);
  EXPECT_NE(fault({"watch", "logs"}).find("report.html"), std::string::npos);
}

TEST(CommandLine, OtherCommandsTakeTheirOptions) {
  const auto convert =
      parse_as<ConvertConfig>({"convert", "--input_path=a b", "--output-path", "ü"});
  EXPECT_EQ(convert.input_path, "a b");
  EXPECT_EQ(convert.output_path, "ü");
  const auto demo = parse_as<DemoDataConfig>(
      {"demo-data", "--output-path", "d", "--classes=4", "--images", "80", "--size", "16"});
  EXPECT_EQ(demo.output_path, "d");
  EXPECT_EQ(demo.images, 80);
  EXPECT_EQ(demo.classes, 4);
  EXPECT_EQ(demo.size, 16);
  EXPECT_EQ(demo.random_seed, 1);
  const auto inspect = parse_as<InspectConfig>({"inspect", "--json", "dir", "--check"});
  EXPECT_EQ(inspect.path, "dir");
  EXPECT_TRUE(inspect.json);
  EXPECT_TRUE(inspect.check);
  EXPECT_EQ(parse_as<InspectConfig>({"inspect", "--", "--odd"}).path, "--odd");
  const auto report = parse_as<ReportConfig>({"report", "logs"});
  EXPECT_EQ(report.log_path, "logs");
  EXPECT_EQ(report.output_path, "");
  EXPECT_NE(fault({"report", "a", "b"}).find("'b' is not expected"), std::string::npos);
  EXPECT_NE(fault({"inspect", "a", "b"}).find("'b' is not expected here"), std::string::npos);
  EXPECT_NE(fault({"inspect", "a", "--json=1"}).find("takes no value"), std::string::npos);
}

TEST(CommandLine, OutputsMustNotBeInputs) {
  for (const std::string output : {"t", "./t/", "x/../t", "t/model", "."}) {
    ErrorCode code{};
    const auto all =
        faults({"train", "--untrained-model-path", "/u", "--train-data-path", "t",
                "--valid-data-path", "/v", "--log-path", "/l", "--trained-model-path", output});
    ASSERT_EQ(all.size(), 1u) << output;
    code = all[0].code();
    EXPECT_EQ(code, ErrorCode::kParameterParsing);
    EXPECT_NE(all[0].message().find("--train-data-path 't'"), std::string::npos);
  }
  EXPECT_TRUE(faults(train({"--log-path", "output"})).empty()) << "'o' is no parent of 'output'";
  EXPECT_NE(fault(train({"--log-path", "o/logs"})).find("is inside --trained-model-path"),
            std::string::npos);
  EXPECT_NE(fault({"convert", "--input-path", "a", "--output-path", "a/b"}).find("is inside"),
            std::string::npos);
}

TEST(CommandLine, PicturesOfMistakesHaveAFolderOfTheirOwn) {
  EXPECT_EQ(parse_as<TrainConfig>(train()).output.explain, "");
  EXPECT_EQ(parse_as<TrainConfig>(train({"--explain=logs/maps"})).output.explain, "logs/maps");
  for (const char* folder : {"u", "t/below", "v", "o", "o/maps", "c/maps", "logs"}) {
    const std::string message =
        fault(train({"--checkpoint-path=c", std::string("--explain=") + folder}));
    EXPECT_TRUE(message.starts_with("--explain '")) << message;
  }
  EXPECT_EQ(faults(train({"--explain=."})).size(), 5u);  // it contains inputs, model and logs
}

TEST(CommandLine, TheLogPathIsKnownDespiteFaults) {
  EXPECT_EQ(log_path({"train", "--color", "red", "--log-path", "here"}), "here");
  EXPECT_EQ(log_path({"train", "--log-path="}), "logs");
  EXPECT_EQ(log_path({"train", "--log-path", "{{$.outputs.log}}"}), "logs");
}

TEST(CommandLine, ACopyTakesThePlaceOfABucket) {
  const Words words = {"train", "s3://b/photos", "--weights=gs://c/w.pth", "--cache-path=here"};
  const Invocation asked = parse_command_line(words);
  EXPECT_TRUE(asked.problems.empty()) << asked.problems.what();
  EXPECT_EQ(asked.buckets, (Words{"s3://b/photos", "gs://c/w.pth"}));
  EXPECT_EQ(asked.cache_path, "here");
  const Invocation copied = parse_command_line(
      asked.arguments, {{"s3://b/photos", "copies/photos"}, {"gs://c/w.pth", "copies/w.pth"}});
  EXPECT_EQ(copied.buckets, Words());
  const auto& config = std::get<TrainConfig>(copied.command);
  EXPECT_EQ(config.data.train_path, "copies/photos");
  EXPECT_EQ(config.data.network.weights, "copies/w.pth");
  EXPECT_EQ(config.settings.text("data-path"), "s3://b/photos") << "what repeats it";
  EXPECT_EQ(config.settings.text("weights"), "gs://c/w.pth");
  EXPECT_EQ(parse_command_line({"launch", "--ranks=2", "--", "train", "s3://b/x"}).buckets, Words())
      << "the ranks copy it";
  EXPECT_EQ(parse_command_line({"tune", "--", "train", "s3://b/x"}).buckets, Words{"s3://b/x"});
}

TEST(CommandLine, LogPathIsGivenWhereItIsOneThatCanBeWrittenTo) {
  const auto given = [](const Words& words) { return parse_command_line(words).is_log_path_asked; };
  EXPECT_TRUE(given({"train", "--color", "red", "--log-path", "here"}));
  EXPECT_TRUE(given({"train", "--color", "red", "--log-path", "logs"}));
  EXPECT_FALSE(given({"train", "--color", "red"}));
  EXPECT_FALSE(given({"train", "--log-path="}));
  EXPECT_FALSE(given({"train", "--log-path", "{{$.outputs.log}}"}));
  EXPECT_TRUE(given({"launch", "--ranks=2", "--log-path", "here", "--", "train", "--epochs=x"}));
  EXPECT_FALSE(given({"launch", "--ranks=2", "--", "train", "--epochs=x"}));
}

TEST(CommandLine, OnlyTrainingOwesAnErrorInfo) {
  EXPECT_EQ(log_path(train()), "logs");
  EXPECT_EQ(log_path(train({"--log-path", "o/logs"})), "") << "it would lie in the output";
  for (const Words& words : {Words{"train", "--help"}, Words{"report", "logs"}, Words{"trian"},
                             Words{"--version"}, Words{}})
    EXPECT_EQ(log_path(words), "");
}

TEST(CommandLine, AFaultIsReportedOnce) {
  EXPECT_EQ(faults(train({"--shard-by", "sex"})).size(), 1u);
}

TEST(CommandLine, UnfilledPipelinePlaceholdersAreRefused) {
  for (const char* text : {"{{$.inputs.parameters['epochs']}}", R"({"IfPresent": {}})"}) {
    ErrorCode code{};
    EXPECT_NE(fault(train({"--epochs", text}), &code).find("did not fill in"), std::string::npos);
    EXPECT_EQ(code, ErrorCode::kParameterParsing);
  }
}

TEST(CommandLine, HostileArgumentsAreFaults) {
  EXPECT_NE(fault(train({std::string("--") + std::string(100000, 'e')})).find("is not an option"),
            std::string::npos);
  EXPECT_NE(fault(train({"-epochs", "3"})).find("'-epochs' is not an option"), std::string::npos);
  EXPECT_NE(fault(train({"--=5"})), "no fault");
  EXPECT_NE(fault(train({"--epochs=1=2"})).find("'1=2'"), std::string::npos);
}

TEST(CommandLine, WordsAreSplitAsTheyStand) {
  for (const char* odd : {"-b", "--odd=1", "--"})
    EXPECT_EQ(parse_as<InspectConfig>({"inspect", "--", odd}).path, odd);
  EXPECT_EQ(parse_as<ScoreConfig>({"score", "--files-from", "-"}).files_from, "-");
  EXPECT_EQ(parse_as<InspectConfig>({"inspect", "@me.jpg"}).path, "@me.jpg");
  EXPECT_EQ(parse_as<InspectConfig>({"inspect", "--check", "photos"}).path, "photos");
  EXPECT_EQ(parse_as<TrainConfig>(train({"--random_seed", "-7"})).optimization.random_seed, -7);
  EXPECT_NE(fault(train({"--epoch", "3"})).find("Did you mean '--epochs'?"), std::string::npos);
  EXPECT_NE(fault(train({"--epochs", "--", "3"})).find("--epochs needs a value"),
            std::string::npos);
}

TEST(CommandLine, ABooleanMayBeADigit) {
  EXPECT_TRUE(parse_as<TrainConfig>(train({"--sync-batch-norm", "1"})).ranks.sync_batch_norm);
  EXPECT_FALSE(parse_as<TrainConfig>(train({"--sync-batch-norm", "0"})).ranks.sync_batch_norm);
  EXPECT_TRUE(parse_as<TrainConfig>(train({"--deterministic"})).ranks.deterministic);
  EXPECT_FALSE(parse_as<TrainConfig>(train({})).ranks.deterministic);
  EXPECT_NE(fault(train({"--sync-batch-norm", "2"})).find("must be True or False"),
            std::string::npos);
}

TEST(CommandLine, PrecisionIsAWordOrAuto) {
  const auto precision = [](const char* word) {
    return parse_as<TrainConfig>(train({"--precision", word})).optimization.precision;
  };
  EXPECT_EQ(precision("fp32"), Precision::kFp32);
  EXPECT_EQ(precision("tf32"), Precision::kTf32);
  EXPECT_EQ(precision("fp16"), Precision::kFp16);
  EXPECT_EQ(precision("bf16"), Precision::kBf16);
  EXPECT_EQ(precision("auto"), std::nullopt);
  EXPECT_NE(fault(train({"--precision", "fp8"})), "no fault");
}

TEST(CommandLine, AChoiceMayHaveUnderscores) {
  EXPECT_EQ(parse_as<DescribeConfig>({"describe", "--format", "sagemaker_metrics"}).format,
            "sagemaker-metrics");
}

TEST(CommandLine, FormatsThatBecameFilesAreNamed) {
  for (const auto& [format, file] : {std::pair{"man", "share/man/man1/kiln.1"},
                                     {"bash", "share/bash-completion/completions/kiln"},
                                     {"zsh", "share/zsh/site-functions/_kiln"},
                                     {"fish", "share/fish/vendor_completions.d/kiln.fish"},
                                     {"json-schema", "share/kiln/train.schema.json"},
                                     {"component", "components/"},
                                     {"kubeflow", "components/kubeflow/"},
                                     {"markdown", "docs/options.md"}})
    EXPECT_NE(fault({"describe", "--format", format}).find(file), std::string::npos) << format;
  EXPECT_NE(fault({"man"}).find("share/man/man1/kiln.1"), std::string::npos);
  EXPECT_NE(fault({"completion", "zsh"}).find("share/zsh/site-functions/_kiln"), std::string::npos);
  EXPECT_NE(fault({"completions"}).find("share/bash-completion"), std::string::npos);
}

TEST(CommandLine, LongValuesAreShortenedInMessages) {
  const std::string word(100'000, 'x'), number(100'000, '9');
  for (const Words& more :
       {Words{"--epochs", word}, Words{"--epochs", number}, Words{"--augment", word},
        Words{"--" + word, "1"}, Words{word}, Words{"--epochs", "1", "--epochs", word}})
    EXPECT_LT(fault(train(more)).size(), 400U);
}

}  // namespace
}  // namespace kiln
