// Members of a zip archive in memory. Archives are untrusted: everything that one claims is checked before a member is
// read, and nothing is ever written to a path that it names.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace pallasim::capsule {

struct ZipLimits {
  int64_t max_total_bytes = 8LL << 30;  // of all members together, uncompressed
};

// Stored and deflated members, without encryption, below 4 GiB and 65,535 members in all (no zip64 directory).
class ZipReader {
 public:
  // `bytes` must outlive the reader; `file_name` is for messages. Throws PS-CAP-001 (damaged, or of a kind that is not
  // read) and PS-CAP-002 (refused: names, sizes, ratios).
  ZipReader(std::string_view bytes, std::string file_name, const ZipLimits& = {});
  ~ZipReader();
  ZipReader(ZipReader&&) noexcept;

  bool has(const std::string& member) const { return members_.count(member) != 0; }
  // Uncompressed bytes. Throws PS-CAP-005 for a member that is not there, as read() does.
  int64_t size(const std::string& member) const;
  // Throws PS-CAP-001 when the member's data is damaged, PS-CAP-002 when it is longer than `limit`.
  std::string read(const std::string& member, int64_t limit) const;

 private:
  struct Member {
    uint64_t index;
    int64_t bytes;
  };
  const Member& find(const std::string& member) const;
  void check_directory(const ZipLimits&);

  struct Handle;
  std::unique_ptr<Handle> handle_;
  std::string file_name_;
  std::map<std::string, Member> members_;
};

// Whether a file begins like a zip archive; IR text never does.
bool looks_like_zip(std::string_view bytes);

}  // namespace pallasim::capsule
