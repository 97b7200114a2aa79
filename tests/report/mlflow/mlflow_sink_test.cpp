// The sink with a server that replies like MLflow, or as a test specifies.
// tests/flow/test_mlflow.py uses a real server.
#include "report/mlflow/mlflow_sink.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "report/mlflow/script_server.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr const char* kRun = R"({"run": {"info": {"run_id": "r1", "experiment_id": "7",
                                  "artifact_uri": "mlflow-artifacts:/7/r1/artifacts"}}})";

Reply like_mlflow(const Request& request) {
  if (request.path.ends_with("runs/create") || request.path.find("runs/get?") != std::string::npos)
    return {.body = kRun};
  if (request.path.find("get-by-name") != std::string::npos)
    return {.status = 404, .body = R"({"message": "none"})"};
  if (request.path.ends_with("experiments/create")) return {.body = R"({"experiment_id": "7"})"};
  return {};
}

RunRecord small_run() {
  RunRecord run;
  run.start.options = {{"epochs", "2"}, {"config", ""}};
  run.start.versions = {{"kiln", "1.2.3"}, {"commit", "abc"}};
  run.start.device = "CPU";
  run.start.data.classes = {"cat", "dog"};
  run.start.data.train_path = "/data/train";
  EpochRecord epoch;
  epoch.epoch = 1;
  epoch.valid = {.loss_sum = NAN, .top1 = 3, .top5 = 4, .count = 4};
  run.epochs.push_back(epoch);
  run.end.status = RunStatus::kFinished;
  return run;
}

// The losses that the sink reports.
std::string tell(const RunRecord& run, MlflowSettings settings, Log& log,
                 std::vector<std::filesystem::path> files = {}) {
  MlflowSink sink(std::move(settings), std::move(files), true, log);
  sink.start(run.start);
  for (const StepRecord& step : run.steps) sink.step(step);
  for (const EpochRecord& epoch : run.epochs) sink.epoch(epoch, nullptr);
  sink.end(run);
  return sink.lost();
}

// By name, from all log-batch calls: kind is "metrics", "params" or "tags".
std::map<std::string, Json> logged(const ScriptServer& server, const std::string& kind) {
  std::map<std::string, Json> values;
  for (const Request& request : server.requests_to("runs/log-batch")) {
    const Json body = Json::parse(request.body);
    if (!body.contains(kind)) continue;
    for (const Json& item : body.at(kind)) values[item.at("key")] = item.at("value");
  }
  return values;
}

TEST(MlflowSink, LoginsEchoedByAServerAreNotShown) {
  const auto refuse = [](const std::string& message) {
    return [message](const Request&) {
      return Reply{.status = 400, .body = Json{{"message", message}}.dump()};
    };
  };
  const std::string token(40, 't');
  ScriptServer late(refuse(std::string(290, 'x') + token));
  Log log;
  const std::string cut =
      tell(small_run(), {.tracking_uri = late.url(), .login = {.token = token}}, log);
  EXPECT_EQ(cut.find("tttt"), std::string::npos) << cut;
  ScriptServer basic(refuse("no: Basic dXU6c2VjcmV0"));
  const std::string coded =
      tell(small_run(),
           {.tracking_uri = basic.url(), .login = {.user = "uu", .password = "secret"}}, log);
  EXPECT_NE(coded.find("no: Basic ***"), std::string::npos) << coded;
}

