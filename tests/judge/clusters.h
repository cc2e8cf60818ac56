// Programs of clusters of thread blocks: what they have in common.
#pragma once
#include <fmt/format.h>

#include <cctype>
#include <functional>
#include <random>

#include "case.h"

namespace pallasim::judge {

// Each part of a program has memory and an output of its own; what it does is right under every schedule by
// construction, where the case does not say that thread blocks follow each other.
class Clusters {
 public:
  explicit Clusters(Case* c) : c_(*c), rng_(c->seed * 0x9e3779b97f4a7c15u + 1) {}
  void write();

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }
  void term(const char* name) { ++c_.terms[std::string("clusters: ") + name]; }
  std::string fresh() { return fmt::format("%v{}", next_++); }
  template <typename... A>
  void line(fmt::format_string<A...> f, A&&... a) {
    body_ += std::string(static_cast<size_t>(depth_) * 2, ' ') + fmt::format(f, std::forward<A>(a)...) + "\n";
  }

  // Values are numbers in the text: %i, %x, %y, %wg, %d from 100 on, %c0 from 110, %v0 from 200.
  static std::string numbered(const std::string& text) {
    static constexpr std::pair<std::string_view, int> kNames[] = {
        {"i", 100}, {"x", 101}, {"y", 102}, {"wg", 103}, {"d", 104}};
    std::string r;
    for (size_t at = 0; at < text.size(); ++at) {
      r += text[at];
      if (text[at] != '%' || std::isdigit(text[at + 1])) continue;
      size_t end = at + 1;
      while (std::isalnum(text[end])) ++end;
      const std::string_view name = std::string_view(text).substr(at + 1, end - at - 1);
      int number = -1;
      for (const auto& [known, n] : kNames)
        if (name == known) number = n;
      if (number < 0) number = (name[0] == 'c' ? 110 : 200) + std::stoi(std::string(name.substr(1)));
      r += std::to_string(number);
      at = end - 1;
    }
    return r;
  }

  // An array of all threads' results, "i32[…]"; its ref.
  std::string output(const std::string& type) {
    const int number = 2 + static_cast<int>(outputs_.size());
    outputs_.emplace_back(number, type);
    return fmt::format("%{}", number);
  }
  static std::string all(int64_t rows, int64_t columns) {
    return fmt::format("slice(0, {}), slice(0, {})", rows, columns);
  }
  std::string each(const char* tail = "") const { return fmt::format("{},{},{},{}", grid_, x_, y_, tail); }

  // Runs where the warpgroup has the number.
  template <typename F>
  void only(int64_t wg, const F& f) {
    when(fmt::format("eq %wg, %c{}", wg), f);
  }
  // Runs where the comparison holds.
  template <typename F>
  void when(const std::string& comparison, const F& f) {
    const std::string is = fresh(), which = fresh();
    line("{} = {} : bool[]", is, comparison);
    line("{} = convert {} : i32[]", which, is);
    line("cond {} () {{", which);
    line("  yield");
    line("}} () {{");
    ++depth_;
    f();
    line("yield");
    --depth_;
    line("}}");
  }
  void arrive(const std::string& barrier) { line("barrier_arrive {} {{barrier = view($0, [index(0)])}}", barrier); }
  void wait(const std::string& barrier) { line("barrier_wait {} {{barrier = view($0, [index(0)])}}", barrier); }
  void meet(const std::string& barrier) { arrive(barrier), wait(barrier); }

  // Shared memory of 4 x 16 i32, tiled or not; `view` is what comes first in its views.
  struct Shared {
    std::string type, transforms, view;
  };
  Shared shared(const std::string& lead = "") {
    if (one_in(2)) return {fmt::format("i32[{}4,16]", lead), "[]", ""};
    term("tiles");
    if (one_in(3))
      return {fmt::format("i32[{}2,1,2,16]", lead), "[unswizzle(64), untile(2, 16)]", "unswizzle(64), untile(2, 16)"};
    return {fmt::format("i32[{}2,2,2,8]", lead), "[unswizzle(32), untile(2, 8)]", "unswizzle(32), untile(2, 8)"};
  }
  // The end of the region that `depth_` is in.
  void close() {
    line("yield");
    --depth_;
    line("}}");
  }
  static std::string seen(const Shared& s) { return s.view.empty() ? "" : " {view = [" + s.view + "]}"; }
  // Memory that one copy fills, and its barrier.
  void open_filled(const Shared& s, const std::string& smem, const std::string& bar) {
    line("run_scoped {{collective = [\"wg\"], transforms = [{}, []], allocs = [none, {{num_arrivals = 1}}]}} (",
         s.transforms);
    line("    {} \"s\": ref<{}, gsmem, cta>, {} \"bar\": ref<mbarrier[1], gsmem, cta>) {{", smem, s.type, bar);
    ++depth_;
  }
  // What the memory holds is the thread's result.
  void give(const std::string& o, const std::string& got, const std::string& smem, const Shared& s) {
    line("{} = get {}{} : i32[4,16]", got, smem, seen(s));
    line("store {}, {}, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, {})]}}", o, got, all(4, 16));
  }
  static std::string join(const std::string& a, const std::string& b) {
    return a.empty() || b.empty() ? a + b : a + ", " + b;
  }

  // clusters.cc
  void write_programs();
  void take_long();
  std::string declare(std::string* head);
  void end(const std::string& head);
  void changed_source(const std::string& o, const std::string& at, const std::string& value,
                      const std::function<void()>& use);
  // Makes the request of a slot; reads its answer into two values.
  using Ask = std::function<void(const std::string& slot)>;
  using Answer = std::function<void(const std::string& slot, const std::string& next, const std::string& given)>;
  void write_claims();
  void do_work(const std::string& o, const std::string& now);
  void ask_in_turn(const std::string& o, const std::string& used, const Ask&, const Answer&);
  void ask_ahead(const std::string& o, const std::string& used, const Ask&, const Answer&);
  std::string who_ask(bool alone);
  void head_of_mesh(std::string* head);
  void part(), ring(), exchange(), peer_store(), atomics(), named(), product(), chain();
  // clusters_bulk.cc
  void ring_in_loop(), bulk_stores(), reductions(), products_in_flight(), expected_bytes(), polling(), predicated();
  void gathers(), scatters(), leader_tracked(), semaphores();
  // clusters_warps.cc
  void warps();
  // clusters_peers.cc
  void between_devices();
  void meet_devices(const std::string& sem);
  std::string give_to_devices(const std::string& o, const std::string& value, const std::string& place);
  // clusters_tensor.cc
  struct TensorRound {  // refs of a product; `tells`: the barrier that it ends at, `last`: that of the last round
    std::string a, b, bar, met, tells, acc, tmem, axis, last;
  };
  void tensor_product(), tensor_copies(), tensor_scales();
  void tensor_round(const TensorRound&, int64_t round);
  void by_leader(bool pair, const std::function<void()>&);
  std::string products(const char* type, const std::string& left, const std::string& a, const std::string& b,
                       int accumulators);
  std::string chosen_rows(int64_t count, int64_t first);
  void bulk_store(const std::string& smem, const std::string& slot, const std::string& o, const std::string& place,
                  const std::string& row, const std::string& how);

  Case& c_;
  std::mt19937_64 rng_;
  int64_t grid_ = 1, x_ = 1, y_ = 1, wgs_ = 1, devices_ = 1, next_ = 0;
  int depth_ = 1;
  std::string body_;
  std::vector<std::pair<int, std::string>> outputs_;
};

}  // namespace pallasim::judge
