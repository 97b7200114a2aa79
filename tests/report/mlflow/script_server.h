// A real HTTP server on its own port, with replies defined by the test.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace kiln {

struct Request {
  std::string method, path;
  std::map<std::string, std::string> headers;  // names in lowercase
  std::string body;
};

struct Reply {
  int status = 200;
  std::string body = "{}";
  std::string headers = {};  // whole lines with \r\n
  enum class Kind { kAnswer, kHang, kBreak } kind = Kind::kAnswer;
};

class ScriptServer {
 public:
  // `answer` is called on the server's thread, one request at a time.
  explicit ScriptServer(std::function<Reply(const Request&)> answer);
  ~ScriptServer();
  ScriptServer(const ScriptServer&) = delete;
  ScriptServer& operator=(const ScriptServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<Request> requests() const;
  // The requests whose path ends in `end`.
  std::vector<Request> requests_to(const std::string& end) const;

 private:
  void serve();
  void serve_one(int connection);

  std::function<Reply(const Request&)> answer_;
  int listener_ = -1, port_ = 0;
  std::vector<int> hanging_;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::thread thread_;
};

}  // namespace kiln
