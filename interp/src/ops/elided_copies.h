// Memory that copies alone write and loads alone read: what arrived there may stay where it came from, as long as
// nobody needs its bytes here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace pallasim::interp {

class ElidedCopies {
 public:
  // An element of an operand of a device, which nobody writes.
  struct Source {
    int32_t device = 0;
    uint32_t buffer = 0;
    int64_t offset = 0;  // bytes
    Source behind(int64_t bytes) const { return {device, buffer, offset + bytes}; }
    bool operator==(const Source&) const = default;
  };
  static constexpr size_t kMostPieces = 64;

  // Nothing arrived yet.
  void clear() { pieces_.clear(); }
  // Whether bytes that had stayed away had to come after all: others like them better come at once.
  bool gathers() const { return gathers_; }
  void reset() { clear(), gathers_ = false; }
  // Bytes [begin, end) arrive, in the place of what arrived there before: at `from`, where they stay as they are for as
  // long as the memory is used, or, where there is none, in the memory itself. False: there are too many pieces to keep
  // account of them; `materialise` makes one of them.
  [[nodiscard]] bool arrive(int64_t begin, int64_t end, std::optional<Source> from);
  // Where bytes [begin, end) lie side by side: there, or in the memory itself.
  struct Found {
    bool whole = false;          // they all arrived, and lie side by side
    std::optional<Source> from;  // of the first one; none: in the memory
  };
  Found find(int64_t begin, int64_t end) const;
  // All `bytes` of the memory at `own` lie in it from now on; `unwritten` is called for runs that nobody wrote,
  // `bytes_of` says where the bytes of a source are.
  void materialise(std::byte* own, int64_t bytes, const std::function<const std::byte*(const Source&)>& bytes_of,
                   const std::function<void(int64_t begin, int64_t end)>& unwritten);
  bool operator==(const ElidedCopies& o) const { return pieces_ == o.pieces_ && gathers_ == o.gathers_; }

 private:
  struct Piece {
    int64_t begin, end;
    std::optional<Source> from;
    bool operator==(const Piece&) const = default;
  };
  std::vector<Piece> pieces_;  // in ascending order
  std::vector<Piece> next_;    // scratch
  bool gathers_ = false;
};

}  // namespace pallasim::interp
