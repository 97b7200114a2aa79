#include "run/prepare/plan_warnings.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "data/scratch_folder.h"
#include "run/prepare/shared_images.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// Images 0 and on, label by label in turn; replaces those that are there.
void fill(Dataset& set, int count, int num_labels = 2) {
  set.samples = {};
  for (int i = 0; i < count; ++i)
    set.samples.push_back(
        {.file_name = std::to_string(i) + ".ppm", .label = i % num_labels, .id = i, .size = {}});
}

// A plan of which nothing need be said; a test changes one thing.
class Plan {
 public:
  Plan() {
    for (Dataset* set : {&inputs.train, &inputs.valid}) set->classes = {"cat", "dog"};
    inputs.train.root = folder.path() / "train";
    inputs.valid.root = folder.path() / "val";
    fill(inputs.train, 44);
    fill(inputs.valid, 20);
    config.optimization.batch_size = 11;
    job.recipe.schedule.peak = 0.01;
  }

  std::vector<std::string> warnings() {
    const auto images = static_cast<std::int64_t>(inputs.train.samples.size());
    inputs.steps_per_epoch = images / job.global_batch();
    job.recipe.schedule.epochs = config.optimization.epochs;
    return plan_warnings(job);
  }

  // Training images of this size each way.
  void draw(int side) const {
    fs::create_directories(inputs.train.root);
    const std::string size = std::to_string(side);
    for (std::size_t i = 0; i < inputs.train.samples.size(); ++i)
      std::ofstream(inputs.train.root / inputs.train.samples.file_name(i), std::ios::binary)
          << "P6 " + size + " " + size + " 255\n"
          << std::string(static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * 3, 'x');
  }

  ScratchFolder folder;
  World world;
  Log log;
  TrainingJob job{TrainConfig(), world, log};
  TrainConfig& config = job.config;
  TrainingInputs& inputs = job.inputs;
};

struct Case {
  const char* name;
  std::function<void(Plan&)> change;
  const char* said;  // by the one warning; "": there is none
};

const std::vector<Case> kCases = {
    {"nothing", [](Plan&) {}, ""},
    {"one folder for both", [](Plan& plan) { plan.inputs.valid.root = plan.inputs.train.root; },
     "are the same"},
    {"one folder by two names",
     [](Plan& plan) { plan.inputs.valid.root = plan.folder.path() / "val/../train"; },
     "are the same"},
    {"validation inside training",
     [](Plan& plan) { plan.inputs.valid.root = plan.inputs.train.root / "val"; },
     "are part of the training data"},
    {"training inside validation",
     [](Plan& plan) { plan.inputs.train.root = plan.inputs.valid.root / "train"; },
     "are part of the validation data"},
    {"a name that begins like the other",
     [](Plan& plan) { plan.inputs.valid.root = plan.folder.path() / "train-more"; }, ""},
    {"more validation than training images", [](Plan& plan) { fill(plan.inputs.valid, 45); },
     "--train-data-path and --valid-data-path swapped"},
    {"a host's part of the training images",
     [](Plan& plan) {
       fill(plan.inputs.valid, 45);
       plan.config.data.has_train_shard = true;
     },
     ""},
    {"no validation images of a class", [](Plan& plan) { fill(plan.inputs.valid, 20, 1); },
     "no validation images for class 'dog'"},
    {"no training images of a class", [](Plan& plan) { fill(plan.inputs.train, 44, 1); },
     "no training images for class 'dog'"},
    {"one class",
     [](Plan& plan) {
       for (Dataset* set : {&plan.inputs.train, &plan.inputs.valid}) {
         set->classes = {"cat"};
         fill(*set, 22, 1);
       }
     },
     "only one class"},
    {"images left over", [](Plan& plan) { plan.config.optimization.batch_size = 16; },
     "12 of 44 training images are left over in each epoch: --batch-size 11 uses all"},
    {"images left over whatever the batch",
     [](Plan& plan) {
       fill(plan.inputs.train, 43);
       plan.config.optimization.batch_size = 16;
     },
     "a smaller --batch-size leaves fewer"},
    {"few images left over", [](Plan& plan) { plan.config.optimization.batch_size = 8; }, ""},
    {"images left over of several batches a step",
     [](Plan& plan) { plan.config.optimization.accumulate = 3; }, "11 of 44 training images"},
    {"a size far above that of the images",
     [](Plan& plan) {
       plan.draw(32);
       plan.config.data.image_size.last = 224;
     },
     "images of about 32 pixels are enlarged to 224: training takes about 49 times"},
    {"a size a little above that of the images",
     [](Plan& plan) {
       plan.draw(32);
       plan.config.data.image_size.last = 48;
     },
     ""},
    {"a rate below the minimum", [](Plan& plan) { plan.job.recipe.schedule.peak = 1e-8; },
     "below the schedule's minimum"},
    {"a rate that warm-up lowers",
     [](Plan& plan) {
       plan.job.recipe.schedule.peak = 5e-5;
       plan.job.recipe.schedule.warmup_epochs = 1;
     },
     "warm-up will lower it"},
    {"a warm-up without end",
     [](Plan& plan) { plan.job.recipe.schedule.warmup_epochs = plan.config.optimization.epochs; },
     "warm-up takes all epochs"},
    {"a note of the inputs", [](Plan& plan) { plan.inputs.notes = {"it is a trained model"}; },
     "trained model"},
    {"a note of a dataset", [](Plan& plan) { plan.inputs.valid.notes = {"a file was left out"}; },
     "left out"},
};

TEST(PlanWarnings, AreOfWhatMayNotBeMeant) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    Plan plan;
    test.change(plan);
    const std::vector<std::string> said = plan.warnings();
    const std::string wanted = test.said;
    ASSERT_EQ(said.size(), wanted.empty() ? 0U : 1U) << testing::PrintToString(said);
    if (!said.empty()) {
      EXPECT_NE(said[0].find(wanted), std::string::npos) << said[0];
    }
  }
}

TEST(ShareAFolder, IsWhatTheWarningGoesBy) {
  Plan plan;
  EXPECT_FALSE(share_a_folder(plan.inputs));
  plan.inputs.valid.root = plan.inputs.train.root;
  EXPECT_TRUE(share_a_folder(plan.inputs));
  plan.inputs.valid.root = "";
  EXPECT_FALSE(share_a_folder(plan.inputs));
}

// What a set that loaders have read has; "" stands for an image that they have not.
SampleTable samples_of(const std::vector<std::string>& contents) {
  Dataset set;
  fill(set, static_cast<int>(contents.size()));
  set.samples.keep_hashes();
  for (std::size_t i = 0; i < contents.size(); ++i)
    if (!contents[i].empty()) set.samples.note_content(i, contents[i]);
  return set.samples;
}

TEST(CountValidInTrain, CountsEveryValidationImageOnce) {
  World world;
  const SampleTable train = samples_of({"a", "b", "b", "", "c"});
  EXPECT_EQ(count_valid_in_train(world, train, samples_of({"x", "y", ""})), 0);
  EXPECT_EQ(count_valid_in_train(world, train, samples_of({"b", "x", "b", "", "c"})), 3);
  EXPECT_EQ(count_valid_in_train(world, train, samples_of({"", ""})), 0);
  EXPECT_EQ(count_valid_in_train(world, {}, samples_of({"a"})), 0);
}

}  // namespace
}  // namespace kiln