TEST(MlflowSink, CreatesFillsAndEndsARun) {
  ScriptServer server(like_mlflow);
  Log log;
  EXPECT_EQ(tell(small_run(), {.tracking_uri = server.url(), .experiment_name = "my x"}, log), "");
  EXPECT_EQ(Json::parse(server.requests_to("experiments/create").at(0).body),
            (Json{{"name", "my x"}}));
  EXPECT_EQ(Json::parse(server.requests_to("runs/create").at(0).body).at("experiment_id"), "7");
  EXPECT_EQ(logged(server, "params").at("epochs"), "2");
  EXPECT_FALSE(logged(server, "params").contains("config"));
  const auto tags = logged(server, "tags");
  EXPECT_EQ(tags.at("version"), "1.2.3");
  EXPECT_EQ(tags.at("commit"), "abc");
  EXPECT_EQ(tags.at("device"), "CPU");
  EXPECT_EQ(tags.at("training data"), "/data/train");
  EXPECT_EQ(logged(server, "metrics").at("Valid loss"), "NaN");
  EXPECT_EQ(logged(server, "metrics").at("Top-1 validation accuracy"), 0.75);
  EXPECT_EQ(Json::parse(server.requests_to("runs/update").at(0).body).at("status"), "FINISHED");
}

TEST(MlflowSink, ReportsHowARunEnded) {
  for (const auto& [status, word] :
       {std::pair{RunStatus::kStopped, "KILLED"}, {RunStatus::kFailed, "FAILED"}}) {
    ScriptServer server(like_mlflow);
    Log log;
    RunRecord run = small_run();
    run.end.status = status;
    tell(run, {.tracking_uri = server.url()}, log);
    EXPECT_EQ(Json::parse(server.requests_to("runs/update").at(0).body).at("status"), word);
  }
}

TEST(MlflowSink, NeitherCreatesNorEndsAGivenRun) {
  ScriptServer server(like_mlflow);
  Log log;
  EXPECT_EQ(tell(small_run(), {.tracking_uri = server.url(), .run_id = "r1"}, log), "");
  EXPECT_EQ(server.requests_to("runs/create").size(), 0u);
  EXPECT_EQ(server.requests_to("runs/update").size(), 0u);
  EXPECT_EQ(server.requests_to("runs/get?run_id=r1").size(), 1u);
  EXPECT_FALSE(logged(server, "metrics").empty());
}

TEST(MlflowSink, KeepsBatchesWithinTheServersLimits) {
  ScriptServer server(like_mlflow);
  Log log;
  RunRecord run = small_run();
  run.steps.resize(300);
  for (int i = 0; i < 250; ++i) run.start.options.emplace_back("o" + std::to_string(i), "x");
  EXPECT_EQ(tell(run, {.tracking_uri = server.url()}, log), "");
  std::size_t num_metrics = 0;
  for (const Request& request : server.requests_to("runs/log-batch")) {
    const Json body = Json::parse(request.body);
    EXPECT_LE(body.value("metrics", Json::array()).size(), 250u);
    EXPECT_LE(body.value("params", Json::array()).size(), 100u);
    num_metrics += body.value("metrics", Json::array()).size();
  }
  EXPECT_GE(num_metrics, 900u);
  EXPECT_GE(logged(server, "params").size(), 251u);
}

TEST(MlflowSink, ClassNamesAreMadeValidAndStayDistinct) {
  ScriptServer server(like_mlflow);
  Log log;
  RunRecord run = small_run();
  run.start.data.classes = {"<b>", "\"b\"", "a/../cat", std::string(300, 'x')};
  run.details.epoch = 1;
  run.details.confusion = {4, {1, 1, 0, 0, 0, 4, 0, 0, 0, 3, 1, 0, 0, 0, 0, 2}};
  EXPECT_EQ(tell(run, {.tracking_uri = server.url()}, log), "");
  const auto metrics = logged(server, "metrics");
  EXPECT_EQ(metrics.at("Recall/class _b_"), 0.5);
  EXPECT_EQ(metrics.at("Recall/number 1"), 1.0);
  EXPECT_EQ(metrics.at("Recall/class a_.._cat"), 0.25);
  EXPECT_EQ(metrics.at("Recall/class " + std::string(237, 'x')), 1.0);
}

