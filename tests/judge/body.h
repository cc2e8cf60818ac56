// Writes the operations of one kernel body: which values and refs are in sight, what may be done to them, and the
// terms.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "pallasim/ir/module.h"
#include "writer.h"

namespace pallasim::judge {

struct Value {
  int id = -1;
  Type type;
  int64_t lo = 0, hi = -1;  // integers: a known range, empty where unknown
  double mag = 64;          // floats: about how large; keeps loops from running into infinity
  bool known() const { return lo <= hi; }
};

// Memory behind one or more refs. All of it is written before anything else reads it.
struct Root {
  bool writable = true;
  bool permutation = false;  // always holds a permutation of 0..n-1: usable as indices into n elements
  int reading = 0;           // copies that read it are under way: no writes
  int writing = 0;           // copies that write it are under way: hands off
};

struct Ref {
  int id = -1;
  Type type;
  int root = 0;
  std::string space;
  bool single = false;  // a block that may reach beyond its array, as far as the engine knows: one indexer at a time
  bool part = false;    // made by a view: its rows may have gaps between them
};

// What `view = […]` says, with the operands that it names.
struct View {
  Type type;
  std::string text;  // "" for the whole ref
  std::vector<int> operands;
};

class Body {
 public:
  Body(Rng& rng, Writer& w, ir::Machine machine, std::map<std::string, int>& terms)
      : rng(rng), w(w), machine(machine), terms(terms) {}

  Rng& rng;
  Writer& w;
  ir::Machine machine;
  std::map<std::string, int>& terms;
  std::deque<Value> values;  // a deque: references stay valid while more are made
  std::deque<Ref> refs;
  std::vector<Root> roots;
  std::vector<DType> dtypes{DType::F32, DType::I32};
  std::vector<int64_t> extents{8};  // lengths that shapes of this module are made of
  int budget = 30;                  // operations still to come, about
  int nesting = 0;
  bool copies = false;  // copies and semaphores may be used

  void steps(int n);
  void step();

  // values.cc: making and fitting values.
  Value keep(int id, Type t, double mag = 64);
  Value constant(DType t, double v);
  int number(int64_t v) { return constant(DType::I32, static_cast<double>(v)).id; }
  Value fresh(const Type& t);  // from nothing: constants and iotas
  Value some(const Type& t);   // any value of this type, made to fit where there is none
  Value fit(const Value& v, const Type& t);
  Value convert(const Value& v, DType t);
  Value calm(const Value& v);                  // floats: cut down to +-8
  int index_in(int64_t limit);                 // an i32 scalar within [0, limit]
  Value permutation(int64_t n);                // i32[n]
  Value indices(const Dims& dims, int64_t n);  // i32 in [0, n)
  Value progression(const Type&, int64_t n);   // the same, start + step * iota
  Value mask(const Dims& dims);
  Value condition(const Type&);  // start + step * iota compared with a bound
  Value remainder(const Type&);  // one or two of them
  Type any_type();
  Value derived(const Value& v);  // something lazy made of v: the same type
  Value for_one(const Value& v);  // often the same, which nobody else will use
  void elementwise(const Type& t);
  Value combine(const Value& a, const Value& b);
  void shape_step();
  void strided_slice(const Value& v);
  void fold_step();
  void dot_step();
  void power_step();
  void multiply_add_step();

  // arrays.cc
  void scatter_step();
  void slices_step();
  void arrange_step();
  void rearrange_step();
  void atomic_step(const Ref& shared, const std::string& kind);

  // memory.cc
  const Ref* readable();
  const Ref* writable();
  bool can_read(const Ref& r) const { return roots[static_cast<size_t>(r.root)].writing == 0; }
  bool can_write(const Ref& r) const;
  bool can_add(DType t) const;
  View view(const Ref& r, int first, bool transforms = true);
  View window(const Ref& r, const Dims& sizes, int first);
  Value get(const Ref& r, const View& v);
  Value read(const Ref& r);                    // through some view
  Value read_as(const Ref& r, const Type& t);  // from r itself, of a given type
  Value source(const Ref& r, const Type& t);   // a value to be stored into r: often read from r
  void fill(const Ref& r);                     // writes all of it
  void store_step();
  void leave_behind(const Value& v);
  void masked_step();
  void gather_step();
  void permute_step();
  void overlap_step();
  void own_mask_step();
  void nothing_step();  // views of no element
  void alias_step();    // a further ref to part of a ref, through `view`

  // control.cc
  struct Mark {
    size_t values, refs, roots;
  };
  Mark enter();
  void leave(const Mark& m);
  void inside(int share);                        // operations of a region
  void late_use(const std::vector<Value>& old);  // uses of values made earlier
  std::vector<Type> result_types(int most);
  void loop_step();
  void while_step();
  void cond_step();
  void call_step();
  void scoped_step();
  void new_ref_step();
  void kept_read_step();  // a read that stays alive across writes in regions
  void print_step();

  // async.cc
  struct Lock {
    int src, dst;
  };
  Lock lock(const Ref& src, const Ref& dst);
  void unlock(const Lock&);
  bool copy_pair(Ref* src, Ref* dst, bool whole);
  void copy_step();
  void copy(const Ref& src, const Ref& dst, const std::vector<Ref>& sources);
  void slots_step();
  void rows_step();
  void list_step();
  void width_rows_step();  // rows.cc
  void forwarded_step();
  void semaphore_step();
  void exchange_step(int me, int devices);
  void meeting_step(int me, int cores, const Ref& shared);
};

std::string joined(const std::vector<Type>& types);

}  // namespace pallasim::judge
