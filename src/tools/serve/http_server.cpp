#include "tools/serve/http_server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>
#include <thread>
#include <unordered_set>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/platform/serving.h"
#include "base/text.h"
#include "base/url.h"

namespace kiln {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;
using Protocol = asio::generic::stream_protocol;  // TCP, or a socket in a folder
using Failure = beast::error_code;

constexpr std::uint32_t kMaxHeaderBytes = 16 << 10;
constexpr std::size_t kPieceBytes = 64 << 10;      // of a body, read at a time
constexpr std::size_t kSpareConnections = 64;      // that are told that there are too many
constexpr std::size_t kMaxIgnoredBytes = 8 << 20;  // of a refused request
constexpr std::chrono::seconds kLinger{2};
constexpr std::chrono::milliseconds kAcceptPause{100};

std::string text_of(beast::string_view text) {
  return {text.data(), text.size()};
}

class Session;

// Whether what was read is no request, rather than that nothing could be read.
bool is_fault_of_request(const Failure& failure) {
  return failure.category() == http::make_error_code(http::error::bad_version).category() &&
         failure != http::error::end_of_stream && failure != http::error::partial_message;
}

HttpResponse response_to_fault(const Failure& failure, std::size_t body_bytes) {
  if (failure == http::error::body_limit)
    return error_response(
        413, "The body is larger than " + bytes_text(body_bytes) + " (--max-body-mib).");
  if (failure == http::error::header_limit)
    return error_response(431, "The headers are larger than 16 KiB.");
  return error_response(400, "This is not HTTP: " + failure.message() + ".");
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const HttpHeader& header : headers)
    if (header.name == name) return header.value;
  return {};
}

HttpResponse error_response(int status, const std::string& sentence,
                            std::vector<HttpHeader> headers) {
  if (status == 503) headers.push_back({"Retry-After", "1"});
  return {.status = status,
          .body = "{\"error\": " + quote_json(for_people(sentence)) + "}\n",
          .headers = std::move(headers)};
}

std::string caught_fault() try {
  std::rethrow_exception(explained(std::current_exception()));
} catch (const Error& fault) {
  const bool is_memory = fault.code() == ErrorCode::kModuleOutOfMemory;
  return fault.message().substr(0, is_memory ? fault.message().find(". ") : std::string::npos);
} catch (const std::exception& fault) {
  return fault.what();
}

Responder::~Responder() {
  if (!send_) return;
  try {
    answer(error_response(500, "The server could not answer; its log says why."));
  } catch (const std::exception&) {  // no memory: the connection stays until the server ends
  }
}

struct HttpServer::Core {
  Core(const HttpLimits& its_limits, Log& its_log) : limits(its_limits), log(its_log) {}

  void accept();
  void run();

  const HttpLimits limits;
  Log& log;
  HttpHandler* handler = nullptr;
  std::unordered_set<Session*> sessions;
  std::size_t bytes_held = 0;
  bool is_ending = false;
  std::atomic<int> num_active = 0, num_connections = 0;
  asio::io_context context{1};
  // Requests that are being answered wait for no operation of the context.
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  asio::basic_socket_acceptor<Protocol> acceptor{context};
  std::filesystem::path socket_file;  // to be removed; empty: none
  asio::steady_timer pause{context};
  std::thread thread;
};

namespace {

// One connection: a request after the other. It owns itself, by the operation that it waits for.
class Session : public std::enable_shared_from_this<Session> {
  // Goes on with `next`, and lives until then.
  auto then(void (Session::*next)(Failure)) {
    return
        [self = shared_from_this(), next](Failure failure, std::size_t) { (*self.*next)(failure); };
  }

