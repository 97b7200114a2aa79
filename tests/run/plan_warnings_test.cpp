#include "run/prepare/plan_warnings.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "data/scratch_folder.h"

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
class Planned {
 public:
  Planned() {
    for (Dataset* set : {&sources.train, &sources.valid}) set->classes = {"cat", "dog"};
    sources.train.root = folder.path() / "train";
    sources.valid.root = folder.path() / "val";
    fill(sources.train, 44);
    fill(sources.valid, 20);
    plan.loading.batch_size = 11;
    plan.recipe.schedule.epochs = 5;
    plan.recipe.schedule.peak = 0.01;
  }

  std::vector<Warning> warnings() {
    const auto images = static_cast<std::int64_t>(sources.train.samples.size());
    plan.global_batch = std::int64_t{plan.loading.batch_size} * plan.loading.accumulate;
    plan.division.steps_per_epoch = images / plan.global_batch;
    return plan_warnings(plan, sources);
  }

  // Training images of this size each way, of 16-bit samples with this high byte but for one of 0.
  void draw(int side, char high = 'x') const {
    fs::create_directories(sources.train.root);
    const std::string size = std::to_string(side);
    for (std::size_t i = 0; i < sources.train.samples.size(); ++i)
      std::ofstream(sources.train.root / sources.train.samples.file_name(i), std::ios::binary)
          << "P5 " + size + " " + size + " 65535\n"
          << std::string(2, '\0')
          << std::string(static_cast<std::size_t>(side * side - 1) * 2, high);
  }

  ScratchFolder folder;
  Plan plan;
  Sources sources;
};

std::shared_ptr<const ImageChain> chain_of(const char* operations) {
  Problems problems;
  return inference_chain(TransformChain::parse(operations, "", problems));
}

struct Case {
  const char* name;
  std::function<void(Planned&)> change;
  const char* said;  // by the one warning; "": there is none
};

