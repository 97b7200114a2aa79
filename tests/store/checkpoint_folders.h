// A folder for checkpoints, and what the tests of checkpoints do with it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "sample_states.h"
#include "store/checkpoint.h"

namespace kiln {

inline std::vector<TensorView> views_of(const StateDict& state) {
  std::vector<TensorView> views;
  for (const StoredTensor& tensor : state)
    views.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
  return views;
}

using Names = std::set<std::string>;

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("kiln-" + std::to_string(::getpid()) + test->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // `state` stands for all else in it, too; no best epoch if it is 0.
  static std::filesystem::path write(CheckpointFolder& folder, const std::string& state,
                                     int best_epoch = 0) {
    const StateDict tensors = sample_state();
    const StateDict best = {
        {"w", DType::kInt8, {1}, std::string(1, static_cast<char>(best_epoch))}};
    const std::string record = state + "\n";
    CheckpointView view{state, record, views_of(tensors), {}, best_epoch};
    if (best_epoch > 0) view.best = views_of(best);
    return folder.write(view);
  }
  std::filesystem::path write(const std::string& state, int best_epoch = 0, int keep = 2) const {
    CheckpointFolder folder(folder_, keep);
    return write(folder, state, best_epoch);
  }

  std::optional<Checkpoint> newest() {
    skipped_.clear();
    return CheckpointFolder(folder_, 2).newest(skipped_);
  }
  // state.json of the newest whole one.
  std::string state() {
    const auto found = newest();
    return found ? found->state_json : "none";
  }

  std::set<std::string> names(const std::filesystem::path& below = "") const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / below))
      found.insert(entry.path().filename());
    return found;
  }
  static void put(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  static void replace_in(const std::filesystem::path& path, const std::string& from,
                         const std::string& to) {
    std::string bytes = read_file(path);
    const std::size_t at = bytes.find(from);
    ASSERT_NE(at, bytes.npos) << from;
    put(path, bytes.replace(at, from.size(), to));
  }
  void expect_refused(const std::filesystem::path& folder, const std::string& part) const {
    try {
      CheckpointFolder(folder, 2);
      ADD_FAILURE() << "no error with " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFailedToWriteOutputs);
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  }

  std::filesystem::path folder_;
  std::vector<std::string> skipped_;
};

}  // namespace kiln