TEST(MlflowSink, NeverShowsASecretThatTheServerEchoes) {
  ScriptServer server([](const Request& request) {
    return Reply{.status = 401,
                 .body = Json{{"message", "bad: " + request.headers.at("authorization")}}.dump()};
  });
  Log log;
  const std::string lost =
      tell(small_run(), {.tracking_uri = server.url(), .login = {.token = "geheim"}}, log);
  EXPECT_NE(lost.find("HTTP status 401 (bad: Bearer ***): check MLFLOW_TRACKING_TOKEN"),
            std::string::npos)
      << lost;
  ASSERT_EQ(log.take_warnings().size(), 1u);
}

TEST(MlflowSink, ReportsAMissingRun) {
  ScriptServer server([](const Request&) { return Reply{.status = 404, .body = "<html>"}; });
  Log log;
  const std::string lost = tell(small_run(), {.tracking_uri = server.url(), .run_id = "no"}, log);
  EXPECT_NE(lost.find("points could not be sent: HTTP status 404: MLFLOW_RUN_ID must name a run"),
            std::string::npos)
      << lost;
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(MlflowSink, TreatsAnHtmlPageAsAFailure) {
  ScriptServer server([](const Request&) { return Reply{.body = "<html>Log in"}; });
  Log log;
  const std::string lost = tell(small_run(), {.tracking_uri = server.url()}, log);
  EXPECT_NE(lost.find("the response is not JSON: a login page"), std::string::npos) << lost;
}

TEST(MlflowSink, CountsOnlyRefusedCalls) {
  std::atomic<int> batches = 0;
  ScriptServer server([&](const Request& request) {
    const bool metrics = request.body.find("\"metrics\"") != std::string::npos;
    if (metrics && ++batches == 1) return Reply{.status = 401, .body = R"({"message": "no"})"};
    return like_mlflow(request);
  });
  Log log;
  RunRecord run = small_run();
  run.steps.resize(200);
  const std::string lost = tell(run, {.tracking_uri = server.url()}, log);
  EXPECT_TRUE(lost.starts_with("250 of 6")) << lost;
  EXPECT_NE(lost.find("could not be sent: HTTP status 401 (no)"), std::string::npos) << lost;
  EXPECT_EQ(server.requests_to("runs/update").size(), 1u);
}

TEST(MlflowSink, LosesOnlyTheNamesThatTheServerRefuses) {
  ScriptServer server([](const Request& request) {
    const bool has_colon = request.body.find("a:b") != std::string::npos;
    if (request.path.ends_with("log-batch") && has_colon)
      return Reply{.status = 400, .body = R"({"message": "invalid name"})"};
    return like_mlflow(request);
  });
  Log log;
  RunRecord run = small_run();
  run.start.options.emplace_back("a:b", "1");
  run.start.data.classes = {"a:b", "cat", "dog"};
  run.details.confusion = {3, {1, 0, 0, 0, 1, 0, 0, 0, 1}};
  const std::string lost = tell(run, {.tracking_uri = server.url()}, log);
  EXPECT_TRUE(lost.starts_with("1 of ")) << lost;
  EXPECT_NE(lost.find("points, 1 of "), std::string::npos) << lost;
  EXPECT_NE(lost.find(" parameters could not be sent (refused: 'a:b', 'Recall/class a:b'): "),
            std::string::npos)
      << lost;
  EXPECT_NE(lost.find("'a:b' was refused: HTTP status 400 (invalid name)"), std::string::npos);
}

// Of small_run(), after an interruption, with one more epoch since.
RunRecord interrupted_run() {
  RunRecord run = small_run();
  StepRecord step;
  step.epoch = 1;
  for (step.step = 1; step.step <= 300; ++step.step) run.steps.push_back(step);
  run.sink_states = {{"MLflow", "r1"}};
  run.interruptions.push_back({.epoch = 2});
  return run;
}

std::string tell_resumed(const RunRecord& run, MlflowSettings settings, Log& log,
                         std::string* state = nullptr) {
  MlflowSink sink(std::move(settings), {}, true, log);
  sink.resume(run);
  EpochRecord next = run.epochs.back();
  next.epoch = 2;
  sink.epoch(next, nullptr);
  sink.end(run);
  if (state != nullptr) *state = sink.state();
  return sink.lost();
}

// The steps of one metric, in the order in which they arrived.
std::vector<int> logged_steps(const ScriptServer& server, const std::string& metric) {
  std::vector<int> steps;
  for (const Request& request : server.requests_to("runs/log-batch"))
    for (const Json& point : Json::parse(request.body).value("metrics", Json::array()))
      if (point.at("key") == metric) steps.push_back(point.at("step"));
  return steps;
}

// The run of like_mlflow() with contents.
Reply with_contents(const Request& request) {
  Json answer = Json::parse(kRun);
  answer["run"]["data"] = {{"metrics",
                            {{{"key", "Train loss"}, {"value", 1.0}, {"step", 1}},
                             {{"key", "Step/loss"}, {"value", 1.0}, {"step", "290"}}}},
                           {"params", {{{"key", "epochs"}, {"value", "1"}}}}};
  if (request.path.find("runs/get?") != std::string::npos) return {.body = answer.dump()};
  return like_mlflow(request);
}

TEST(MlflowSink, AResumedRunContinuesItsRunAndSendsNothingTwice) {
  ScriptServer server(with_contents);
  Log log;
  std::string state;
  EXPECT_EQ(tell_resumed(interrupted_run(), {.tracking_uri = server.url()}, log, &state), "");
  EXPECT_EQ(state, "r1");
  EXPECT_EQ(server.requests_to("runs/get?run_id=r1").size(), 1U);
  EXPECT_EQ(server.requests_to("runs/create").size(), 0U);
  EXPECT_EQ(logged_steps(server, "Train loss"), std::vector<int>{2});
  EXPECT_EQ(logged_steps(server, "Step/loss").size(), 10U);
  EXPECT_EQ(logged_steps(server, "Valid loss"), (std::vector<int>{1, 2})) << "the server has none";
  EXPECT_FALSE(logged(server, "params").contains("epochs")) << "it keeps its first value";
  EXPECT_TRUE(logged(server, "params").contains("ranks"));
  const auto updates = server.requests_to("runs/update");
  ASSERT_EQ(updates.size(), 2U);
  EXPECT_EQ(Json::parse(updates[0].body).at("status"), "RUNNING");
  EXPECT_EQ(Json::parse(updates[1].body).at("status"), "FINISHED");
}

TEST(MlflowSink, AResumedRunThatTheServerLacksIsCreatedWithAllItsPoints) {
  for (const bool is_deleted : {false, true}) {
    ScriptServer server([&](const Request& request) {
      if (request.path.find("runs/get?") == std::string::npos) return like_mlflow(request);
      Json answer = Json::parse(kRun);
      answer["run"]["info"]["lifecycle_stage"] = "deleted";
      return is_deleted ? Reply{.body = answer.dump()} : Reply{.status = 404};
    });
    Log log;
    EXPECT_EQ(tell_resumed(interrupted_run(), {.tracking_uri = server.url()}, log), "");
    EXPECT_EQ(server.requests_to("runs/create").size(), 1U);
    EXPECT_EQ(logged_steps(server, "Step/loss").size(), 300U);
    EXPECT_TRUE(logged(server, "params").contains("epochs"));
  }
}

TEST(MlflowSink, AGivenRunWinsOverTheOneBeforeTheInterruption) {
  ScriptServer server(with_contents);
  Log log;
  EXPECT_EQ(tell_resumed(interrupted_run(), {.tracking_uri = server.url(), .run_id = "given"}, log),
            "");
  EXPECT_EQ(server.requests_to("runs/get?run_id=given").size(), 1U);
  EXPECT_EQ(server.requests_to("runs/get?run_id=r1").size(), 0U);
  EXPECT_EQ(server.requests_to("runs/update").size(), 0U);
  EXPECT_EQ(logged_steps(server, "Train loss"), std::vector<int>{2});
}

TEST(MlflowSink, CountsAllPointsOfAResumedRunAsLostWithoutAServer) {
  ScriptServer server([](const Request&) { return Reply{.status = 401}; });
  Log log;
  RunRecord run = interrupted_run();
  run.steps.resize(200);
  const std::string lost = tell_resumed(run, {.tracking_uri = server.url()}, log);
  const std::size_t of = lost.find(" of ");
  ASSERT_NE(of, std::string::npos) << lost;
  EXPECT_EQ(std::stoi(lost), std::stoi(lost.substr(of + 4)));
  EXPECT_GT(std::stoi(lost), 600);
}

class MlflowFilesTest : public testing::Test {
 protected:
  MlflowFilesTest() {
    std::string name = testing::TempDir() + "kiln-mlflow-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    for (const char* file : {"report.html", "training.json", "weights"})
      std::ofstream(folder_ / file) << file << " of this run";
  }
  ~MlflowFilesTest() override { std::filesystem::remove_all(folder_); }

  std::string tell_with_files(const ScriptServer& server) {
    RunRecord run = small_run();
    run.end.model_path = folder_;
    return tell(run, {.tracking_uri = server.url()}, log_,
                {folder_ / "report.html", folder_ / "none.html"});
  }

  std::filesystem::path folder_;
  Log log_;
};

TEST_F(MlflowFilesTest, SendsTheReportAndTheMetricsFiles) {
  ScriptServer server(like_mlflow);
  EXPECT_EQ(tell_with_files(server), "");
  const auto report =
      server.requests_to("/api/2.0/mlflow-artifacts/artifacts/7/r1/artifacts/report.html");
  ASSERT_EQ(report.size(), 1u);
  EXPECT_EQ(report[0].method, "PUT");
  EXPECT_EQ(report[0].body, "report.html of this run");
  EXPECT_EQ(server.requests_to("artifacts/training.json").size(), 1u);
  EXPECT_EQ(server.requests_to("none.html").size() + server.requests_to("weights").size(), 0u);
}

TEST_F(MlflowFilesTest, EndsTheRunIfTheSystemCannotSayWhetherAFileExists) {
  ScriptServer server(like_mlflow);
  std::filesystem::remove(folder_ / "report.html");
  std::filesystem::create_symlink("report.html", folder_ / "report.html");  // leads to itself
  EXPECT_EQ(tell_with_files(server), "");
  EXPECT_EQ(server.requests_to("artifacts/training.json").size(), 1u);
  EXPECT_EQ(Json::parse(server.requests_to("runs/update").at(0).body).at("status"), "FINISHED");
}

TEST_F(MlflowFilesTest, ReportsAnUnreachableArtifactStore) {
  ScriptServer server([](const Request& request) {
    Reply reply = like_mlflow(request);
    const std::size_t at = reply.body.find("mlflow-artifacts");
    if (at != std::string::npos) reply.body.replace(at, 16, "abfss");
    return reply;
  });
  const std::string lost = tell_with_files(server);
  EXPECT_NE(lost.find("report.html, training.json could not be sent: the run "
                      "stores its artifacts under 'abfss:'"),
            std::string::npos)
      << lost;
  EXPECT_EQ(log_.take_warnings().size(), 1u);
}

// For a server that hangs, only memory for the newest points is used.
TEST(MlflowSink, NeverWaitsForAServerThatHangs) {
  ScriptServer server([](const Request&) { return Reply{.kind = Reply::Kind::kHang}; });
  Log log;
  MlflowSink sink({.tracking_uri = server.url()}, {}, true, log);
  sink.begin({}, {});
  const std::size_t num_points = 3 * MlflowSink::kMaxWaiting;
  for (std::size_t i = 0; i < num_points; ++i) sink.add({{"x", 1.0, 1, static_cast<long>(i)}});
  EXPECT_LE(server.requests().size(), 1u);  // the first call took all of them
  sink.finish("FINISHED");
  EXPECT_TRUE(sink.lost().starts_with("30000 of 30000 points could not be sent: ")) << sink.lost();
  EXPECT_EQ(log.take_warnings().size(), 1u);
}

}  // namespace
}  // namespace kiln