 public:
  Session(Protocol::socket socket, HttpServer::Core& core)
      : stream_(std::move(socket)), core_(core) {
    core_.sessions.insert(this);
    ++core_.num_connections;
  }
  ~Session() {
    finish_request();
    core_.sessions.erase(this);
    --core_.num_connections;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void read_head() {
    is_head_ = false;
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(core_.limits.body_bytes);
    allow_time();
    http::async_read_header(stream_, buffer_, *parser_, then(&Session::load_head));
  }

  void refuse(HttpResponse response) {
    core_.handler->add_refusal(response.status);
    is_last_ = true;
    parser_.reset();  // the memory of the body
    send(std::move(response));
  }

  // Unless a request has begun.
  void close_if_idle() {
    if (!is_active_ && buffer_.size() == 0) stream_.close();
  }

 private:
  static HttpResponse no_room() {
    return error_response(503, "All requests together hold too many bytes.");
  }

  // The bytes of a body or an answer. False: all sessions hold too much.
  bool hold(std::size_t bytes) {
    core_.bytes_held += bytes - std::exchange(bytes_held_, bytes);
    return core_.bytes_held <= core_.limits.total_bytes;
  }

  void allow_time() { stream_.expires_after(std::chrono::seconds(core_.limits.seconds)); }

  void load_head(Failure failure) {
    if (failure) return fail(failure);
    is_active_ = true;
    ++core_.num_active;
    const auto& head = parser_->get();
    if (head.version() == 11 && head.count(http::field::host) != 1)
      return refuse(error_response(400, "A request has one Host header."));
    const auto num_codings = head.count(http::field::transfer_encoding);
    const bool is_chunked = beast::iequals(head[http::field::transfer_encoding], "chunked");
    if (num_codings > 0 && (num_codings > 1 || !is_chunked || head.version() < 11))
      return refuse(error_response(501, "The only Transfer-Encoding that is read is chunked."));
    const std::string target = text_of(head.target());
    request_ = {.method = text_of(head.method_string()),
                .path = target.substr(0, target.find('?'))};
    for (const auto& field : head)
      request_.headers.push_back(
          {in_small_letters(text_of(field.name_string())), text_of(field.value())});
    is_head_ = request_.method == "HEAD";
    is_last_ = core_.is_ending || !parser_->keep_alive();
    if (std::optional<HttpResponse> refusal = core_.handler->refuse(request_)) {
      is_last_ = is_last_ || !parser_->is_done();
      return send(*std::move(refusal));
    }
    // What is announced counts at once: the newest is refused, and those before it go on.
    const std::size_t announced = parser_->content_length().value_or(0);
    if (!hold(announced) && announced > 0) return refuse(no_room());
    parser_->eager(true);
    allow_time();
    if (parser_->is_done() || !beast::iequals(head[http::field::expect], "100-continue"))
      return read_body();
    go_on_.version(11);
    go_on_.result(http::status::continue_);
    http::async_write(stream_, go_on_, then(&Session::finish_body));
  }

  void read_body() {
    if (parser_->is_done()) return pass_on();
    http::async_read_some(stream_, buffer_, *parser_, then(&Session::finish_body));
  }

  void finish_body(Failure failure) {
    if (failure) return fail(failure);
    if (!hold(std::max(bytes_held_, parser_->get().body().size()))) return refuse(no_room());
    read_body();
  }

  void pass_on() {
    stream_.expires_never();
    request_.body = std::move(parser_->get().body());
    // Leaves nothing of the session to the caller, since it must end on the server's thread.
    auto respond = [self = shared_from_this()](HttpResponse response) mutable {
      const auto executor = self->stream_.get_executor();
      asio::post(executor, [own = std::move(self), response = std::move(response)]() mutable {
        own->send(std::move(response));
      });
    };
    core_.handler->handle(std::move(request_), std::make_shared<Responder>(std::move(respond)));
  }

  void send(HttpResponse response) {
    if (!hold(response.body.size()) && response.body.size() > kPieceBytes) {
      response = no_room();
      hold(response.body.size());
      core_.handler->add_refusal(response.status);
    }
    response_.emplace();
    response_->version(11);
    response_->result(static_cast<unsigned>(response.status));
    response_->set(http::field::server, "kiln");
    if (!response.type.empty()) response_->set(http::field::content_type, response.type);
    for (const HttpHeader& header : response.headers) response_->set(header.name, header.value);
    is_last_ = is_last_ || core_.is_ending;
    response_->keep_alive(!is_last_);
    response_->content_length(response.body.size());
    if (!is_head_) response_->body() = std::move(response.body);
    allow_time();
    http::async_write(stream_, *response_, then(&Session::take_end));
  }

  void take_end(Failure failure) {
    finish_request();
    response_.reset();
    if (failure) return;
    if (!is_last_) return read_head();
    // A client that is still sending would lose the response to a reset of the connection.
    stream_.socket().shutdown(Tcp::socket::shutdown_send, failure);
    stream_.expires_after(kLinger);
    ignore_rest();
  }

  void ignore_rest() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kPieceBytes),
                            [self = shared_from_this()](Failure failure, std::size_t bytes) {
                              self->ignored_ += bytes;
                              if (!failure && self->ignored_ < kMaxIgnoredBytes)
                                self->ignore_rest();
                            });
  }

  void finish_request() {
    hold(0);
    if (std::exchange(is_active_, false)) --core_.num_active;
  }

  void fail(const Failure& failure) {
    if (is_fault_of_request(failure)) refuse(response_to_fault(failure, core_.limits.body_bytes));
  }

  beast::basic_stream<Protocol> stream_;
  HttpServer::Core& core_;
  beast::flat_buffer buffer_{kMaxHeaderBytes + kPieceBytes};
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::empty_body> go_on_;
  std::optional<http::response<http::string_body>> response_;
  HttpRequest request_;
  bool is_active_ = false, is_last_ = false, is_head_ = false;
  std::size_t bytes_held_ = 0, ignored_ = 0;
};

}  // namespace

