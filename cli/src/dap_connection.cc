#include "dap_connection.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

#include "io.h"

namespace pallasim::cli {

constexpr size_t kLongest = 64 << 20;  // bytes of a message

DapConnection::DapConnection(int in, int out, std::function<void(const Json&)> early)
    : in_(in), out_(out), early_(std::move(early)), reader_([this] { receive(); }) {}

DapConnection::~DapConnection() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  reader_.join();
}

// More bytes; false: there are no more, or nobody wants them.
bool DapConnection::fill() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (over_) return false;
    }
    pollfd p{in_, POLLIN, 0};
    if (::poll(&p, 1, 100) == 0) continue;
    char buffer[4096];
    const ssize_t n = ::read(in_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes_.append(buffer, static_cast<size_t>(n));
    return true;
  }
}

void DapConnection::receive() {
  for (;;) {
    size_t end;
    while ((end = bytes_.find("\r\n\r\n")) == std::string::npos)
      if (bytes_.size() > 4096 || !fill()) goto gone;
    {
      const std::string header = bytes_.substr(0, end);
      constexpr std::string_view kLength = "Content-Length:";
      const size_t at = header.find(kLength);
      size_t length = 0;
      if (at == std::string::npos) break;
      const char* digits = header.c_str() + at + kLength.size();
      while (*digits == ' ') ++digits;
      if (std::from_chars(digits, header.c_str() + header.size(), length).ec != std::errc() || length > kLongest) break;
      while (bytes_.size() < end + 4 + length)
        if (!fill()) goto gone;
      Json message = Json::parse(bytes_.substr(end + 4, length), nullptr, false);
      bytes_.erase(0, end + 4 + length);
      if (message.is_discarded() || !message.is_object()) continue;
      early_(message);
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(message));
      came_.notify_one();
    }
  }
gone:
  const std::lock_guard lock(mutex_);
  over_ = true;
  came_.notify_one();
}

std::optional<Json> DapConnection::next() {
  std::unique_lock lock(mutex_);
  came_.wait(lock, [this] { return over_ || !waiting_.empty(); });
  if (waiting_.empty()) return {};
  Json r = std::move(waiting_.front());
  waiting_.pop_front();
  return r;
}

void DapConnection::send(Json message) {
  message["seq"] = ++sent_;
  const std::string body = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string all = fmt::format("Content-Length: {}\r\n\r\n{}", body.size(), body);
  for (size_t at = 0; at < all.size();) {
    const ssize_t n = ::write(out_, all.data() + at, all.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    at += static_cast<size_t>(n);
  }
}

int accept_on(int port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool ok = listener >= 0 && ::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                  ::listen(listener, 1) == 0;
  if (!ok) {
    const std::string why = std::strerror(errno);
    if (listener >= 0) ::close(listener);
    fail("PS-IO-001", fmt::format("port {} cannot be listened on", port), {why}, "choose another --port");
  }
  fmt::print(stderr, "listening on 127.0.0.1:{}\n", port);
  std::fflush(stderr);
  const int client = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  if (client < 0) fail("PS-IO-001", "nobody could connect", {std::strerror(errno)});
  return client;
}

}  // namespace pallasim::cli
