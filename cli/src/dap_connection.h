// Messages of the Debug Adapter Protocol: JSON behind a header with its length.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "commands.h"

namespace pallasim::cli {

class DapConnection {
 public:
  // `early`: told of each request as it comes, by another OS thread.
  DapConnection(int in, int out, std::function<void(const Json&)> early);
  ~DapConnection();
  DapConnection(const DapConnection&) = delete;
  DapConnection& operator=(const DapConnection&) = delete;
  std::optional<Json> next();  // none: the other side is gone
  void send(Json);             // gives it its number

 private:
  void receive();
  bool fill();
  int in_, out_;
  std::function<void(const Json&)> early_;
  std::string bytes_;
  int64_t sent_ = 0;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Json> waiting_;
  bool over_ = false;
  std::thread reader_;
};

// Listens on the port of this machine, says so on standard error, and returns who connects. Throws PS-IO-001.
int accept_on(int port);

}  // namespace pallasim::cli