void HttpServer::Core::accept() {
  acceptor.async_accept([this](Failure failure, Protocol::socket socket) {
    if (!acceptor.is_open()) return;
    if (failure) {  // no more descriptors, for example
      pause.expires_after(kAcceptPause);
      pause.async_wait([this](Failure stopped) {
        if (!stopped) accept();
      });
      return;
    }
    accept();
    if (sessions.size() < limits.connections + kSpareConnections) {
      socket.set_option(Tcp::no_delay(true), failure);
      const bool has_room = sessions.size() < limits.connections;
      const auto session = std::make_shared<Session>(std::move(socket), *this);
      if (has_room)
        session->read_head();
      else
        session->refuse(error_response(503, "Too many connections (--max-connections)."));
    }
  });
}

// What a connection throws, for lack of memory above all, ends that connection alone.
void HttpServer::Core::run() {
  while (!context.stopped()) try {
      context.run();
    } catch (const std::exception&) {
      log.warning("a connection was closed: " + caught_fault());
    }
}

HttpServer::HttpServer(const std::string& host, int port, const HttpLimits& limits, Log& log)
    : core_(std::make_unique<Core>(limits, log)) {
  try {
    Tcp::endpoint place(Tcp::v6(), static_cast<unsigned short>(port));
    Failure no_ipv6;
    if (host == kEveryInterface) core_->acceptor.open(place.protocol(), no_ipv6);
    if (core_->acceptor.is_open()) {
      core_->acceptor.set_option(asio::ip::v6_only(false));
    } else {
      place = Tcp::resolver(core_->context)
                  .resolve(host, std::to_string(port), Tcp::resolver::passive)
                  .begin()
                  ->endpoint();
      core_->acceptor.open(place.protocol());
    }
    core_->acceptor.set_option(Tcp::acceptor::reuse_address(true));
    core_->acceptor.bind(place);
    core_->acceptor.listen();
  } catch (const boost::system::system_error& failure) {
    throw Error(ErrorCode::kUserError,
                formatted("--host %s, --port %d: this address cannot be listened on: %s. Give "
                          "another --port, or stop the program that uses it.",
                          printable(host).c_str(), port, failure.code().message().c_str()));
  }
}

HttpServer::HttpServer(const std::filesystem::path& file, const HttpLimits& limits, Log& log)
    : core_(std::make_unique<Core>(limits, log)) {
  try {
    if (file.has_parent_path() && create_directories(file.parent_path()))
      permissions(file.parent_path(), std::filesystem::perms::owner_all);
    const asio::local::stream_protocol::endpoint place(file.string());
    Failure failure;
    core_->acceptor.open(place.protocol());
    core_->acceptor.bind(place, failure);
    if (failure) throw std::system_error(failure);
    core_->socket_file = file;
    permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    core_->acceptor.listen();  // before it, nobody can connect
  } catch (const std::system_error& failure) {
    throw Error(ErrorCode::kUserError,
                "--unix-socket " + quoted_path(file) +
                    " cannot be listened on: " + failure.code().message() +
                    ". Give a path in a folder of yours, without what a killed server has left.");
  }
}

HttpServer::~HttpServer() {
  stop();
  if (!core_->socket_file.empty()) remove_quietly(core_->socket_file);
}

int HttpServer::port() const {
  const auto place = core_->acceptor.local_endpoint();
  Tcp::endpoint internet;
  std::memcpy(internet.data(), place.data(), std::min(place.size(), internet.capacity()));
  return internet.port();
}

void HttpServer::start(HttpHandler& handler) {
  core_->handler = &handler;
  core_->accept();
  core_->thread = std::thread([core = core_.get()] { core->run(); });
}

void HttpServer::end_connections() {
  asio::post(core_->context, [core = core_.get()] { core->is_ending = true; });
}

void HttpServer::stop_listening() {
  asio::post(core_->context, [core = core_.get()] {
    core->acceptor.close();
    for (Session* session : core->sessions) session->close_if_idle();
  });
}

void HttpServer::stop() {
  core_->context.stop();
  if (core_->thread.joinable()) core_->thread.join();
}

int HttpServer::num_active() const {
  return core_->num_active;
}

int HttpServer::num_connections() const {
  return core_->num_connections;
}

}  // namespace kiln
