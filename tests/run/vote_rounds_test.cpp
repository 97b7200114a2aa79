// Run by mpirun: what a vote costs, in collectives that every rank waits for; and what the ranks
// find together.
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/content_hash.h"
#include "base/error.h"
#include "parallel/rank_main.h"
#include "run/checkpoint/image_hashes.h"
#include "run/prepare/plan_warnings.h"
#include "run/prepare/rank_agreement.h"
#include "run/prepare/shared_sources.h"
#include "run/vote.h"

namespace kiln {
namespace {

World* world = nullptr;

// Collectives that `work` starts on this rank.
template <typename Work>
std::uint64_t rounds_of(Work&& work) {
  const std::uint64_t before = world->num_rounds();
  work();
  return world->num_rounds() - before;
}

TEST(VoteRounds, AStepThatIsPrintedTakesOne) {
  StepRecord record;
  record.so_far = {.loss_sum = 2, .top1 = 1, .top5 = 1, .count = 1};
  Vote all;
  EXPECT_EQ(rounds_of([&] { all = vote(*world, ballot(false, summed_numbers(record))); }), 1u);
  set_summed_numbers(all.numbers, record);
  EXPECT_EQ(record.so_far.count, world->size());
}

TEST(VoteRounds, AnyOtherStepTakesOne) {
  Vote all;
  EXPECT_EQ(rounds_of([&] { all = vote(*world, {.has_bad_images = world->rank() == 1}); }), 1u);
  EXPECT_TRUE(all.has_bad_images);
  EXPECT_EQ(all.stop_signal, 0);
}

using Clock = std::chrono::steady_clock;

// Seconds since the machine started, which all processes of a host count alike.
double now() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// Rank 1 takes a while for each step; when each rank has begun its steps, by rank.
std::vector<std::vector<double>> begins_of_steps(int delay, int num_steps) {
  std::vector<double> begins;
  DelayedVotes votes(*world, delay);
  world->barrier();
  int num_acted = 0;
  for (int step = 0; step < num_steps; ++step) {
    begins.push_back(now());
    if (world->rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    votes.cast({.has_bad_images = step == 2 && world->rank() == 1});
    if (!votes.is_due()) continue;
    EXPECT_EQ(votes.take().has_bad_images, num_acted++ == 2) << "all act on a vote at one step";
  }
  while (!votes.is_empty()) EXPECT_EQ(votes.take().has_bad_images, num_acted++ == 2);
  EXPECT_EQ(num_acted, num_steps);
  return world->gather(begins);
}

TEST(DelayedVotes, BoundHowFarARankIsAhead) {
  constexpr int kSteps = 12;
  for (const int delay : {0, 1, 4}) {
    const auto begins = begins_of_steps(delay, kSteps);
    for (int step = delay + 1; step + 1 < kSteps; ++step) {
      const auto fast = static_cast<std::size_t>(step);
      // The slow one has ended the step that the fast one had to wait for.
      EXPECT_GE(begins[0][fast] - begins[1][fast - static_cast<std::size_t>(delay) - 1], 0.02)
          << delay << " " << step;
    }
  }
}

TEST(DelayedVotes, LetARankGoAhead) {
  const auto begins = begins_of_steps(4, 12);
  EXPECT_LT(begins[0][4], begins[1][3]) << "rank 0 does not wait before its fifth step";
}

// Images of these contents, with one label each, of which this rank has read those at its own
// places.
Dataset set_of(const std::vector<std::string>& contents, const std::vector<int>& readers) {
  Dataset set;
  set.classes = {"cat", "dog"};
  for (std::size_t i = 0; i < contents.size(); ++i)
    set.samples.push_back({.file_name = "x", .label = static_cast<int>(i % 2), .size = {}});
  set.samples.keep_hashes();
  for (std::size_t i = 0; i < contents.size(); ++i)
    if (readers[i] == world->rank()) set.samples.set_content(i, contents[i]);
  return set;
}

TEST(Twins, AreFoundWhicheverRankHasReadThem) {
  for (const bool has_own : {false, true}) {
    Plan plan;
    plan.division.has_own_train = plan.division.has_own_valid = has_own;
    Sources sources;
    sources.train = set_of({"a", "b", "c", "c"}, {0, 0, 1, 0});
    sources.valid = set_of({"c", "x", "a", "c", "b"}, {0, 1, 1, 1, 7});
    share_hashes(*world, plan, sources);
    const Twins twins = find_twins(*world, plan.division, sources);
    EXPECT_EQ(twins.num_valid_in_train, world->leads() ? 3 : 0);
    EXPECT_EQ(twins.contradictions.empty(), !world->leads());
    sources.valid = set_of({"x", "y"}, {0, 1});
    EXPECT_EQ(find_twins(*world, plan.division, sources).num_valid_in_train, 0);
  }
}

// Two ranks with seven training images, of which an epoch has four, and three validation images.
struct SmallJob {
  SmallJob() {
    for (const char* bytes : {"a", "b", "c", "d", "e", "f", "g"}) add(sources.train, bytes);
    for (const char* bytes : {"v", "w", "a"}) add(sources.valid, bytes);
    plan.division.train = plan.division.valid = {world->rank(), world->size(), 1, 1};
    plan.division.steps_per_epoch = 4 / world->size();
  }

  void add(Dataset& set, const char* bytes) {
    set.samples.push_back({.file_name = bytes, .label = 0, .size = {}});
    set.samples.keep_hashes();
  }
  // The name is the content.
  void read(Dataset& set, std::size_t i) { set.samples.set_content(i, set.samples.file_name(i)); }
  void read_training(int epoch) {
    std::vector<std::uint32_t> order =
        training_order(sources.train.samples, plan.loading.seed, epoch);
    order.resize(4);
    for (const std::uint32_t i : training_indices(order, plan.division.train))
      read(sources.train, i);
  }
  void read_validation() {
    for (const std::uint32_t i : validation_indices(3, plan.division.valid)) read(sources.valid, i);
  }

  SeenImages gather_seen() { return gather_seen_images(*world, plan, sources); }
  void warn_of_changed() { warn_of_changed_images(*world, log, sources); }

  Log log;
  Plan plan;
  Sources sources;
};

TEST(SeenImages, AreThoseThatAnyRankHasRead) {
  SmallJob small;
  small.read_training(1);
  small.read_validation();
  SeenImages seen = small.gather_seen();
  if (!world->leads()) {
    EXPECT_TRUE(seen.train.empty());
  } else {
    EXPECT_EQ(seen.train.size(), 4U);
    EXPECT_EQ(seen.valid.size(), 3U);
    EXPECT_TRUE(seen.was_chosen_on(content_hash("a")));
    EXPECT_FALSE(seen.was_chosen_on(content_hash("b")));
  }
  for (int epoch = 2; epoch < 20; ++epoch) small.read_training(epoch);
  seen = small.gather_seen();
  if (!world->leads()) return;
  EXPECT_EQ(seen.train.size(), 7U);
  EXPECT_TRUE(seen.was_trained_on(content_hash("g")));
}

TEST(SeenImages, AreThereAgainAfterACheckpoint) {
  SmallJob before, after;
  for (int epoch = 1; epoch < 20; ++epoch) before.read_training(epoch);
  before.read_validation();
  const auto train = gather_train_hashes(*world, before.plan, before.sources);
  const auto valid = gather_valid_hashes(*world, before.plan, before.sources);
  EXPECT_EQ(train.size(), world->leads() ? 1U : 0U) << "all are rank 0's";
  for (const std::string& packed : train) {
    EXPECT_EQ(packed.size(), 16U * 7);
    unpack_hashes(packed, after.sources.train.samples);
  }
  for (const std::string& packed : valid) unpack_hashes(packed, after.sources.valid.samples);
  EXPECT_EQ(after.gather_seen(), before.gather_seen());
}

// What a collective that must fail says on rank 0.
template <typename Work>
std::string failure_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  } catch (const FailedElsewhere&) {
    return "";
  }
  ADD_FAILURE() << "it did not fail";
  return "";
}

template <typename Work>
void expect_failure(Work&& work, const std::vector<std::string>& words) {
  const std::string said = failure_of(work);
  if (!world->leads()) return;
  for (const std::string& word : words)
    EXPECT_NE(said.find(word), std::string::npos) << word << ": " << said;
}

TEST(RankAgreement, AModelThatDiffersIsRefused) {
  require_one_model(*world, "--trained-model-path 'm'", "resnet18 12");
  expect_failure(
      [] {
        require_one_model(*world, "--trained-model-path 'm'",
                          world->leads() ? "resnet18 12" : "resnet34 13");
      },
      {"Ranks found different models in --trained-model-path 'm': rank 1 on host ",
       "found resnet34 13, rank 0 found resnet18 12"});
}

// Each rank has its own folder with the same images.
class SameData : public ::testing::Test {
 protected:
  SameData() {
    set_.root = std::filesystem::path(::testing::TempDir()) /
                ("same_data_" + std::to_string(::getpid()) + "_" + std::to_string(world->rank()));
    set_.name = "Training dataset";
    set_.kind = Dataset::Kind::kClassFolders;
    for (int i = 0; i < 200; ++i) {
      const std::string name =
          std::string(i % 2 == 0 ? "cat/" : "dog/") + std::to_string(i) + ".png";
      set_.samples.push_back({.file_name = name, .label = i % 2, .id = i, .size = {}});
      write(name, "image " + std::to_string(i));
    }
  }
  ~SameData() override { std::filesystem::remove_all(set_.root); }