const std::vector<Case> kCases = {
    {"nothing", [](Planned&) {}, ""},
    {"one folder for both", [](Planned& it) { it.sources.valid.root = it.sources.train.root; },
     "all 20 validation images are also training images"},
    {"one folder by two names",
     [](Planned& it) { it.sources.valid.root = it.folder.path() / "val/../train"; },
     "all 20 validation images are also training images"},
    {"one folder, and other images of it",
     [](Planned& it) {
       it.sources.valid.root = it.sources.train.root;
       it.sources.valid.samples = {};
       for (int i = 0; i < 2; ++i)
         it.sources.valid.samples.add("other-" + std::to_string(i) + ".ppm", i);
     },
     ""},
    {"validation inside training, whose images are others",
     [](Planned& it) { it.sources.valid.root = it.sources.train.root / "val"; }, ""},
    {"validation inside training",
     [](Planned& it) {
       it.sources.valid.root = it.sources.train.root / "val";
       it.sources.train.samples = {};
       for (int i = 0; i < 44; ++i)
         it.sources.train.samples.add((i < 5 ? "val/" : "") + std::to_string(i) + ".ppm", i % 2);
     },
     "5 of 20 validation images are also training images"},
    {"training inside validation",
     [](Planned& it) {
       it.sources.train.root = it.sources.valid.root / "train";
       it.sources.valid.samples = {};
       for (int i = 0; i < 20; ++i)
         it.sources.valid.samples.add((i < 5 ? "train/" : "") + std::to_string(i) + ".ppm", i % 2);
     },
     "5 of 20 validation images are also training images"},
    {"a name that begins like the other",
     [](Planned& it) { it.sources.valid.root = it.folder.path() / "train-more"; }, ""},
    {"more validation than training images", [](Planned& it) { fill(it.sources.valid, 45); },
     "--train-data-path and --valid-data-path swapped"},
    {"a host's part of the training images",
     [](Planned& it) {
       fill(it.sources.valid, 45);
       it.plan.division.has_own_train = true;
     },
     ""},
    {"no validation images of a class", [](Planned& it) { fill(it.sources.valid, 20, 1); },
     "no validation images for class 'dog'"},
    {"no training images of a class", [](Planned& it) { fill(it.sources.train, 44, 1); },
     "no training images for class 'dog'"},
    {"one class",
     [](Planned& it) {
       for (Dataset* set : {&it.sources.train, &it.sources.valid}) {
         set->classes = {"cat"};
         fill(*set, 22, 1);
       }
     },
     "only one class"},
    {"one class an image where it may have several",
     [](Planned& it) {
       it.sources.train.labels.sets = it.sources.valid.labels.sets = {{0}, {1}};
     },
     "no training image has several classes"},
    {"several classes an image",
     [](Planned& it) {
       it.sources.train.labels.sets = it.sources.valid.labels.sets = {{0}, {0, 1}};
     },
     ""},
    {"no validation images of one of several classes",
     [](Planned& it) {
       it.sources.train.labels.sets = it.sources.valid.labels.sets = {{0}, {0, 1}};
       fill(it.sources.valid, 20, 1);
     },
     "its threshold is 0.5"},
    {"images of 12 bits in 16", [](Planned& it) { it.draw(8, 0x0f); },
     "no sample is above 15 of 255"},
    {"images of 14 bits in 16", [](Planned& it) { it.draw(8, 0x3f); },
     "no sample is above 63 of 255"},
    {"images of 15 bits in 16", [](Planned& it) { it.draw(8, 0x40); }, ""},
    {"images of one color", [](Planned& it) { it.draw(1); }, "have one color each"},
    {"jitter that validation has, too",
     [](Planned& it) { it.plan.pixels.valid.chain = chain_of(R"([["ColorJitter", 0.5]])"); },
     "ColorJitter of --transform-path changes validation images too"},
    {"jitter that draws nothing",
     [](Planned& it) { it.plan.pixels.valid.chain = chain_of(R"([["ColorJitter", {}]])"); }, ""},
    {"images left over", [](Planned& it) { it.plan.loading.batch_size = 16; },
     "12 of 44 training images are left over in each epoch: --batch-size 11 uses all"},
    {"images left over that are mixed in pairs",
     [](Planned& it) {
       it.plan.loading.batch_size = 16;
       it.plan.recipe.mix.mixup = 0.1;
     },
     "--batch-size 14 leaves 2"},
    {"images left over whatever the batch",
     [](Planned& it) {
       fill(it.sources.train, 43);
       it.plan.loading.batch_size = 16;
     },
     "--batch-size 14 leaves 1"},
    {"few images left over", [](Planned& it) { it.plan.loading.batch_size = 8; }, ""},
    {"images left over of several batches a step",
     [](Planned& it) { it.plan.loading.accumulate = 3; }, "11 of 44 training images"},
    {"a size far above that of the images",
     [](Planned& it) {
       it.draw(32);
       it.plan.pixels.given_side = 224;
     },
     "images of about 32 pixels are enlarged to 224: training takes about 49 times"},
    {"a size a little above that of the images",
     [](Planned& it) {
       it.draw(32);
       it.plan.pixels.given_side = 48;
     },
     ""},
    {"a rate below the minimum", [](Planned& it) { it.plan.recipe.schedule.peak = 1e-8; },
     "below the schedule's minimum"},
    {"a rate that warm-up lowers",
     [](Planned& it) {
       it.plan.recipe.schedule.peak = 5e-5;
       it.plan.recipe.schedule.warmup_epochs = 1;
     },
     "warm-up will lower it"},
    {"a warm-up without end",
     [](Planned& it) { it.plan.recipe.schedule.warmup_epochs = it.plan.recipe.schedule.epochs; },
     "warm-up takes all epochs"},
    {"a note of the inputs", [](Planned& it) { it.sources.notes = {"it is a trained model"}; },
     "trained model"},
    {"a note of a dataset", [](Planned& it) { it.sources.valid.notes = {"a file was left out"}; },
     "left out"},
};

TEST(PlanWarnings, AreOfWhatMayNotBeMeant) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    Planned it;
    test.change(it);
    const std::vector<Warning> said = it.warnings();
    const std::string wanted = test.said;
    ASSERT_EQ(said.size(), wanted.empty() ? 0U : 1U) << (said.empty() ? "" : said[0].text);
    if (said.empty()) continue;
    EXPECT_NE(said[0].text.find(wanted), std::string::npos) << said[0].text;
    EXPECT_EQ(said[0].doubts_accuracy, wanted.ends_with("training images"));
  }
}

}  // namespace
}  // namespace kiln
