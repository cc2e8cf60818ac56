// A module is one launch of one kernel: machine, meshes with a body each, grid, operands with block
// mappings, scalar prefetch, scratch and aliases. Text form: docs/ir.md.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pallasim/ir/attr.h"
#include "pallasim/ir/diagnostic.h"
#include "pallasim/ir/op_table.h"
#include "pallasim/ir/type.h"
#include "pallasim/ir/view.h"

namespace pallasim::ir {

using ValueId = int32_t;  // dense per Graph, in textual order of definition
using LocId = int32_t;    // index into Module::locs, -1 = none

struct Op;

// A list of operations with arguments. The last one is `yield`. Inner regions see the values of the
// regions around them (implicit capture).
struct Region {
  std::vector<ValueId> args;
  std::vector<Op> ops;
};

struct Op {
  OpCode code = OpCode::yield;
  LocId loc = -1;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  AttrDict attrs;
  std::vector<Region> regions;

  const Attr* attr(std::string_view key) const { return find(attrs, key); }
  // The view under a key; null where there is none.
  const Viewed* viewed(std::string_view key) const {
    const Attr* a = attr(key);
    return a ? a->view.get() : nullptr;
  }
  // The transforms that operand 0 is seen through (attribute `view`); none where the whole ref is meant.
  std::span<const View> view() const {
    const Viewed* v = viewed("view");
    return v ? std::span<const View>(v->transforms) : std::span<const View>();
  }
};

// A top-level region with its own value numbering: a kernel body or an index map.
struct Graph {
  std::vector<const Type*> types;  // by ValueId
  std::vector<std::string> names;  // by ValueId: the kernel's own argument name, or empty
  Region region;

  const Type* type(ValueId v) const { return types[static_cast<size_t>(v)]; }
};

enum class Machine : uint8_t { Generic, Tpu, Triton, MosaicGpu };
std::string_view name(Machine);
bool parse_machine(std::string_view text, Machine* out);

// An axis of the grid. `dynamic >= 0`: the extent is the value of that leading operand (i32[] or i64[]).
struct GridAxis {
  int64_t size = 0;
  int dynamic = -1;
  std::string name;       // named grids, else empty
  std::string semantics;  // "", parallel, arbitrary, core_parallel, subcore_parallel, sequential
  bool vmapped = false;   // added by vmap, hidden from program_id
  AttrDict attrs;         // whatever else capture saw
  LocId loc = -1;
};

// A hardware mesh: the kernel body runs once per coordinate. Axes are row-major, the last one fastest.
struct MeshAxis {
  std::string name;
  int64_t size = 1;
};
struct Mesh {
  std::string name;
  std::string kind;  // tensorcore, scalar_subcore, vector_subcore, gpu, warp, generic
  std::vector<MeshAxis> axes;
  AttrDict attrs;
  LocId loc = -1;
};

// One dimension of a block: how an element of the index map's result becomes a place in the array.
struct BlockDim {
  enum class Kind : uint8_t { Blocked, Squeezed, Element, BoundedSlice, Indirect } kind = Kind::Blocked;
  int64_t size = 1;
  int64_t pad_lo = 0, pad_hi = 0;  // Element
};

struct Operand {
  enum class Kind : uint8_t { Prefetch, Input, Output } kind = Kind::Input;
  std::string name;             // as in the kernel's signature
  const Type* array = nullptr;  // the tensor type of the whole array
  Space space = Space::Any;
  bool has_block = false;  // false: the whole array, no index map
  std::vector<BlockDim> block;
  // (program ids…, prefetch refs…) -> one index per array dim, then the size of each bounded slice; null without
  // block
  std::unique_ptr<Graph> index_map;
  AttrDict attrs;  // pipeline = buffered(2, lookahead), …; order kept
  LocId loc = -1;
};

struct Scratch {
  std::string name;
  const Type* type = nullptr;  // a ref type
  AttrDict attrs;
  LocId loc = -1;
};

struct Alias {
  int input = 0;
  int output = 0;
  LocId loc = -1;
};  // indices count prefetch operands, then inputs

struct Body {
  std::string mesh;  // empty: the implicit single thread
  Graph graph;       // (prefetch refs…, input refs…, output refs…, scratch refs…)
  LocId loc = -1;
};

struct Loc {
  SourceLine source;
  LocId caller = -1;  // call site of an inlined function
  std::string scope;  // the named scopes around it, outermost first: "attention/softmax"
};
using LocTable = std::vector<Loc>;

struct Module {
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  std::unique_ptr<TypeTable> types = std::make_unique<TypeTable>();
  std::string name;
  Machine machine = Machine::Generic;
  AttrDict attrs;                   // compiler params, device axes, communicates, …
  std::vector<std::string> params;  // shape parameters, bound at the call
  std::vector<Mesh> meshes;
  std::vector<GridAxis> grid;
  int num_dynamic = 0;            // leading dynamic grid bounds among the call's operands
  std::vector<Operand> operands;  // prefetch, inputs, outputs in this order
  std::vector<Scratch> scratch;
  std::vector<Alias> aliases;
  std::vector<Body> bodies;
  LocTable locs;

