#include "base/platform/launch_environment.h"

#include <gtest/gtest.h>

#include "base/environment.h"
#include "base/error.h"

namespace kiln {
namespace {

int expected_size() {
  return detect_launch_environment().expected_size;
}

TEST(LaunchEnvironment, KnowsProcessesThatDoNotKnowEachOther) {
  const std::pair<Environment::Values, int> cases[] = {
      {{{"RANK", "1"}, {"WORLD_SIZE", "4"}}, 4},
      {{{"AZUREML_NODE_COUNT", "2"}}, 2},
      {{{"PET_NNODES", "3"}}, 3},
      {{{"CLUSTER_SPEC",
         R"({"cluster": {"workerpool0": ["a:1"], "workerpool1": ["b:1", "c:1"]}})"}},
       3},
      {{{"AWS_BATCH_JOB_NUM_NODES", "8"}}, 8}};
  for (const auto& [values, size] : cases) {
    const Environment loose(values);
    EXPECT_EQ(expected_size(), size);
    EXPECT_EQ(num_launched(), size);
    EXPECT_NE(detect_launch_environment().expectation.find("MPI"), std::string::npos);
    const Environment one_task(Environment::Values{{"SLURM_STEP_NUM_TASKS", "1"}});
    EXPECT_EQ(expected_size(), size);
    const Environment mpi(Environment::Values{{"OMPI_COMM_WORLD_SIZE", "2"}});
    EXPECT_EQ(expected_size(), 0) << "MPI knows";
  }
}

TEST(LaunchEnvironment, NumbersAreReadStrictly) {
  const Environment::Values cases[] = {{{"AZUREML_NODE_COUNT", "2 nodes"}},
                                       {{"PET_NNODES", "1:x"}},
                                       {{"RANK", "0"}, {"WORLD_SIZE", "two"}},
                                       {{"AWS_BATCH_JOB_NUM_NODES", "99999999999"}},
                                       {{"SLURM_STEP_NUM_TASKS", "-2"}},
                                       {{"OMPI_COMM_WORLD_LOCAL_SIZE", "x"}},
                                       {{"KILN_LAUNCHED", "1e3"}},
                                       {{"PMI_SIZE", "0x2"}}};
  for (const Environment::Values& values : cases) {
    const Environment wrong(values);
    const auto& [name, value] = *values.rbegin();
    try {
      detect_launch_environment();
      ADD_FAILURE() << name << " was taken";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(name + " is '" + value + "'"), std::string::npos)
          << error.message();
    }
    EXPECT_EQ(launched_rank(), 0) << "a failure must be told";
    EXPECT_EQ(launched_local_rank(), 0);
  }
  const Environment elastic(Environment::Values{{"PET_NNODES", "1:4"}});
  EXPECT_EQ(expected_size(), 4);
}

TEST(LaunchEnvironment, OneProcessIsAlone) {
  const Environment::Values cases[] = {
      {},
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
      {{"WORLD_SIZE", "4"}},
      {{"AZUREML_NODE_COUNT", "1"}},
      {{"CLUSTER_SPEC", R"({"cluster": {"workerpool0": ["a:1"]}})"}},
      {{"CLUSTER_SPEC", "no JSON"}},
      {{"CLUSTER_SPEC", R"({"cluster": 7})"}},
      {{"SLURM_STEP_NUM_TASKS", "1"}}};
  for (const Environment::Values& values : cases) {
    const Environment alone(values);
    EXPECT_EQ(expected_size(), 0);
    EXPECT_EQ(num_launched(), 1);
  }
}

}  // namespace
}  // namespace kiln