  void write(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories((set_.root / name).parent_path());
    std::ofstream(set_.root / name) << bytes;
  }
  void require_failure(const std::vector<std::string>& words) {
    expect_failure([this] { require_same_data(*world, set_); }, words);
  }

  Dataset set_;
};

TEST_F(SameData, CopiesAreTheSame) {
  if (world->rank() == 1) write("cat/notes.txt", "no image");
  require_same_data(*world, set_);
}

TEST_F(SameData, ExchangedFoldersAreFound) {
  if (world->rank() == 1)
    for (std::size_t i = 0; i < set_.samples.size(); ++i)
      write(std::string(set_.samples.file_name(i)), "image " + std::to_string(i ^ 1));
  require_failure(
      {"Training dataset differs between ranks: ", ".png' has other contents on rank 1"});
}

TEST_F(SameData, MoreImagesAreCounted) {
  if (world->rank() == 1) {
    write("dog/x.png", "more");
    write("dog/y.JPG", "more");
  }
  require_failure({"rank 1 on host ", " has 2 more images in 'dog'."});
}

TEST_F(SameData, ArchivesHaveOneListing) {
  const std::string order[] = {"first" + std::string(100'000, '.') + "last",
                               "last." + std::string(100'000, '.') + "firs"};
  write("x.tar", order[world->rank()]);
  write("y.tar", std::string(world->leads() ? 4 : 5, 'y'));
  set_.kind = Dataset::Kind::kArchives;
  set_.samples = {};
  set_.archives.push_back({"x.tar", OpenFile(set_.root / "x.tar")});
  require_failure({"'x.tar' has other contents on rank 1"});
  set_.archives[0] = {"y.tar", OpenFile(set_.root / "y.tar")};
  require_failure({"'y.tar' has 5 bytes on rank 1 on host ", "and 4 on rank 0"});
}

TEST(ChangedImages, AreThoseThatAnotherRankReadWithOtherBytes) {
  SmallJob small;
  SampleTable& samples = small.sources.train.samples;
  const std::uint32_t changed = training_order(samples, small.plan.loading.seed, 1)[0];
  const auto read = [&](std::uint32_t i) {
    const std::string there = std::string(samples.file_name(i)) + (i == changed ? "!" : "");
    samples.set_content(i, world->leads() ? samples.file_name(i) : there);
  };
  std::vector<std::uint32_t> order = training_order(samples, small.plan.loading.seed, 1);
  order.resize(4);
  for (const std::uint32_t i : training_indices(order, small.plan.division.train)) read(i);
  share_hashes(*world, small.plan, small.sources);
  small.warn_of_changed();
  EXPECT_TRUE(small.log.take_warnings().empty());
  for (std::uint32_t i = 0; i < samples.size(); ++i) read(i);
  small.warn_of_changed();
  const std::vector<std::string> said = small.log.take_warnings();
  ASSERT_EQ(said.size(), world->leads() ? 1U : 0U);
  if (world->leads()) {
    EXPECT_TRUE(said[0].starts_with("1 training image does not have the bytes")) << said[0];
  }
  small.warn_of_changed();
  EXPECT_TRUE(small.log.take_warnings().empty()) << "each once";
}

TEST(PlanWarnings, SeveralRanksMakeFewSteps) {
  Sources sources;
  for (Dataset* set : {&sources.train, &sources.valid}) {
    set->classes = {"cat", "dog"};
    for (int i = 0; i < 320; ++i)
      set->samples.push_back({.file_name = "x", .label = i % 2, .id = i, .size = {}});
  }
  Plan plan;
  plan.recipe.schedule = {.epochs = 5, .peak = 0.01};
  plan.num_training_ranks = world->size();
  const auto warnings = [&](int batch_size, std::int64_t steps_per_epoch) {
    plan.loading.batch_size = batch_size;
    plan.global_batch = std::int64_t{batch_size} * world->size();
    plan.division.steps_per_epoch = steps_per_epoch;
    return plan_warnings(plan, sources);
  };
  const std::vector<std::string> said = warnings(16, 10);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("--batch-size to 8"), std::string::npos) << said[0];
  EXPECT_TRUE(warnings(8, 20).empty());
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::Log log;
  kiln::World the_world;
  if (!kiln::join_ranks(argc, argv, 120, log, the_world)) return 2;
  kiln::world = &the_world;
  return the_world.leave(RUN_ALL_TESTS());
}