  int count(Operand::Kind) const;
  // Whether the operand with this index is an input that shares its array with an output, or such an output.
  bool is_aliased_input(size_t operand) const;
  bool is_aliased_output(size_t operand) const;
};

inline constexpr int kIrVersion = 1;

// Limits on untrusted text, checked before anything is allocated.
struct Limits {
  int64_t max_text_bytes = 256LL << 20;
  int max_nesting = 256;  // regions and attribute trees
  int max_rank = 16;
  int64_t max_elements = 1LL << 40;  // of one type
  int64_t max_ops = 8'000'000;
  int64_t max_values = 16'000'000;
  int64_t max_attrs = 16'000'000;  // nodes of all attribute trees
};

// Where declarations are, and the operations of a body or an index map none of which names a location.
enum class Unplaced : uint8_t {
  Nowhere,
  Text,  // at their lines in the text, for reports about a file; a module with these is not printed
};

// Throws DiagnosticError (PS-IR-0xx) with the position in `file_name`.
Module parse(std::string_view text, std::string_view file_name = "<text>", const Limits& = {},
             Unplaced = Unplaced::Nowhere);

// A module's text in two: everything but its table of locations, which stands behind it (print() and the capture put
// it there). Texts with the same first part and as many locations are the same kernel, at other lines perhaps.
struct TextParts {
  std::string_view kernel, locations;
};
TextParts split_locations(std::string_view text);
// The table alone. Throws DiagnosticError.
LocTable parse_locations(std::string_view locations);

struct PrintOptions {
  bool literal_comments = false;  // decimals after bits, for `pallasim fmt`
  bool locations = true;
  const LocTable* table = nullptr;  // in place of the module's own
};
std::string print(const Module&, const PrintOptions& = {});

// Types, attributes, structure. Throws DiagnosticError (PS-IR-1xx) for the first violation.
void verify(const Module&);

// Replaces shape parameters by numbers. Throws when a parameter is missing or a dimension is negative.
Module bind_shapes(const Module&, const std::vector<std::pair<std::string, int64_t>>& values);

// Values of the shape parameters that make the operands' shapes `shapes` (prefetch and inputs, in the module's order;
// further ones are not looked at). A dimension gives a parameter where it is linear in it and its other parameters are
// known. Returns the name of the first parameter that no dimension gives, or "".
std::string infer_shapes(const Module&, const std::vector<std::vector<int64_t>>& shapes,
                         std::vector<std::pair<std::string, int64_t>>* values);

// Fills a diagnostic's site from the location table.
Site site_of(const LocTable&, LocId);
inline Site site_of(const Module& m, LocId loc) { return site_of(m.locs, loc); }
// The same diagnostic by another table of as many locations.
void relocate(Diagnostic&, const LocTable&);
// A finding about a launch as a whole (memory, unwritten outputs, what its compiler refuses) has the line that launches
// it, where the module's attribute `call` says which location that is. What has a line keeps it.
void place(Diagnostic&, const Module&, const LocTable&);
inline void place(Diagnostic& d, const Module& m) { place(d, m, m.locs); }

}  // namespace pallasim::ir
