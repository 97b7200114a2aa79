#include "report/mlflow/mlflow_server.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

std::string url_of(const std::string& uri) {
  std::string user, password;
  const std::string url = mlflow_server_url(uri, &user, &password);
  return user.empty() ? url : user + "|" + password + "|" + url;
}

std::string refusal_of(const std::string& uri) {
  try {
    return "taken as " + url_of(uri);
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(MlflowText, ALoginThatBreaksTheUrlIsRefusedAndNotShown) {
  for (const std::string sign : {"/", "#", "?"}) {
    const std::string text = refusal_of("http://us:pa" + sign + "WORD@127.0.0.1:5000");
    EXPECT_NE(text.find("write / as %2F"), std::string::npos) << text;
    EXPECT_EQ(text.find("WORD"), std::string::npos) << text;
  }
  EXPECT_EQ(url_of("http://us:pa%2FWORD@127.0.0.1:5000"), "us|pa/WORD|http://127.0.0.1:5000");
  EXPECT_EQ(url_encoded("7/my exp/é%20x", kPathSigns), "7/my%20exp/%C3%A9%20x");
}

TEST(MlflowText, FindsTheServer) {
  EXPECT_EQ(url_of("http://host:5000"), "http://host:5000");
  EXPECT_EQ(url_of("https://host/sub/path//"), "https://host/sub/path");
  EXPECT_EQ(url_of("azureml://eastus.api.azureml.ms/mlflow/v1.0/workspaces/w?"),
            "https://eastus.api.azureml.ms/mlflow/v1.0/workspaces/w");
  EXPECT_EQ(url_of("https://me:p%40ss%2Fword@host/x"), "me|p@ss/word|https://host/x");
}

TEST(MlflowText, RefusesInvalidUrls) {
  for (const char* folder : {"file:///tmp/mlruns", "file:mlruns", "mlruns", "/tmp/mlruns", "./x"})
    EXPECT_NE(refusal_of(folder).find("names a folder, not a server"), std::string::npos) << folder;
  EXPECT_NE(refusal_of("sqlite:///mlflow.db").find("begins with 'sqlite:'"), std::string::npos);
  for (const char* workspace : {"databricks", "databricks://profile", "databricks-uc"})
    EXPECT_NE(refusal_of(workspace).find("Databricks"), std::string::npos) << workspace;
  for (const char* host : {"localhost:5000", "localhost", "10.0.0.1:5000", "me:pa55@host:5000"}) {
    EXPECT_NE(refusal_of(host).find("http://"), std::string::npos) << host;
    EXPECT_EQ(refusal_of(host).find("folder"), std::string::npos) << host;
    EXPECT_EQ(refusal_of(host).find("pa55"), std::string::npos) << host;
  }
  EXPECT_NE(refusal_of("http://").find("has no host"), std::string::npos);
  EXPECT_NE(refusal_of("http:///path").find("has no host"), std::string::npos);
}

TEST(MlflowText, KeepsNamesWithinTheServersLimits) {
  EXPECT_EQ(mlflow_name("Top-1 validation accuracy"), "Top-1 validation accuracy");
  EXPECT_EQ(mlflow_name("<script>\"a\"\n\xE2\x80\xAE"), "_script__a_____");
  EXPECT_EQ(mlflow_name(std::string(300, 'a')), std::string(250, 'a'));
}

TEST(MlflowText, WritesNumbersThatAreNotFiniteAsWords) {
  const std::vector<MlflowPoint> points = {
      {"a", NAN, 12, 3}, {"b", INFINITY, 12, 3}, {"c", -INFINITY, 12, 3}, {"d", 0.5, 12, 3}};
  const Json body = Json::parse(log_metrics_json("run", points));
  EXPECT_EQ(body.at("run_id"), "run");
  EXPECT_EQ(body.at("metrics").at(0),
            (Json{{"key", "a"}, {"value", "NaN"}, {"timestamp", 12}, {"step", 3}}));
  EXPECT_EQ(body.at("metrics").at(1).at("value"), "Infinity");
  EXPECT_EQ(body.at("metrics").at(2).at("value"), "-Infinity");
  EXPECT_EQ(body.at("metrics").at(3).at("value"), 0.5);
}

TEST(MlflowText, ShortensLongValuesBetweenCharacters) {
  std::string path = std::string(499, 'a') + "\xC3\xA9";
  const Json params = Json::parse(log_pairs_json("run", "params", {{"p", path}})).at("params");
  EXPECT_EQ(params.at(0).at("value"), std::string(499, 'a'));
  const Json tags =
      Json::parse(log_pairs_json("run", "tags", {{"t", path + "\x01\xFF"}})).at("tags");
  EXPECT_EQ(tags.at(0).at("value"), path + "\\x01\\xff");
}

TEST(MlflowText, EscapesUrls) {
  EXPECT_EQ(url_encoded("a b/\xC3\xA9&c.txt"), "a%20b%2F%C3%A9%26c.txt");
}

}  // namespace
}  // namespace kiln
