#include "store/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace kiln {
namespace {

namespace fs = std::filesystem;

// Values that training changes between checkpoints.
struct Trained {
  std::vector<float> weights = std::vector<float>(200'000, 0.0F);
  std::string state;

  void step(int number) {
    std::fill(weights.begin(), weights.end(), static_cast<float>(number));
    state = R"({"steps": )" + std::to_string(number) + "}";
  }
  CheckpointView view() const {
    const std::string_view bytes(reinterpret_cast<const char*>(weights.data()),
                                 weights.size() * sizeof(float));
    return {.state_json = state,
            .record = {},
            .tensors = {{"model.weight", DType::kFloat32, {200'000}, bytes}},
            .best = {}};
  }
};

class CheckpointWriterTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(path_); }
  void TearDown() override { fs::remove_all(path_); }

  // Each case runs in a process of its own, some at the same time.
  const fs::path path_ =
      fs::temp_directory_path() / ("kiln-checkpoint-writer-" + std::to_string(::getpid()));
};

TEST_F(CheckpointWriterTest, WritesWhatStoodWhenItBegan) {
  Trained trained, copy;
  {
    CheckpointFolder folder(path_, 2);
    CheckpointWriter writer(folder);
    for (int number = 1; number <= 20; ++number) {
      trained.step(number);  // meanwhile
      if (writer.is_busy()) continue;
      copy = trained;
      writer.begin(copy.view());
    }
    writer.wait();
    trained.step(21);
    writer.begin(trained.view());
  }  // waits
  std::vector<std::string> skipped;
  const Checkpoint last = read_checkpoint(path_, skipped);
  EXPECT_EQ(last.state_json, R"({"steps": 21})");
  float value = 0;
  std::memcpy(&value, last.tensors.at(0).bytes.data(), sizeof value);
  EXPECT_EQ(value, 21);
  EXPECT_TRUE(skipped.empty());
}

TEST_F(CheckpointWriterTest, TellsAFailureOnceAndGoesOn) {
  Trained trained;
  CheckpointFolder folder(path_, 2);
  CheckpointWriter writer(folder);
  trained.step(1);
  fs::remove_all(path_);
  std::ofstream(path_) << "a file where the folder belongs";
  writer.begin(trained.view());
  writer.wait();
  EXPECT_FALSE(writer.take_failure().empty());
  EXPECT_TRUE(writer.take_failure().empty());
  fs::remove(path_);
  fs::create_directories(path_);
  writer.begin(trained.view());
  writer.wait();
  EXPECT_TRUE(writer.take_failure().empty());
}

}  // namespace
}  // namespace kiln
