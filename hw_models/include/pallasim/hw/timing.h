// What work costs on a chip: figures with their sources, the cost of an operation, and what shares a rate. Seconds,
// bytes and operations throughout, as doubles.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pallasim/hw/chips.h"
#include "pallasim/ir/module.h"

namespace pallasim::hw {

// -- figures --

enum class FigureStatus : uint8_t { Measured, Published, Guessed };
std::string_view name(FigureStatus);

// One line of hw_models/timing/NAME.csv, or a figure of the chip's own file that time depends on.
struct TimingFigure {
  std::string name;
  double value = 0;
  std::string unit;
  FigureStatus status = FigureStatus::Guessed;
  std::string source, note;
};

// The figures of one chip, by name. Which of them were asked for is kept: a prediction lists those it rests on.
class TimingFigures {
 public:
  explicit TimingFigures(std::vector<TimingFigure> all);
  // Throws std::out_of_range for a name that the chip has no figure for (a defect; tested for every chip).
  double operator()(std::string_view name) const;
  double value_or(std::string_view name, double otherwise) const;
  const TimingFigure* find(std::string_view name) const;
  // The same with one figure multiplied: how much does it matter?
  TimingFigures scaled(std::string_view name, double factor) const;
  // The same of a chip whose clock is so many times as fast: all but what belongs to memory, links and the host.
  TimingFigures clocked(double factor) const;
  std::vector<const TimingFigure*> used() const;  // asked for so far
  const std::vector<TimingFigure>& all() const { return *all_; }

 private:
  std::shared_ptr<const std::vector<TimingFigure>> all_;  // by name; copies have the same
  mutable std::vector<bool> used_;
};

// Of `chip`; null where it has no model of time (generic).
std::unique_ptr<TimingFigures> timing_figures(const Profile& chip);
// Reads `name,value,unit,status,source,note`. Throws std::runtime_error naming the line that is malformed.
std::vector<TimingFigure> parse_timing(std::string_view chip, std::string_view csv);

// -- work --

// What a core computes with. A TPU's: scalar core, VALUs, EUP, XLUs, MXUs, loads from VMEM and stores to it. A GPU's:
// uniform datapath, SIMT lanes, special function units, shuffles, tensor core, ports of shared memory for both.
enum class Unit : uint8_t { Scalar, Vector, Special, Cross, Matrix, Access, Write };
inline constexpr int kUnits = 7;
std::string_view name(Unit, Family);
inline constexpr size_t kMxus = 4;  // of a core, at most

// What one operation asks of its core, and of the memory beyond it.
struct Work {
  std::array<double, kUnits> busy{};  // seconds of each unit
  double latency = 0;                 // seconds behind it until what follows can begin; no unit is busy
  double before = 0;                  // before it begins, that operands behind the first must be there
  double ahead = 0;                   // of `before`, in which its unit is busy with it
  double flops = 0;                   // multiplications and additions of products, 1 per element of other arithmetic
  double bytes = 0;                   // of the device's memory that it reads or writes itself: a GPU's loads and stores
  bool reads = false, writes = false;  // which of the two
  bool at_once = false;                // no part of its result is there before all of it is
  bool by_rows = false;                // it takes whole rows
  double first = 0, first_row = 0;     // seconds of its unit until a part of its result is done, and a row
  std::array<double, kMxus> mxus{};    // a TPU's product: seconds of each MXU, whose mean is that of the unit
  double total() const;
  Work& operator+=(const Work&);
};

// How units of one thread follow each other.
enum class Overlap : uint8_t {
  Packed,   // a compiler packs what lies between two waits: the busiest unit counts, or what waits for results (VLIW)
  InOrder,  // one operation behind the other; other threads use what is idle
};

// A contraction as a product of matrices, `batch` of them.
struct ProductShape {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  ir::DType dtype = ir::DType::F32;    // of its operands, the wider one, or what an algorithm splits them into
  bool highest = false;                // f32 operands are multiplied in full
  int passes = 1;                      // products that are added up, where operands are split
  bool asynchronous = false;           // the tensor core fetches its operands (wgmma, tcgen05)
  bool left_elsewhere = false;         // of those the left one lies in registers or tensor memory
  bool right_k_last = false;           // what is summed over lies side by side in the right operand
  int64_t ctas = 1;                    // that multiply together, each with its part of the right operand
  std::array<double, kMxus> shares{};  // of a TPU's MXUs; none: all have as much of it
  double flops() const;
};

// Where registers do not hold what is alive at a time: what goes to memory and comes back.
struct Spilled {
  const ir::Op* at = nullptr;        // that makes the largest of it; null: they hold all
  double needed = 0, registers = 0;  // at the worst place, and that there are
  double bytes = 0;
};

// The costs of operations of one machine on one chip. Pure: of an operation and the types of its values. Operations
// that are asynchronous cost nothing here; what they move is a matter of Transfers, what they multiply of product().
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual Work of(const ir::Op&, const ir::Graph&) const = 0;
  virtual Work product(const ProductShape&) const = 0;
  // What an operation's operands need to come to where its result is, besides its own work.
  virtual Work rearranged(const ir::Op&, const ir::Graph&) const { return {}; }
  // What was loaded to shared memory of which lanes make a product's left operand each time; -1: nothing.
  virtual ir::ValueId fetched_by(const ir::Op&) const { return -1; }
  // Whether lanes have to spread a row or a column over an array before a tensor core can add a product to it.
  virtual bool spread(ir::ValueId, const ir::Graph&) const { return false; }
  // Of so many bytes in registers that go through shared memory to a product.
  virtual Work staged(double bytes) const { return (void)bytes, Work{}; }
  // Elements side by side of an atomic operation that one lane has: it asks for them one after the other.
  virtual double side_by_side(const ir::Op&, const ir::Graph&) const { return 1; }
  // Of a TPU, in the region where it is most; a GPU's follow from its warps.
  virtual Spilled spilled() const { return {}; }
  // Registers of a lane for products that are under way at a time, where they do not suffice and a warpgroup has to
  // wait for each of its instructions; 0: they do.
  virtual double waits_for_registers() const { return 0; }
  // Seconds that one of its products takes longer then, with so many programs on a core.
  virtual double waits(const ir::Op&, const ir::Graph&, double programs) const { return (void)programs, 0.0; }
  Overlap overlap = Overlap::InOrder;
  // Two threads of a core that do the same end together. Measured of Triton's attention with one warp on each quarter
  // of an SM (tests/truth/trips_h100.json); of more programs or warps, and where memory is waited for, some come first.
  bool end_together = false;
  bool spreads_last = false;    // of programs that are alike each core takes as many of the last ones as others
  double together_latency = 0;  // of its latency, what each of those keeps the other one from working
  bool operands_in_shared_memory = false;  // tensor cores read them there
  double issue_share = 1;                  // of a core's units that one thread can keep busy
  double behind_a_product = 1;  // what an addition costs that a multiplication's result goes to, as a part of another
};
// `warps`: of one thread of the kernel (a warpgroup has 4, a Triton program as many as it asks for).
std::unique_ptr<CostModel> cost_model(const ir::Module&, const Profile&, const TimingFigures&, int64_t warps);

