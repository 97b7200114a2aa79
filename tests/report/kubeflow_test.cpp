#include "report/sinks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

class KfpTest : public testing::Test {
 protected:
  KfpTest() {
    std::string name = testing::TempDir() + "kiln-kfp-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    run_.epochs.resize(2);
    for (int i = 0; i < 2; ++i) run_.epochs[static_cast<std::size_t>(i)].epoch = i + 1;
    run_.epochs[0].valid = {2, 3, 4, 4};
    run_.epochs[1].valid = {NAN, 1, 4, 4};
    run_.end.saved_epoch = 1;
  }
  ~KfpTest() override { std::filesystem::remove_all(folder_); }

  std::string executor_input() const {
    const Json other = {
        {{"name", "m"}, {"uri", "s3://b/m"}, {"type", {{"schemaTitle", "system.Model"}}}}};
    const Json metrics = {{{"name", "n1"},
                           {"uri", "s3://b/k"},
                           {"type", {{"schemaTitle", "system.Metrics"}}},
                           {"metadata", Json::object()}}};
    return Json{{"inputs", Json::object()},
                {"outputs",
                 {{"artifacts",
                   {{"a_model", {{"artifacts", other}}}, {"results", {{"artifacts", metrics}}}}},
                  {"outputFile", (folder_ / "made" / "output.json").string()}}}}
        .dump();
  }
  Json written(const std::string& name) const { return Json::parse(read_file(folder_ / name)); }

  std::filesystem::path folder_;
  RunRecord run_;
};

TEST_F(KfpTest, PutsTheSavedEpochIntoTheMetricsArtifact) {
  make_kfp_artifact(executor_input())->end(run_);
  const Json output = written("made/output.json");
  ASSERT_EQ(output.at("artifacts").size(), 1u);
  const Json artifact = output.at("artifacts").at("results").at("artifacts").at(0);
  EXPECT_EQ(artifact.at("name"), "n1");
  EXPECT_EQ(artifact.at("uri"), "s3://b/k");
  EXPECT_EQ(artifact.at("metadata").at("Top-1 validation accuracy"), 0.75);
  EXPECT_EQ(artifact.at("metadata").at("Valid loss"), 0.5);
}

TEST_F(KfpTest, WritesNumbersThatAreNotFiniteAsWords) {
  run_.end.saved_epoch = 2;
  make_kfp_artifact(executor_input())->end(run_);
  const Json output = written("made/output.json");
  EXPECT_EQ(output.at("/artifacts/results/artifacts/0/metadata/Valid loss"_json_pointer), "NaN");
}

TEST_F(KfpTest, RefusesUnfilledPlaceholders) {
  for (const char* text :
       {"{{$}}", "{}", "[1]", R"({"outputs": {"artifacts": {}, "outputFile": "x"}})"})
    EXPECT_THROW(make_kfp_artifact(text), Error) << text;
}

}  // namespace
}  // namespace kiln
