// Which memory steps touch, as data: beside each body that touches memory stands its footprint.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "../plan/kinds.h"
#include "../plan/payload/arithmetic.h"
#include "execution.h"

namespace pallasim::interp::ops {

// Receives the boxes of a step, one after the other, in the order in which it reads and writes them.
class Boxes {
 public:
  Boxes(const Thread& t, const Step& s) : t_(t), s_(s) {}
  virtual ~Boxes() = default;
  Boxes(const Boxes&) = delete;
  Boxes& operator=(const Boxes&) = delete;

  using Dims = std::span<const int64_t>;  // elements
  // `bytes`: of an element.
  void read(const Addr& a, Dims dims, Dims strides, int bytes) { add(a, dims, strides, bytes, {}); }
  void write(const Addr& a, Dims dims, Dims strides, int bytes) { add(a, dims, strides, bytes, {.write = true}); }
  // Of the compiler's own: results of reductions, what is printed, copies of blocks.
  void internal(const Addr& a, Dims dims, Dims strides, int bytes, bool write) {
    if (wants_internal()) add(a, dims, strides, bytes, {.write = write, .internal = true});
  }
  struct How {
    bool write = false, internal = false, atomic = false, chosen = false, unwritten = false;
    int32_t owner = -1;  // the thread whose memory it is; -1: the step's
  };
  // `places`: as of Access.
  void add(const Addr&, Dims dims, Dims strides, int bytes, const How&, std::span<const int64_t> places = {});
  void element(const Addr& a, int bytes, const How& how) { add(a, {}, {}, bytes, how); }
  // Of a buffer that is wanted, at a place that is known.
  void element_at(const Addr& a, int bytes, bool write);
  int32_t owner(const memory::Place& p) const { return t_.exec->thread_of(p); }
  virtual bool wants(uint32_t /*buffer*/) const { return true; }
  virtual bool wants_internal() const { return true; }
  // Whether it matters how often, and in which order, an atomic operation comes to a place.
  virtual bool wants_each_visit() const { return false; }

 protected:
  virtual void box(const Access&) = 0;
  // Boxes of one form. Who looks at each of them for itself does no more than box().
  virtual void boxes(const Access& a) {
    each_place(a, [this](const Access& one) { box(one); });
  }
  template <typename F>
  static void each_place(Access a, const F& f) {
    const int64_t *const places = std::exchange(a.places, nullptr), n = std::exchange(a.boxes, 1);
    for (int64_t i = 0; i < n; ++i) {
      if (places) a.offset = places[i];
      f(a);
    }
  }

 private:
  ir::LocId line();  // of the step
  const Thread& t_;
  const Step& s_;
  static constexpr ir::LocId kUnasked = -2;
  ir::LocId line_ = kUnasked;
};

// Elements at addresses that are found one by one, as few accesses: elements beside each other are a row, equal rows at
// equal distances a block, and equal rows at no distance in particular a list of places. What is left is told of with
// flush().
class ChosenElements {
 public:
  ChosenElements(Boxes& out, const Thread& t, uint32_t buffer, const Boxes::How& how)
      : out_(out), base_(t.bases[buffer]), buffer_(buffer), how_(how) {
    how_.chosen = true;
  }
  // Each is read, then written, as a rule in an order that is nobody's business: what lies side by side is one row.
  static ChosenElements modified(Boxes& out, const Thread& t, uint32_t buffer, const Boxes::How& how) {
    ChosenElements r(out, t, buffer, how);
    r.modified_ = true;
    r.sorts_ = !out.wants_each_visit();
    return r;
  }
  void add(const std::byte* at, int bytes) { add_row(at, 1, 1, bytes); }
  // `count` elements of `bytes`, `stride` elements apart.
  void add_row(const std::byte* at, int64_t count, int64_t stride, int bytes);
  void flush();

 private:
  void append(int64_t offset, int bytes);
  void put_in_order();
  void end_row();
  void emit();      // the block
  void end_list();  // of places
  void tell(int64_t first, Boxes::Dims dims, Boxes::Dims strides, std::span<const int64_t> places);
  Boxes& out_;
  const std::byte* base_;
  uint32_t buffer_;
  Boxes::How how_;
  bool modified_ = false, sorts_ = false;
  struct Row {
    int64_t offset, count;
  };
  std::vector<Row> rows_;                                     // as they come, to be sorted
  int bytes_ = 1;                                             // of an element
  int64_t row_ = 0, count_ = 0;                               // the row that grows: its offset, and elements
  struct Block {                                              // of complete rows
    int64_t first = 0, rows = 0, elements = 0, distance = 0;  // distance: bytes from one row to the next
  } block_;
  std::vector<int64_t> list_;  // of rows that are no block
  int64_t list_elements_ = 0;  // of each
};

// The boxes of a step that is about to run, but those of the sides of asynchronous operations that it starts or ends
// (Footprint::Operations). May stop where the step itself would: an index that lies outside.
void footprint(Thread&, const Step&, Boxes&);
// The element that a load_scalar or store_scalar touches, where its index lies inside; else, and of what has no place
// of its own (slots, memory of another thread by its alias), an offset of -1.
ElementAccess element(const Thread&, const Step&);
// Of an elementwise program by itself.
void footprint(const EltProgram&, Boxes&);

// A side of an asynchronous operation, of `dims` elements; of chosen rows those that move.
void side_boxes(const memory::AsyncOperation&, const memory::Side&, bool write, const int64_t* dims, Boxes&);

// Beside the bodies of their kinds.
#define PALLASIM_FOOTPRINT(kind) void kind##_footprint(Thread&, const Step&, Boxes&);
PALLASIM_FOOTPRINT(load_scalar)
PALLASIM_FOOTPRINT(store_scalar)
PALLASIM_FOOTPRINT(reinterpret)
PALLASIM_FOOTPRINT(gather)
PALLASIM_FOOTPRINT(load_in_place)
PALLASIM_FOOTPRINT(store_rows)
PALLASIM_FOOTPRINT(atomic)
PALLASIM_FOOTPRINT(window_staged)
PALLASIM_FOOTPRINT(window_flush)
PALLASIM_FOOTPRINT(row_copy)
PALLASIM_FOOTPRINT(fetch_and_add)
PALLASIM_FOOTPRINT(peer_read)
PALLASIM_FOOTPRINT(multimem_store)
PALLASIM_FOOTPRINT(multimem_reduce)
PALLASIM_FOOTPRINT(cluster_answer)
PALLASIM_FOOTPRINT(bulk_load)
PALLASIM_FOOTPRINT(bulk_store)
PALLASIM_FOOTPRINT(tmem_load)
PALLASIM_FOOTPRINT(tmem_store)
#undef PALLASIM_FOOTPRINT

}  // namespace pallasim::interp::ops
