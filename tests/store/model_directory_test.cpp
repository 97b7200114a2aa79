#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/output_folder.h"
#include "base/system_calls.h"
#include "sample_states.h"
#include "store/model_directory.h"
#include "store/state_dict_file.h"

namespace kiln {
namespace {

const Calibration kFitted{4.0 / 3, {{0.25, 3, 2}, {0.8, 100, 90}, {1 - 1e-7, 5, 5}}};

void expect_model_fault(const std::string& json, const std::string& part) {
  try {
    parse_calibration(json, "folder/calibration.json");
    ADD_FAILURE() << "no fault: " << json;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModelDirectory);
    EXPECT_NE(error.message().find("'folder/calibration.json'"), std::string::npos);
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

std::string with_answers(const std::string& answers) {
  return R"({"version": 1, "temperature": 1, "answers": )" + answers + "}";
}

TEST(CalibrationFile, ReadsWhatItWrites) {
  for (const Calibration& written : {kFitted, Calibration{}})
    EXPECT_EQ(parse_calibration(format_calibration(written), "x"), written);
}

TEST(CalibrationFile, OfSeveralLabelsHasEachClass) {
  Calibration several;
  several.labels = {{1.5, 0.25, {{0.5, 3, 2}}}, {1, 0.5}};
  const std::string json = format_calibration(several);
  EXPECT_EQ(parse_calibration(json, "x"), several);
  EXPECT_EQ(json, "{\"version\":2,\"classes\":[[1.5,0.25,[[0.5,3,2]]],[1.0,0.5,[]]]}\n");
  for (const char* bad :
       {R"({"version": 2, "classes": []})", R"({"version": 2, "classes": [[1]]})",
        R"({"version": 2, "classes": [[1, 2, []]]})", R"({"version": 2, "classes": [[0, 1, []]]})",
        R"({"version": 2, "classes": [[1, 0.5]]})",
        R"({"version": 2, "classes": [[1e-300, 0.5, []]]})",
        R"({"version": 2, "classes": [[1, 0.5, [[0.5, 2, 3]]]]})"})
    EXPECT_THROW(parse_calibration(bad, "x"), Error) << bad;
}

TEST(CalibrationFile, HasTheFormatOfItsHeader) {
  const std::string json = R"({"version": 1, "temperature": 1.25, "answers": [[0.5, 3, 2]]})";
  EXPECT_EQ(parse_calibration(json, "x"), (Calibration{1.25, {{0.5, 3, 2}}}));
}

TEST(CalibrationFile, FaultsNameTheKeyAndWhatWasFound) {
  expect_model_fault("[]", "not a JSON object");
  expect_model_fault(R"({"version": 3})", "its version is 3");
  expect_model_fault(R"({"version": 1, "answers": []})", "'temperature' is missing");
  expect_model_fault(R"({"version": 1, "temperature": 1})", "'answers' is missing");
  expect_model_fault(R"({"version": 1, "temperature": 1, "answers": [], "more": 1})",
                     "'more' is unknown");
  for (const std::string value : {"0", "-1", "1e7", "1e-7", "1e-300", "null", "\"1\""})
    expect_model_fault(R"({"version": 1, "answers": [], "temperature": )" + value + "}",
                       "'temperature' is");
  expect_model_fault(with_answers("{}"), "'answers' is {}");
  for (const std::string bin : {"[0.5, 3]", "[1.5, 3, 2]", "[-0.5, 3, 2]", "[0.5, 3, 4]",
                                "[0.5, -3, -4]", "[0.5, 3.5, 2]", "[0.5, 9999999999999, 2]", "7"})
    expect_model_fault(with_answers("[" + bin + "]"), "'answers' has " + bin.substr(0, 2));
  expect_model_fault(with_answers("[[0.5, 3, 2], [0.5, 3, 2]]"), "'answers' has");
}

namespace fs = std::filesystem;

class ModelDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / ("kiln-" + std::to_string(::getpid()) + test->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.insert(entry.path().filename());
    return found;
  }

  fs::path folder_;
};

ModelSpec resnet() {
  ModelSpec spec;
  spec.model_name = "resnet18";
  return spec;
}

TrainedModel trained() {
  TrainedModel model{resnet(),
                     sample_state(),
                     {"cat", "dog"},
                     {Exif::kApply, 224, 224, 256, true, {}},
                     {1.5, {{0.5, 3, 2}}},
                     "{}",
                     "[]",
                     "{\"a\": 1}"};
  model.spec.num_classes = 2;
  return model;
}

template <typename Act>
void expect_error(ErrorCode code, const std::string& part, const Act& act) {
  try {
    act();
    ADD_FAILURE() << "no error with " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST_F(ModelDirectoryTest, RoundTripsAnUntrainedModel) {
  write_directory(OutputFolder(folder_), untrained_model_files(resnet(), sample_state()));
  EXPECT_EQ(names(), (std::set<std::string>{"_meta.yaml", "model", "model_spec.yaml"}));
  EXPECT_EQ(read_file(folder_ / "_meta.yaml"),
            "type: ModelDirectory\nextension: {}\nmodel: model_spec.yaml\n");
  const ModelDirectory read = read_model_directory(folder_);
  EXPECT_EQ(read.spec.model_name, "resnet18");
  EXPECT_EQ(read.state.size(), sample_state().size());
  EXPECT_TRUE(read.labels.empty());
}

TEST_F(ModelDirectoryTest, TrainedReplacesUntrainedAndBack) {
  write_directory(OutputFolder(folder_), untrained_model_files(resnet(), sample_state()));
  prepare_model_output(folder_);
  write_directory(OutputFolder(folder_), trained_model_files(trained()));
  EXPECT_EQ(names(), (std::set<std::string>{"_meta.yaml", "_samples.json", "_schema.json",
                                            "calibration.json", "index_to_label.csv", "model",
                                            "model.safetensors", "model_spec.yaml",
                                            "preprocessing.json", "training.json"}));
  const ModelDirectory read = read_model_directory(folder_);
  EXPECT_EQ(read.labels, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(read.preprocessing, trained().preprocessing);
  EXPECT_EQ(read.calibration, trained().calibration);
  EXPECT_EQ(read.spec.normalization, trained().preprocessing.normalization);
  EXPECT_TRUE(read_file(folder_ / "_meta.yaml")
                  .ends_with("registerModel: true\nmodelOutputPath: trained_model_outputs\n"));
  write_directory(OutputFolder(folder_), untrained_model_files(resnet(), sample_state()));
  EXPECT_EQ(names(), (std::set<std::string>{"_meta.yaml", "model", "model_spec.yaml"}));
}

// Written by other programs and older versions.
TEST_F(ModelDirectoryTest, PreprocessingMayBeMissing) {
  write_directory(OutputFolder(folder_), trained_model_files(trained()));
  fs::remove(folder_ / "preprocessing.json");
  const ModelDirectory read = read_model_directory(folder_);
  EXPECT_FALSE(read.preprocessing);
  EXPECT_EQ(read.spec.normalization, Normalization{});
}

TEST_F(ModelDirectoryTest, WithoutACalibrationTheTemperatureIsOne) {
  write_directory(OutputFolder(folder_), trained_model_files(trained()));
  fs::remove(folder_ / "calibration.json");
  EXPECT_EQ(read_model_directory(folder_).calibration, Calibration{});
  EXPECT_EQ(Calibration{}.temperature, 1);
  put("calibration.json", std::string(kMaxCalibrationBytes + 1, ' '));
  expect_error(ErrorCode::kInvalidModelDirectory, "larger than",
               [&] { read_model_directory(folder_); });
}

TEST_F(ModelDirectoryTest, OfSeveralLabelsNeedsTheirThresholds) {
  TrainedModel model = trained();
  model.spec.task = TaskKind::kMultiLabel;
  model.calibration = {};
  model.calibration.labels = {{2, 0.25}, {1, 0.5}};
  write_directory(OutputFolder(folder_), trained_model_files(model));
  EXPECT_EQ(read_model_directory(folder_).calibration, model.calibration);
  fs::remove(folder_ / "calibration.json");
  expect_error(ErrorCode::kInvalidModelDirectory, "calibration.json",
               [&] { read_model_directory(folder_); });
  model.calibration.labels.pop_back();
  write_directory(OutputFolder(folder_), trained_model_files(model));
  expect_error(ErrorCode::kInvalidModelDirectory, "calibration.json",
               [&] { read_model_directory(folder_); });
}

TEST_F(ModelDirectoryTest, SeenImagesAreThereIfTheyWereGiven) {
  const SeenImages seen{{1, 2}, {3}};
  TrainedModel model = trained();
  model.seen_images = seen;
  write_directory(OutputFolder(folder_), trained_model_files(model));
  EXPECT_EQ(read_model_directory(folder_).seen_images, seen);
  put("seen_images.bin", pack_seen_images(seen).substr(1));
  expect_error(ErrorCode::kInvalidModelDirectory, "seen_images.bin",
               [&] { read_model_directory(folder_); });
  prepare_model_output(folder_);
  write_directory(OutputFolder(folder_), trained_model_files(trained()));
  EXPECT_FALSE(names().contains("seen_images.bin"));
  EXPECT_FALSE(read_model_directory(folder_).seen_images);
}

TEST_F(ModelDirectoryTest, DamagedPreprocessingIsNamed) {
  write_directory(OutputFolder(folder_), trained_model_files(trained()));
  const auto read = [&] { read_model_directory(folder_); };
  Preprocessing other = trained().preprocessing;
  other.normalization.mean[2] = 0.4;
  put("preprocessing.json", format_preprocessing(other));
  expect_error(ErrorCode::kInvalidModelDirectory, "a different mean or std", read);
  put("preprocessing.json", "{}");
  expect_error(ErrorCode::kInvalidModelDirectory, "preprocessing.json", read);
  put("preprocessing.json", std::string(70000, ' '));
  expect_error(ErrorCode::kInvalidModelDirectory, "larger than", read);
  fs::remove(folder_ / "preprocessing.json");
  fs::create_directory(folder_ / "preprocessing.json");
  expect_error(ErrorCode::kInvalidModelDirectory, "preprocessing.json", read);
}

TEST_F(ModelDirectoryTest, FailureLeavesTheEarlierModelValid) {
  write_directory(OutputFolder(folder_), untrained_model_files(resnet(), sample_state()));
  std::vector<OutputFile> files = trained_model_files(trained());
  files.push_back({"model_spec.yaml/below-a-file", "x"});
  EXPECT_THROW(write_directory(OutputFolder(folder_), files), Error);
  EXPECT_EQ(names(), (std::set<std::string>{"_meta.yaml", "model", "model_spec.yaml"}));
  EXPECT_FALSE(read_model_directory(folder_).spec.num_classes);
}

TEST_F(ModelDirectoryTest, PrepareCreatesFoldersAndRemovesLeftovers) {
  const fs::path deep = folder_ / "a" / "b";
  prepare_model_output(deep);
  EXPECT_TRUE(fs::is_directory(deep));
  EXPECT_TRUE(fs::is_empty(deep));
  fs::remove_all(folder_ / "a");
  put(".kiln-tmp-model-1", "x");
  put(".hidden", "x");
  fs::create_directory(folder_ / "lost+found");
  prepare_model_output(folder_);
  EXPECT_EQ(names(), (std::set<std::string>{".hidden", "lost+found"}));
}

TEST_F(ModelDirectoryTest, PartsWithoutMetaMayBeSomebodyElses) {
  write_directory(OutputFolder(folder_), untrained_model_files(resnet(), sample_state()));
  fs::remove(folder_ / "_meta.yaml");
  expect_error(ErrorCode::kFailedToWriteOutputs, "'model', 'model_spec.yaml'",
               [&] { prepare_model_output(folder_); });
  expect_error(ErrorCode::kInvalidModelDirectory, "no _meta.yaml",
               [&] { read_model_spec(folder_); });
}

TEST_F(ModelDirectoryTest, AKillAnywhereLosesNeitherModel) {
  int num_old = 0, num_new = 0;
  for (int calls = 0;; ++calls) {
    fs::remove_all(folder_);
    write_directory(OutputFolder(folder_), untrained_model_files(resnet(), sample_state()));
    const std::set<std::string> of_old = names();
    const auto save = [&] {
      write_directory(OutputFolder(folder_), trained_model_files(trained()));
    };
    if (!test::is_killed_after(calls, save)) break;
    std::set<std::string> found = names();
    std::erase_if(found, [](const std::string& name) { return name.starts_with('.'); });
    if (found.contains("_meta.yaml")) {
      EXPECT_TRUE(found == of_old || found.size() == 10) << "other programs see one model";
    }
    const bool is_new = read_model_directory(folder_).spec.num_classes.has_value();
    ++(is_new ? num_new : num_old);
    prepare_model_output(folder_);
    EXPECT_EQ(names().size(), is_new ? 10U : 3U) << "leftovers are removed";
  }
  EXPECT_GT(num_old, 9);
  EXPECT_GT(num_new, 9);
}

// Another run's, with all that can differ.
TrainedModel other_trained() {
  TrainedModel model = trained();
  model.state[0].bytes[0] = 'x';
  model.labels = {"fir", "oak", "elm"};
  model.spec.num_classes = 3;
  model.preprocessing.height = 160;
  model.calibration = {2.5, {}};
  model.seen_images = SeenImages{{1, 2}, {3}};
  return model;
}

// Reads a directory with trained(), which other_trained() replaces before its file `name` is opened
// for the first `times` times.
ModelDirectory read_while_replaced(const fs::path& folder, const std::string& name, int times) {
  write_directory(OutputFolder(folder), trained_model_files(trained()));
  const std::function<void(const fs::path&)> replace = [&](const fs::path& path) {
    if (path != folder / name || times-- <= 0) return;
    write_directory(OutputFolder(folder), trained_model_files(other_trained()));
  };
  test::before_open = &replace;
  const struct End {
    ~End() { test::before_open = nullptr; }
  } end{};
  return read_model_directory(folder);
}

TEST_F(ModelDirectoryTest, WhatIsReplacedWhileItIsReadIsReadAgain) {
  const TrainedModel other = other_trained();
  for (const char* name : {"_meta.yaml", "model_spec.yaml", "model", "index_to_label.csv",
                           "preprocessing.json", "calibration.json"})
    for (const int times : {1, 2}) {
      const ModelDirectory read = read_while_replaced(folder_, name, times);
      EXPECT_EQ(read.state[0].bytes, other.state[0].bytes) << name;
      EXPECT_EQ(read.labels, other.labels) << name;
      EXPECT_EQ(read.preprocessing, other.preprocessing) << name;
      EXPECT_EQ(read.calibration, other.calibration) << name;
      EXPECT_EQ(read.seen_images, other.seen_images) << name;
    }
  expect_error(ErrorCode::kInvalidModelDirectory, "was replaced",
               [&] { read_while_replaced(folder_, "calibration.json", 1000); });
}

TEST_F(ModelDirectoryTest, FilesBesideTheModelAreReadWithIt) {
  write_directory(OutputFolder(folder_), trained_model_files(trained()));
  int reads = 0;
  const auto read = [&] {
    if (++reads > 1) return;
    write_directory(OutputFolder(folder_), trained_model_files(other_trained()));
    throw FormatFault("of the first model");
  };
  read_one_model(folder_, read);
  EXPECT_EQ(reads, 2);
  fs::remove(folder_ / "_meta.yaml");
  EXPECT_THROW(read_one_model(folder_, [] { throw FormatFault("of a lone file"); }), FormatFault);
}

TEST_F(ModelDirectoryTest, ARunThatIsSavingMayGoOnToHoldTheFolder) {
  const OutputFolder run = prepare_model_output(folder_);
  write_directory(run, untrained_model_files(resnet(), sample_state()));
  put(".kiln-journal", "");
  const std::jthread saving([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    fs::remove(folder_ / ".kiln-journal");
  });
  EXPECT_EQ(read_model_directory(folder_).spec.model_name, "resnet18");
}

TEST_F(ModelDirectoryTest, WhatCannotBeFinishedIsRefused) {
  write_directory(OutputFolder(folder_), untrained_model_files(resnet(), sample_state()));
  put(".kiln-journal", "damaged");
  expect_error(ErrorCode::kInvalidModelDirectory, "incomplete", [&] { read_model_spec(folder_); });
}

TEST_F(ModelDirectoryTest, OneRunAtATime) {
  const OutputFolder first = prepare_model_output(folder_);
  expect_error(ErrorCode::kFailedToWriteOutputs, folder_.string(),
               [&] { prepare_model_output(folder_); });
  put(".kiln-tmp-model-1", "left");
  write_directory(first, untrained_model_files(resnet(), sample_state()));
  EXPECT_EQ(names(), (std::set<std::string>{"_meta.yaml", "model", "model_spec.yaml"}));
}

// As DVC and git-annex keep them.
TEST_F(ModelDirectoryTest, LinksAreReplacedAndTheirTargetsStay) {
  const fs::path cache = folder_ / "cache", output = folder_ / "output";
  fs::create_directories(output);
  write_directory(OutputFolder(cache), untrained_model_files(resnet(), sample_state()));
  const std::string spec = read_file(cache / "model_spec.yaml");
  for (const char* name : {"_meta.yaml", "model", "model_spec.yaml"})
    fs::create_symlink(cache / name, output / name);
  fs::create_directory_symlink(output, folder_ / "link");
  prepare_model_output(folder_ / "link");
  write_directory(OutputFolder(folder_ / "link"), trained_model_files(trained()));
  EXPECT_EQ(read_model_directory(output).labels.size(), 2U);
  for (const auto& entry : fs::directory_iterator(output)) EXPECT_FALSE(entry.is_symlink());
  EXPECT_EQ(read_file(cache / "model_spec.yaml"), spec);
  EXPECT_FALSE(read_model_directory(cache).spec.num_classes);
}

TEST_F(ModelDirectoryTest, TheModelFileOfAStrangerIsReadAndNotWritten) {
  ModelSpec foreign = resnet();
  foreign.model_file = "_schema.json";
  put("_meta.yaml", "type: ModelDirectory\nmodel: model_spec.yaml\n");
  put("model_spec.yaml", format_model_spec(foreign, "now"));
  put("_schema.json", write_torch_zip(sample_state()));
  TrainedModel model = trained();
  model.spec.model_file = read_model_directory(folder_).spec.model_file;
  EXPECT_EQ(model.spec.model_file, "_schema.json");
  write_directory(OutputFolder(folder_), trained_model_files(model));
  EXPECT_EQ(read_model_directory(folder_).spec.model_file, "model");
  EXPECT_EQ(read_file(folder_ / "_schema.json"), model.schema_json);
}

TEST_F(ModelDirectoryTest, PrepareRefusesOtherFiles) {
  const auto prepare = [&] { prepare_model_output(folder_); };
  put("model", "somebody's");
  expect_error(ErrorCode::kFailedToWriteOutputs, "'model'", prepare);
  put("_meta.yaml", "type: ImageDirectory\n");
  expect_error(ErrorCode::kFailedToWriteOutputs, "'_meta.yaml'", prepare);
  put("_meta.yaml", "type: ModelDirectory\nmodel: model_spec.yaml\n");
  prepare();
  for (const char* name : {"a.txt", "b.txt", "c.txt", "d.txt"}) put(name, "x");
  expect_error(ErrorCode::kFailedToWriteOutputs, "'a.txt', 'b.txt', 'c.txt' and 1 more", prepare);
  expect_error(ErrorCode::kFailedToWriteOutputs, "a.txt",
               [&] { prepare_model_output(folder_ / "a.txt"); });
}

TEST_F(ModelDirectoryTest, ReadErrorsNameTheFile) {
  const auto read = [&] { read_model_directory(folder_); };
  expect_error(ErrorCode::kUserError, "is empty", read);
  expect_error(ErrorCode::kUserError, "does not exist", [&] { read_model_spec(folder_ / "x"); });
  put("images.lst", "");
  expect_error(ErrorCode::kUserError, "is a file",
               [&] { read_model_spec(folder_ / "images.lst"); });
  expect_error(ErrorCode::kInvalidModelDirectory, "no _meta.yaml", read);
  put("_meta.yaml", "type: ImageDirectory\n");
  expect_error(ErrorCode::kInvalidModelDirectory, "'ImageDirectory'", read);
  put("_meta.yaml", "type: [");
  expect_error(ErrorCode::kInvalidModelDirectory, "not valid YAML", read);
  put("_meta.yaml", std::string(70'000, ' '));
  expect_error(ErrorCode::kInvalidModelDirectory, "larger than", read);
  for (const std::string name : {"../spec", "..", "/etc/passwd"}) {
    put("_meta.yaml", "type: ModelDirectory\nmodel: " + name + "\n");
    expect_error(ErrorCode::kInvalidModelDirectory, "the path '" + name + "'", read);
  }
  put("_meta.yaml", "{\"type\": \"ModelDirectory\", \"model\": \"model_spec.yaml\"}");
  expect_error(ErrorCode::kInvalidModelDirectory, "model_spec.yaml", read);
  put("model_spec.yaml", format_model_spec(resnet(), time_stamp(std::chrono::system_clock::now())));
  expect_error(ErrorCode::kInvalidModelDirectory, "No such file", read);
  put("model", "<html>");
  expect_error(ErrorCode::kInvalidModelDirectory, "begins neither", read);
}

TEST(TimeStamp, HasTheFormOfTheOriginal) {
  const std::string stamp = time_stamp(std::chrono::system_clock::now());
  using std::chrono::system_clock, std::chrono::microseconds;
  const system_clock::time_point epoch;
  EXPECT_EQ(time_stamp(epoch + microseconds(1'000'002)), "1970-01-01T00:00:01.000002+0000");
  EXPECT_EQ(time_stamp(epoch - microseconds(1)), "1969-12-31T23:59:59.999999+0000");
  for (const auto time : {system_clock::time_point::min(), system_clock::time_point::max()})
    EXPECT_EQ(time_stamp(time).size(), stamp.size());
  EXPECT_EQ(stamp.size(), std::string("2026-01-02T03:04:05.678901+0000").size());
  EXPECT_TRUE(stamp.ends_with("+0000"));
}

}  // namespace

}  // namespace kiln
