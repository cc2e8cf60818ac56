// Programs of several cores or devices whose races are known: what happens before what is made by construction, and
// counted without the engine.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "writer.h"

namespace pallasim::judge {

// A block of an i32[kRows, kColumns] array: rows [row, row + rows) and columns [column, column + columns).
struct Block {
  static constexpr int64_t kRows = 4, kColumns = 8;
  int64_t row = 0, column = 0, rows = 1, columns = 1;
  bool meets(const Block&) const;
};

// Arrays that a program shares: one per device, then one per thread, whom alone it belongs to.
struct Place {
  int array = 0;
  Block block;
};

// What one thread does.
struct Item {
  enum class Kind : uint8_t {
    Access,    // reads or writes `to`
    Copy,      // starts a copy from `from` to `to`
    CopyWait,  // for what copy `number` wrote, or read (`reads`)
    Signal,    // semaphore `number` of thread `target`
    Wait,      // takes `amount` from the own semaphore `number`
    Barrier,   // comes to meeting `number` of the subcores of its SparseCore, whose items follow each other
  };
  Kind kind = Kind::Access;
  int thread = 0, target = 0, number = 0, amount = 1;
  int id = 0;           // its line in reports, and which items were made together
  bool write = false;   // Access
  bool first = false;   // … the first one of its array
  bool remote = false;  // Copy: with a semaphore at either end
  bool reads = false;   // CopyWait
  int variant = 0;      // how an access or a value is spelled
  Place from, to;
};

struct RaceProgram {
  uint64_t seed = 0;
  int devices = 1, cores = 1;
  int subcores = 0;         // of the cores each SparseCore's; 0: TensorCores
  std::vector<Item> items;  // in an order in which nobody waits for what comes later
  int semaphores = 0, copies = 0;
  std::string twin;  // what was taken away; empty: nothing
  int threads() const { return devices * cores; }
  int array_of_thread(int t) const { return devices + t; }
  std::string text() const;
  // Pairs of lines, the smaller first, of accesses to a byte, one of them a write, that nothing orders.
  std::set<std::pair<int, int>> races() const;
  // Takes the item away, with what has no meaning without it. False: nothing is left of the program's purpose.
  bool drop(size_t item);
};

// A program without races; where `racy`, with one edge less, or a wait that comes too late, so that there are some.
RaceProgram generate_races(uint64_t seed, bool racy, std::map<std::string, int>* terms);

}  // namespace pallasim::judge
