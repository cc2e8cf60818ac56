// What moments of a run cost in time and memory: an array of 256 MiB of which a grid point writes 1 MiB, and a snapshot
// after each of 1,000 grid points.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "engine/publish.h"
#include "engine/snapshot.h"
#include "pallasim/ir/builder.h"
#include "report/words.h"

namespace pallasim::interp {
namespace {

constexpr const char* kBlocks = R"(pallasim-ir 1
module "blocks" {machine = generic}
grid {size = 8}
grid {size = 256}
output "o" : i32[65536,1024] {space = any, block = [blocked(256), blocked(1024)]} (%0: i32[], %1: i32[]) {
  %2 = constant {value = i32 0x0} : i32[]
  yield %1, %2
}
body (%0 "o": ref<i32[256,1024], any>) {
  %1 = program_id {axis = 0} : i32[]
  %2 = broadcast_in_dim %1 {dims = []} : i32[256,1024]
  %3 = iota {axis = 0} : i32[256,1024]
  %4 = add %2, %3 : i32[256,1024]
  store %0, %4
  yield
}
)";

double resident_mib() {
  std::ifstream f("/proc/self/statm");
  int64_t all = 0, resident = 0;
  f >> all >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / (1 << 20);
}

template <class F>
double ms(const F& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

struct Times {
  std::vector<double> all;
  std::string text() {
    std::sort(all.begin(), all.end());
    return fmt::format("median {:.2f} ms, 99 of 100 below {:.2f} ms, longest {:.2f} ms", all[all.size() / 2],
                       all[all.size() * 99 / 100], all.back());
  }
};

// `observed`: footprints tell what was written; else each page is compared.
void measure(bool observed, int count) {
  Options options;
  const auto plan = compile(ir::parse(kBlocks), options);
  std::vector<int32_t> array(size_t{65536} * 1024, -1);
  Execution ex(*plan, Words::all());
  ex.options = &options;
  const std::vector<std::byte*> operands[] = {{reinterpret_cast<std::byte*>(array.data())}};
  const int64_t grid[] = {8, 256};
  WrittenPages written(ex);
  std::optional<Publisher> publisher;
  Observer* const observers[] = {&written};
  if (observed) publisher.emplace(ex, observers);
  ex.bind(operands, grid);
  ex.start({{0, 0}, {8, 256}});
  Scheduler scheduler(ex, options);
  Snapshots snapshots(ex, observed ? &written : nullptr);
  const double before = resident_mib();
  std::vector<Snapshot> kept;
  kept.reserve(static_cast<size_t>(count) + 1);
  fmt::print("{}\n", observed ? "footprints tell what changed" : "pages are compared");
  fmt::print("  first snapshot: {:.1f} ms\n", ms([&] { kept.push_back(snapshots.take()); }));
  const double first = resident_mib();
  Times take, back;
  for (int i = 0; i < count; ++i) {
    const int64_t points = ex.host.points_ended;
    while (ex.host.points_ended == points && scheduler.turn(1)) {}
    take.all.push_back(ms([&] { kept.push_back(snapshots.take()); }));
  }
  const double all = resident_mib();
  if (!snapshots.holds(kept.back())) fmt::print("  WRONG: the last snapshot is not what memory holds\n");
  fmt::print("  snapshot of 1 MiB changed of 256: {}\n", take.text());
  fmt::print("  resident: {:.0f} MiB of the first snapshot, {:.0f} MiB of {} more\n", first - before, all - first,
             count);
  for (size_t i = kept.size() - 1; i-- > 0;) back.all.push_back(ms([&] { snapshots.restore(kept[i]); }));
  fmt::print("  back to the snapshot before: {}\n", back.text());
  const bool begins = std::all_of(array.begin(), array.end(), [](int32_t v) { return v == -1; });
  if (!begins) fmt::print("  WRONG: memory is not what it was at the beginning\n");
}

}  // namespace
}  // namespace pallasim::interp

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::stoi(argv[1]) : 1000;
  pallasim::interp::measure(true, count);
  malloc_trim(0);
  pallasim::interp::measure(false, std::min(count, 100));
}
