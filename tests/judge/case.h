// One generated program with its operands, and what the judge expects of it.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../oracle/evaluate.h"
#include "writer.h"

namespace pallasim::judge {

struct RaceProgram;

struct Case {
  uint64_t seed = 0;
  std::string text;
  std::vector<oracle::Array> args;  // of each device one after another, as oracle::evaluate takes them
  int devices = 1;
  bool wrong = false;                // a mistake was put in: both sides must stop
  bool undefined = false;            // something in it is undefined: judge_undefined
  bool in_order = false;             // what thread blocks leave depends on their order, which is that of the grid
  bool all_at_once = false;          // all of its clusters have to be there at the same time
  std::map<std::string, int> terms;  // how often each kind of situation was generated
  // A program whose races are known: the pairs of lines that nothing orders. None: it has no race.
  std::shared_ptr<const RaceProgram> program;
  std::set<std::pair<int, int>> races;
};

// What a Program(rng, case) makes of a seed.
template <class Program>
Case make_case(uint64_t seed) {
  Case c;
  c.seed = seed;
  Rng rng(seed);
  Program(rng, c).make();
  return c;
}

// The same seed gives the same program in every run of one build.
Case generate(uint64_t seed);
// A grid whose points are scalars (points.cc): one of each 16 that `generate` gives.
Case generate_points(uint64_t seed);
// The same of programs of several threads; those of odd seeds have races, as far as one can be made.
Case generate_with_races(uint64_t seed);
// A program of clusters of thread blocks, without races (clusters.cc).
Case generate_clusters(uint64_t seed);
// A program of SparseCores with one to three bodies, without races (subcores.cc).
Case generate_subcores(uint64_t seed);
Case case_of(const RaceProgram&);
// The program without some of its stores (undefined.cc).
Case without_some_stores(Case);

}  // namespace pallasim::judge
