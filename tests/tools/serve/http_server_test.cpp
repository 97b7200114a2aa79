// Requests that are answered late and from other threads.
#include "tools/serve/http_server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "base/http.h"

namespace kiln {
namespace {

using namespace std::chrono_literals;

// Passes on requests, for other threads to answer.
class Requests : public HttpHandler {
 public:
  std::optional<HttpResponse> refuse(const HttpRequest&) override { return {}; }
  void handle(HttpRequest, std::shared_ptr<Responder> responder) override {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(responder));
    arrived_.notify_one();
  }
  void add_refusal(int) override {}

  std::shared_ptr<Responder> next() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return !waiting_.empty(); });
    std::shared_ptr<Responder> responder = std::move(waiting_.back());
    waiting_.pop_back();
    return responder;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::shared_ptr<Responder>> waiting_;
};

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() { server_.start(requests_); }

  // The body of the answer on a connection of its own.
  std::string ask() const {
    const std::string url = "http://127.0.0.1:" + std::to_string(server_.port());
    return HttpClient().send({.url = url, .timeout_s = 60, .use_proxy = false}).body;
  }

  Log log_;
  Requests requests_;
  HttpServer server_{
      "127.0.0.1",
      0,
      {.body_bytes = 1 << 20, .total_bytes = 1 << 20, .connections = 100, .seconds = 60},
      log_};
};

TEST_F(HttpServerTest, AnswersWhatRunsOnceItListensNoMore) {
  std::future<std::string> said = std::async(std::launch::async, [&] { return ask(); });
  const std::shared_ptr<Responder> responder = requests_.next();
  server_.end_connections();
  server_.stop_listening();
  std::this_thread::sleep_for(300ms);  // nothing else is left to do for the server
  responder->answer({.body = "late"});
  EXPECT_EQ(said.get(), "late");
}

TEST_F(HttpServerTest, AnswersHaveTheRoomOfBodies) {
  for (const std::size_t bytes : {(2U << 20), (1U << 20), (2U << 20)}) {
    std::future<std::string> said = std::async(std::launch::async, [&] { return ask(); });
    requests_.next()->answer({.body = std::string(bytes, 'x')});
    EXPECT_EQ(said.get().size() == bytes, bytes == 1U << 20);
  }
}

// For the thread sanitizer: a connection that a client closes at once ends on the server's thread.
TEST_F(HttpServerTest, AnyThreadMayAnswer) {
  constexpr int kThreads = 8, kRequests = 50;
  server_.end_connections();
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kRequests; ++n) EXPECT_EQ(ask(), "answer");
    });
    threads.emplace_back([&] {
      for (int n = 0; n < kRequests; ++n) requests_.next()->answer({.body = "answer"});
    });
  }
  threads.clear();
  for (int i = 0; i < 500 && server_.num_connections() > 0; ++i) std::this_thread::sleep_for(20ms);
  EXPECT_EQ(server_.num_connections(), 0);
  EXPECT_EQ(server_.num_active(), 0);
}

}  // namespace
}  // namespace kiln
