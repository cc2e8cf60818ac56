// What the evaluator keeps while it walks: values, memory, threads.
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "evaluate.h"
#include "fibers.h"
#include "pallasim/interp/kernels.h"
#include "trips.h"

namespace pallasim::oracle {

using Dims = std::vector<int64_t>;
inline bool has(const Dims& v, size_t d) { return std::find(v.begin(), v.end(), static_cast<int64_t>(d)) != v.end(); }
using ir::Attr;
using ir::DType;
using ir::Op;
using ir::OpCode;

// Why a run ends early.
struct Stop {
  std::string what;
};  // the kernel is wrong
struct Lack {
  std::string what;
};                  // the evaluator cannot do it
struct Abandon {};  // another thread ended the run

struct Memory;
// The same allocation of every thread: what a remote copy or signal reaches.
struct Family {
  std::vector<std::shared_ptr<Memory>> of;  // by thread
  const ir::Type* type = nullptr;
  std::string name;
  bool shared = false;  // by the threads of a device, or of a CTA
  // Of barriers: arrivals of a phase; groups of axes along which an arrival goes to others.
  int64_t arrivals = 1;
  std::vector<std::vector<std::string>> cross;
};
struct Barrier {
  int64_t expected = 1, arrived = 0, due = 0, phase = 0;  // due: bytes
  void settle();
};
struct Memory {
  static inline std::atomic<uint64_t> made{0};
  uint64_t number = ++made;
  std::vector<std::byte> bytes;
  std::vector<int64_t> counts;  // of semaphores
  std::vector<Barrier> barriers;
  DType dtype = DType::F32;  // of the elements that it was allocated for
  ir::Space space = ir::Space::Any;
  bool operand = false;  // an array of the call
  bool reads_outside = false;
  std::string name;
  Family* family = nullptr;
};

constexpr int64_t kOutside = -1, kPadding = -2, kIgnored = -3;

// Every element by its place: the address in bits of each of its parts, row-major; semaphores: their number.
struct Ref {
  std::shared_ptr<Memory> memory;
  DType dtype = DType::F32;
  Dims dims;
  std::vector<int64_t> at;  // kOutside: no such element; kPadding: perhaps padding of a TPU's tile;
                            // kIgnored: not copied
  int parts = 1;
  int bits = 0;  // of a part; 0: an element is one element of the memory
  bool read_only = false;
};

struct Value {
  std::shared_ptr<const Array> array;
  std::shared_ptr<const Ref> ref;
};

inline Value value_of(Array a) { return {std::make_shared<const Array>(std::move(a)), nullptr}; }
inline Value value_of(Ref r) { return {nullptr, std::make_shared<const Ref>(std::move(r))}; }

struct Thread {
  int index = 0, device = 0, body = 0;
  int fiber = 0;         // its number where threads take turns: of what it spawned it has others
  int core = 0;          // its place among the threads of its body
  int sparse_core = -1;  // of the device; -1: it runs on none
  std::vector<int64_t> coordinates, device_coordinates;
  const ir::Graph* graph = nullptr;
  std::vector<Value> env;
  std::vector<int64_t> point;  // of the grid
  int while_depth = 0;
  Trips trips;
  using Seen = std::map<const Barrier*, int64_t>;
  Seen seen;  // phases whose ends it saw
  // Of what it spawned: places on the axes of the inner mesh. Of who spawns: what each place saw besides, until now.
  std::vector<std::tuple<std::string, int64_t, int64_t>> inner;  // axis, place, size
  std::map<int64_t, Seen> besides;
  std::vector<std::shared_ptr<Thread>> children;
};

inline int64_t count(const Dims& d) {
  int64_t n = 1;
  for (int64_t x : d) n *= x;
  return n;
}
Dims strides_of(const Dims&);
Dims dims_of(const ir::Type*);
Dims ints(const Attr*);
const interp::Semantics& semantics_of(ir::Machine);

// f(index, n) for every index, row-major.
template <typename F>
void each_index(const Dims& dims, const F& f) {
  if (count(dims) == 0) return;
  Dims index(dims.size(), 0);
  for (int64_t n = 0;; ++n) {
    f(static_cast<const Dims&>(index), n);
    size_t d = dims.size();
    while (d > 0 && ++index[d - 1] == dims[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

Array empty_array(DType, Dims);
// One form per value of a sub-byte type: sign-extended or zero-extended.
void canonical(DType, std::byte* first, int64_t n);
int64_t integer(const Array&, int64_t n = 0);
Array integer_scalar(DType, int64_t);
void fill_unwritten(std::vector<std::byte>&, DType, bool noise, uint64_t* state);
using Arrays = std::vector<const Array*>;
Array elementwise(OpCode, DType operand, DType result, const Dims&, const Arrays&, interp::StripParams);
Array convert(const Array&, DType to, const interp::Semantics&);
int64_t dot(const Dims&, const Dims&);
// The elements x[base + index . step], x with its dimensions in another order.
Array strided(const Array& x, Dims dims, const Dims& step, int64_t base = 0);
Array permuted(const Array& x, const Dims& order);
// The value seen in the shape `dims`, trailing dimensions aligned as NumPy does.
Array spread(const Array&, const Dims& dims);
// The elements x[from(index)].
template <typename F>
Array pick(const Array& x, Dims dims, const F& from) {
  Array r = empty_array(x.dtype, std::move(dims));
  const auto size = static_cast<size_t>(ir::byte_size(x.dtype));
  each_index(r.dims, [&](const Dims& index, int64_t n) {
    const auto at = static_cast<size_t>(from(index));
    if (at >= x.bytes.size() / size) throw Lack{"attributes that name elements which an operand lacks"};
    std::copy_n(x.bytes.data() + at * size, size, r.bytes.data() + n * size);
  });
  return r;
}
// lax.gather: slices at the places that index vectors name (scatter.cc).
Array gather(const Array& x, const Array& where, const Op&, const Dims& result);
// x[n] = y[m]
inline void put(Array& x, int64_t n, const Array& y, int64_t m) {
  const auto size = static_cast<size_t>(ir::byte_size(x.dtype));
  std::copy_n(y.bytes.data() + m * size, size, x.bytes.data() + n * size);
}

// Regroups bits through the second minor dimension, as a TPU packs narrow elements: rows of one column share a word.
Array regroup(const Array&, DType to, int64_t outer, int64_t rows, int64_t inner);

Ref whole_ref(std::shared_ptr<Memory>, DType, Dims);
Array read(const Ref&);
void write(const Ref&, const Array&);
void read_element(const Ref&, int64_t n, std::byte* out);
void write_element(const Ref&, int64_t n, const std::byte* from);

class Machine {
 public:
  Machine(const ir::Module& m, std::span<const Array> args, const Setting& s)
      : m_(m), args_(args), setting_(s), noise_(s.noise) {}
  Outcome run();

 private:
  struct Window;
  using OpBody = void(Thread&, const Op&);
  using OpFamily = bool(Thread&, const Op&);  // false: not an operation of this family
  // evaluate.cc
  void bind();
  void bind_device(std::span<const Array> args);
  const ir::Graph& graph_of(const Thread& t) const { return m_.bodies[static_cast<size_t>(t.body)].graph; }
  void run_thread(Thread&, std::vector<Value>& body, std::vector<Window>&);
  Value operand_ref(Thread&, size_t i);
  Window make_window(Thread&, size_t i);
  void place_windows(Thread&, std::vector<Window>&, std::vector<Value>& body);
  void move(Window&, bool in);
  void left_over(const Memory&);
  bool is_aliased(size_t input) const;
  std::shared_ptr<Memory> new_memory(const ir::Type&, const std::string& name);
  std::shared_ptr<Memory> private_copy(Thread&, size_t i);
  Value allocated(Thread&, const ir::Type*, const void* site, const std::string& name);
  // control.cc, arrays.cc, reduce.cc, memory.cc, sync.cc, print.cc
  void tick();
  std::vector<Value> region(Thread&, const ir::Region&, const std::vector<Value>& args);
  std::vector<Value> walk(Thread&, const ir::Region&);
  OpFamily control, elementwise_op, shape_op, scatter_op, reduce_op, memory_op, sync_op;
  OpBody step, op_cond, op_while, op_for, op_scoped, op_spawn, op_index, op_reduce_region, op_access, op_atomic,
      op_copy;
  OpBody op_print;
  std::string text_of(Thread&, const Op&, const std::string& format, bool placeholders, size_t first);
  Ref view(Thread&, const Op&, const Ref&, std::span<const ir::View> transforms);
  Ref index_view(Thread&, const Op&, const Ref&, const ir::view::Index&);
  Ref keyed_view(Thread&, const Op&, const char* key);
  // teams.cc
  struct Team;
  void make_teams();
  void make_threads();
  int team_of(const std::string& mesh) const;
  bool share(const ir::Type&, int a, int b) const;
  void give(Family&, int thread, const std::shared_ptr<Memory>&);
  int reached(Thread&, const Op&);
  int64_t core_at(Thread&, const Op&, const Team&, const Attr& named);
  int peer(Thread&, const Op&, const char* what);
  Ref at_thread(const Ref&, int thread);
  int subcores(const Thread&) const;
  void op_barrier(Thread&);
  OpBody op_fetch_and_add;
  // peers.cc
  OpFamily peer_op;
  OpBody op_multimem, op_signals, op_request, op_answer;
  std::vector<int> everywhere(const Thread&) const;
  int on_device(const Thread&, int64_t device, const char* what) const;
  int cluster_threads() const;
  bool begins(const Thread&);
  // tensor.cc
  OpFamily tensor_op;
  OpBody op_tensor_product, op_tensor_copy, op_tensor_commit;
  std::vector<int> pair(const Thread&, const Op&) const;
  // gpu.cc
  OpFamily gpu_op;
  OpBody op_arrive, op_bulk, op_peer_store, op_product, op_ptx;
  int warpgroups() const;
  int moved(int from, const std::string& axis, int64_t at) const;
  std::vector<int> along(int from, const std::vector<std::string>& axes) const;
  void barrier_facts(Family&, const Attr* facts);
  Barrier& barrier(const Ref&, int thread);
  bool passed(Thread&, Barrier&, bool waits);
  int64_t& semaphore(const Ref&);
  void wait(Thread&, int64_t& count, int64_t value, bool take);
  void schedule(const std::vector<std::function<void()>>& bodies);
  void guarded(size_t fiber, const std::function<void()>& body);
  int next_thread(int after);
  void hand_over(Thread&, std::function<bool()> ready, bool polls);

  const Array& in(Thread& t, const Op& op, size_t i) const { return *t.env[op.operands[i]].array; }
  const Ref& ref(Thread& t, const Op& op, size_t i) const {
    const Value& v = t.env[op.operands[i]];
    if (!v.ref) throw Lack{std::string(ir::name(op.code)) + " of this operand"};
    return *v.ref;
  }
  std::vector<Value> operands(Thread& t, const Op& op) const {
    std::vector<Value> r;
    for (ir::ValueId v : op.operands) r.push_back(t.env[v]);
    return r;
  }
  void define(Thread& t, const Op& op, const std::vector<Value>& values) {
    for (size_t i = 0; i < op.results.size(); ++i) t.env[op.results[i]] = values[i];
  }
  void out(Thread& t, const Op& op, Array a, size_t i = 0) { t.env[op.results[i]] = value_of(std::move(a)); }
  void out(Thread& t, const Op& op, Ref r) { t.env[op.results[0]] = value_of(std::move(r)); }
  const ir::Type* type(Thread& t, const Op& op, size_t i = 0) const { return t.graph->type(op.results[i]); }
  size_t inputs() const { return m_.operands.size() - static_cast<size_t>(m_.count(ir::Operand::Kind::Output)); }
  bool is_tpu() const { return m_.machine == ir::Machine::Tpu; }
  bool is_triton() const { return m_.machine == ir::Machine::Triton; }

  const ir::Module& m_;
  std::span<const Array> args_;
  Setting setting_;
  std::vector<std::vector<std::shared_ptr<Memory>>> devices_;  // the operands' arrays, of each device
  std::vector<std::unique_ptr<Thread>> threads_;
  struct Team {  // the threads of a body on a device
    const ir::Mesh* mesh = nullptr;
    int first = 0, size = 1, subcores = 1;
  };
  std::vector<Team> teams_;
  int cores_ = 1;  // threads of a device
  std::vector<std::pair<std::string, int64_t>> device_axes_;
  std::vector<int64_t> grid_;
  std::map<const void*, Family> families_;
  struct Gate {  // where the subcores of a SparseCore come together
    int arrived = 0;
    int64_t phase = 0;
  };
  std::map<int, Gate> gates_;                         // by the SparseCore's first thread
  std::map<std::pair<int, int64_t>, Barrier> named_;  // by CTA and number
  std::set<int> begun_, taken_;                       // clusters
  uint64_t noise_;
  int64_t steps_ = 0;
  Outcome outcome_;

  // One thread runs at a time, until it waits or ends.
  Fibers* fibers_ = nullptr;                  // null: there is one thread
  std::vector<std::function<bool()>> ready_;  // by thread: whether it can go on; null: it has ended
  int running_ = -1;
  bool over_ = false;
};

// A block of an operand in memory of its own, or as a part of the array.
struct Machine::Window {
  size_t operand = 0;
  std::shared_ptr<Memory> array, stage;  // no stage: the kernel sees the array
  bool output = false, valid = false;
  Dims start, size;    // where it lies in the array, and how many elements of each dimension belong to it
  Dims extent, shown;  // with and without squeezed dimensions
  bool read_only = false;
};

}  // namespace pallasim::oracle
