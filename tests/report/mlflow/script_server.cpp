#include "report/mlflow/script_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace kiln {
namespace {

// Reads until `enough`; empty if the client disconnects before.
template <typename Enough>
bool receive(int connection, std::string* bytes, Enough&& enough) {
  std::array<char, 65536> piece{};
  while (!enough()) {
    const ssize_t count = ::recv(connection, piece.data(), piece.size(), 0);
    if (count <= 0) return false;
    bytes->append(piece.data(), static_cast<std::size_t>(count));
  }
  return true;
}

void send_all(int connection, const std::string& text) {
  ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
}

Request parse_head(const std::string& head) {
  Request request;
  std::istringstream in(head);
  std::string line;
  in >> request.method >> request.path;
  std::getline(in, line);
  while (std::getline(in, line) && line != "\r") {
    const std::size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request.headers[name] = line.substr(colon + 2, line.size() - colon - 3);
  }
  return request;
}

}  // namespace

ScriptServer::ScriptServer(std::function<Reply(const Request&)> answer)
    : answer_(std::move(answer)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, any, size) != 0 || ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, any, &size) != 0)
    throw std::runtime_error("no port for the test's server");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

ScriptServer::~ScriptServer() {
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  for (const int connection : hanging_) ::close(connection);
  ::close(listener_);
}

std::vector<Request> ScriptServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::vector<Request> ScriptServer::requests_to(const std::string& end) const {
  std::vector<Request> found = requests();
  std::erase_if(found, [&](const Request& request) { return !request.path.ends_with(end); });
  return found;
}

void ScriptServer::serve() {
  while (true) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    serve_one(connection);
  }
}

void ScriptServer::serve_one(int connection) {
  std::string bytes;
  std::size_t head = 0;
  const auto has_head = [&] { return (head = bytes.find("\r\n\r\n")) != std::string::npos; };
  Request request;
  if (receive(connection, &bytes, has_head)) {
    request = parse_head(bytes.substr(0, head + 2) + "\r\n");
    if (request.headers.contains("expect")) send_all(connection, "HTTP/1.1 100 Continue\r\n\r\n");
    const std::string& length = request.headers["content-length"];
    const std::size_t wanted = head + 4 + (length.empty() ? 0 : std::stoul(length));
    receive(connection, &bytes, [&] { return bytes.size() >= wanted; });
    request.body = bytes.substr(head + 4);
  }
  const Reply reply = answer_(request);
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
  }
  if (reply.kind == Reply::Kind::kHang) {
    hanging_.push_back(connection);
    return;
  }
  if (reply.kind == Reply::Kind::kAnswer)
    send_all(connection, "HTTP/1.1 " + std::to_string(reply.status) +
                             " X\r\nConnection: close\r\n" +
                             "Content-Length: " + std::to_string(reply.body.size()) + "\r\n" +
                             reply.headers + "\r\n" + reply.body);
  ::close(connection);
}

}  // namespace kiln
