// The answers of an MLflow server, over a real connection. The first byte chooses the status, the
// rest is the body. Statuses that are tried again after a pause are left out.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <thread>

#include "fuzz/fuzz.h"
#include "report/mlflow/mlflow_server.h"

namespace {

using namespace kiln;

// One connection after the other; every request gets the current answer.
class Server {
 public:
  Server() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    fuzz::require(::bind(listener_, any, size) == 0 && ::listen(listener_, 16) == 0 &&
                  ::getsockname(listener_, any, &size) == 0);
    port_ = ntohs(address.sin_port);
    std::thread([this] { serve(); }).detach();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void set_answer(std::string answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }

 private:
  void serve() {
    for (;;) {
      const int connection = ::accept(listener_, nullptr, nullptr);
      std::thread([this, connection] { serve_one(connection); }).detach();
    }
  }

  void serve_one(int connection) {
    std::string bytes;
    std::array<char, 4096> piece{};
    for (ssize_t count = 0; (count = ::recv(connection, piece.data(), piece.size(), 0)) > 0;) {
      bytes.append(piece.data(), static_cast<std::size_t>(count));
      const std::size_t head = bytes.find("\r\n\r\n");
      if (head == bytes.npos) continue;
      const std::size_t length = bytes.find("Content-Length: ");
      const int body = length == bytes.npos ? 0 : std::atoi(bytes.c_str() + length + 16);
      if (bytes.size() < head + 4 + static_cast<std::size_t>(body)) continue;
      bytes.clear();
      const std::lock_guard lock(mutex_);
      if (::send(connection, answer_.data(), answer_.size(), MSG_NOSIGNAL) < 0) break;
    }
    ::close(connection);
  }

  int listener_, port_ = 0;
  std::mutex mutex_;
  std::string answer_;
};

void begin_run(MlflowServer& server, const std::string& earlier) {
  fuzz::accepts<MlflowFailure>([&] {
    server.open_run(earlier);
    server.run_page();
    server.log_batch(log_pairs_json(server.run_id(), "params", {{"epochs", "5"}}));
    server.upload("page", "report.html");
    server.end_run("FINISHED");
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static constexpr std::array kStatuses = {200, 200, 200, 201, 301, 400, 401, 404};
  static Server& server = *new Server;
  static const auto complain = [](const std::string&) {};
  static MlflowServer given(
      {.tracking_uri = server.url(), .login = {.token = "secret"}, .run_id = "r"}, complain);
  static MlflowServer created({.tracking_uri = server.url(), .experiment_name = "a b"}, complain);
  if (size == 0) return 0;
  server.set_answer("HTTP/1.1 " + std::to_string(kStatuses[data[0] % kStatuses.size()]) +
                    " Said\r\nContent-Length: " + std::to_string(size - 1) + "\r\n\r\n" +
                    fuzz::text_of(data + 1, size - 1));
  begin_run(given, "");
  begin_run(created, "");
  begin_run(created, "r");
  return 0;
}
