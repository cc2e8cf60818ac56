#include "pallasim/capsule/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "pallasim/capsule/archive.h"

namespace pallasim::capsule {
namespace {
namespace fs = std::filesystem;

struct Close {
  void operator()(std::FILE* f) const {
    if (f != stdin) std::fclose(f);
  }
};
using File = std::unique_ptr<std::FILE, Close>;

}  // namespace

void fail(ir::Code code, std::string message, std::vector<std::string> numbers, std::string hint) {
  ir::Diagnostic(code, std::move(message)).with(std::move(numbers)).hinted(std::move(hint)).raise();
}

std::string read_input(const std::string& path, int64_t limit, int64_t zip_limit) {
  const std::string shown = path == "-" ? "standard input" : path;
  auto unreadable = [&](const std::string& why) { fail("PS-IO-001", fmt::format("cannot read {}", shown), {why}); };
  std::error_code error;
  if (path != "-" && fs::is_directory(path, error)) unreadable("it is a directory");
  File file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  if (!file) unreadable(std::strerror(errno));
  std::string text;
  // The size of a regular file is known; pipes and devices grow until the limit.
  const auto size = path == "-" ? 0 : fs::file_size(path, error);
  if (path != "-" && !error && size <= static_cast<uintmax_t>(limit)) text.reserve(static_cast<size_t>(size));
  char chunk[1 << 16];
  while (size_t n = std::fread(chunk, 1, sizeof chunk, file.get())) {
    if (text.empty() && looks_like_zip({chunk, n})) limit = std::max(limit, zip_limit);
    if (text.size() + n > static_cast<size_t>(limit))
      fail("PS-IO-003", fmt::format("{} is too long", shown), {fmt::format("at most {} bytes are read", limit)});
    text.append(chunk, n);
  }
  if (std::ferror(file.get())) unreadable(std::strerror(errno));
  return text;
}

void write_file(const std::string& path, std::string_view bytes) {
  auto unwritable = [&](const std::string& why) { fail("PS-IO-002", fmt::format("cannot write {}", path), {why}); };
  std::error_code error;
  // A link stays one: what it points at is replaced.
  fs::path target = path;
  if (std::error_code ignored; fs::is_symlink(target, ignored)) target = fs::weakly_canonical(target, error);
  if (error) unwritable(error.message());
  const fs::path temporary = fmt::format("{}.{}.part", target.string(), ::getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (!file) unwritable(std::strerror(errno));
  bool ok = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  int why = errno;
  if (std::fclose(file) != 0 && ok) ok = false, why = errno;
  std::error_code absent;
  const auto status = fs::status(target, absent);
  if (ok && fs::exists(status)) fs::permissions(temporary, status.permissions(), error);
  if (ok) fs::rename(temporary, target, error);
  if (!ok || error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    unwritable(ok ? error.message() : std::strerror(why));
  }
}

void make_directory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !fs::is_directory(path, error)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) fail("PS-IO-002", fmt::format("cannot make the folder {}", path), {error.message()});
}

std::string safe_file_name(std::string_view name) {
  std::string r;
  for (unsigned char c : name.substr(0, 100)) {
    const bool keep = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
                      c == '-' || (c == '.' && !r.empty());
    r += keep ? static_cast<char>(c) : '_';
  }
  return r.empty() ? "output" : r;
}

std::string human_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double v = static_cast<double>(bytes) / 1024;
  int unit = 0;
  for (; v >= 1024 && unit < 5; ++unit) v /= 1024;
  return fmt::format("{:.{}f} {}", v, v == static_cast<int64_t>(v) ? 0 : 1, kUnits[unit]);
}

}  // namespace pallasim::capsule
