#include "report/mlflow/mlflow_server.h"

#include <gtest/gtest.h>

#include "report/mlflow/script_server.h"

namespace kiln {
namespace {

using Clock = PersistentHttp::Clock;

// A server that gives these replies in turn, and then repeats the last one.
ScriptServer server_of(std::vector<Reply> replies) {
  return ScriptServer([replies, next = std::size_t{0}](const Request&) mutable {
    return replies[std::min(next++, replies.size() - 1)];
  });
}

HttpAnswer get(const std::string& url, double seconds, std::vector<std::string>* complaints) {
  PersistentHttp http({}, [&](const std::string& reason) { complaints->push_back(reason); });
  http.end_by(Clock::now() + std::chrono::milliseconds(static_cast<int>(seconds * 1000)));
  return http.call({.url = url + "/x"});
}

TEST(PersistentHttp, RetriesTransientFailures) {
  ScriptServer server =
      server_of({{.status = 503}, {.kind = Reply::Kind::kBreak}, {.body = "[1]"}});
  std::vector<std::string> complaints;
  const HttpAnswer answer = get(server.url(), 60, &complaints);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "[1]");
  EXPECT_EQ(server.requests().size(), 3u);
  EXPECT_TRUE(complaints.empty());
}

TEST(PersistentHttp, DoesNotRetryARefusal) {
  for (const int status : {301, 400, 401, 404}) {
    ScriptServer server = server_of({{.status = status, .headers = "Location: /y\r\n"}});
    std::vector<std::string> complaints;
    EXPECT_EQ(get(server.url(), 60, &complaints).status, status);
    EXPECT_EQ(server.requests().size(), 1u);
  }
}

TEST(PersistentHttp, WaitsAsLongAsTheServerAsks) {
  ScriptServer server = server_of({{.status = 429, .headers = "Retry-After: 2\r\n"}, {}});
  std::vector<std::string> complaints;
  const auto begin = Clock::now();
  EXPECT_EQ(get(server.url(), 60, &complaints).status, 200);
  EXPECT_GE(Clock::now() - begin, std::chrono::seconds(2));
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST(PersistentHttp, GivesUpIfTheWaitIsTooLong) {
  ScriptServer server = server_of({{.status = 429, .headers = "Retry-After: 3000\r\n"}});
  std::vector<std::string> complaints;
  EXPECT_EQ(get(server.url(), 100, &complaints).status, 429);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(PersistentHttp, TimesOutOnAServerThatHangs) {
  ScriptServer server = server_of({{.kind = Reply::Kind::kHang}});
  std::vector<std::string> complaints;
  const HttpAnswer answer = get(server.url(), 0.3, &complaints);
  EXPECT_EQ(answer.status, 0);
  EXPECT_NE(failure_text(answer).find("timed out"), std::string::npos) << answer.failure;
}

TEST(PersistentHttp, ComplainsOnceOfWhatLasts) {
  ScriptServer server = server_of({{.status = 500}});
  std::vector<std::string> complaints;
  EXPECT_EQ(get(server.url(), 4, &complaints).status, 500);
  EXPECT_EQ(complaints, std::vector<std::string>{"HTTP status 500"});
}

TEST(PersistentHttp, NamesAnUnreachableServer) {
  std::string url;
  {
    ScriptServer gone = server_of({{}});
    url = gone.url();
  }
  std::vector<std::string> complaints;
  const HttpAnswer answer = get(url, 0.2, &complaints);
  EXPECT_NE(answer.failure.find("Failed to connect to 127.0.0.1"), std::string::npos)
      << answer.failure;
}

TEST(HttpClient, LogsInByTokenOrElseByPassword) {
  ScriptServer server = server_of({{}});
  HttpClient({.token = "abc", .user = "me", .password = "pw"}).send({.url = server.url()});
  HttpClient({.user = "me", .password = "pw"}).send({.url = server.url()});
  HttpClient().send({.url = server.url()});
  const std::vector<Request> requests = server.requests();
  EXPECT_EQ(requests[0].headers.at("authorization"), "Bearer abc");
  EXPECT_EQ(requests[1].headers.at("authorization"), "Basic bWU6cHc=");
  EXPECT_FALSE(requests[2].headers.contains("authorization"));
}

}  // namespace
}  // namespace kiln