// -- who shares a rate --

// Transfers that are under way at the same time have equal shares of a rate.
class FairShare {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  explicit FairShare(double rate = 1) : rate_(rate) {}
  void add(double now, double work, int64_t id);  // `now` never goes back
  double next() const;                            // when the first of them is through; kNever: there is none
  int64_t take();                                 // that one, at next()
  size_t active() const { return heap_.size(); }
  double served() const { return served_; }  // work so far, of those that are through
  double busy() const { return busy_; }      // seconds in which somebody was served
  double rate() const { return rate_; }

 private:
  struct Entry {
    double end, work;  // `end`: in shares, see shares_
    int64_t id;
    bool operator>(const Entry& o) const { return end != o.end ? end > o.end : id > o.id; }
  };
  void advance(double now);
  double rate_, now_ = 0, shares_ = 0;  // work that each of them has had since the beginning
  double served_ = 0, busy_ = 0;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

// A unit that takes one piece of work at a time, in the order in which it comes.
class Server {
 public:
  // Begins at `now` or when the one before is done; returns the end.
  double take(double now, double seconds) {
    free_ = (now > free_ ? now : free_) + seconds;
    busy_ += seconds;
    return free_;
  }
  double free() const { return free_; }
  double busy() const { return busy_; }

 private:
  double free_ = 0, busy_ = 0;
};

// Transfers that each need several rates at once (the port of a core, a cache, a memory), and are through when the last
// of them has served them and the way is over. Events come in the order of their times: ask next(), do step().
class Transfers {
 public:
  static constexpr double kNever = FairShare::kNever;
  struct Use {
    int resource;
    double work;
  };
  struct Done {
    int64_t tag;
    double time, begin, latency;
    int resource;  // that was the last to serve it; -1: it needed none
  };
  // Who is served: all at once with equal shares, or one behind the other as they come (queues of requests, which a
  // core has sent before another one sends its own).
  enum class Order : uint8_t { Shared, Queued };
  int add(std::string name, double rate, Order = Order::Shared);  // a resource; its number
  // `there`: when what it asks for is there; served before it is waited for.
  void begin(double now, double latency, const Use* uses, size_t count, int64_t tag, double there = 0);
  double next();     // time of the next event; kNever: nothing is under way
  bool step(Done*);  // has it happen; true: a transfer is through by it
  size_t resources() const { return shares_.size(); }
  double busy(int resource) const;  // seconds at its full rate, of what was served
  // When one that is Queued begins to serve who comes now.
  double free(int resource) const { return queues_[static_cast<size_t>(resource)].free(); }
  const std::string& name(int resource) const { return names_[static_cast<size_t>(resource)]; }

 private:
  struct Flight {
    int64_t tag;
    double begin, latency, last, there;
    int left, resource;
  };
  void foresee(int64_t id);  // its arrival, when all have served it
  struct Event {
    double time;
    int64_t order;
    int resource;  // -1: `flight` arrives
    int64_t flight;
    uint64_t version;
    bool operator>(const Event& o) const { return time != o.time ? time > o.time : order > o.order; }
  };
  void schedule(int resource);
  void clean();
  std::vector<FairShare> shares_;
  std::vector<Server> queues_;  // of those that are Queued
  std::vector<Order> orders_;
  std::vector<std::string> names_;
  std::vector<uint64_t> versions_;
  std::vector<Flight> flights_;
  std::vector<int64_t> free_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t order_ = 0;
};

// What a cache of `bytes` holds of boxes that were asked for: the least recently used go first.
class BoxCache {
 public:
  explicit BoxCache(double bytes) : bytes_(bytes) {}
  struct Found {
    bool hit;
    double there;  // when its bytes are; others may have asked for them a moment ago
  };
  // Whether the box was there; if not it will be, from `arrives` on.
  Found touch(uint64_t key, double bytes, double arrives);

 private:
  struct Box {
    double bytes, there;
    uint64_t stamp;
  };
  double bytes_, held_ = 0;
  uint64_t stamp_ = 0;
  std::unordered_map<uint64_t, Box> boxes_;
  std::queue<std::pair<uint64_t, uint64_t>> order_;  // key and stamp; of those touched again the old ones are skipped
};

}  // namespace pallasim::hw
