// Builds modules in C++ as the text would: declarations in order, operations in order, regions as lambdas.
//
//   ModuleBuilder mb("add_one", Machine::Generic);
//   mb.input("x_ref", mb.type(DType::F32, {8}));
//   mb.output("o_ref", mb.type(DType::F32, {8}));
//   mb.body([](BodyBuilder& b, const Values& refs) { b.store(refs[1], b.add(b.get(refs[0]), b.constant(DType::F32,
//   1))); }); Module m = mb.finish();   // numbered and verified
//
// C++ leaves the order of a call's arguments open: name values where the order of the text matters.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pallasim/ir/module.h"

namespace pallasim::ir {

// A value of the graph under construction; valid until the graph's lambda returns.
struct Value {
  ValueId id = -1;
  const Type* type = nullptr;
};
using Values = std::vector<Value>;

// The caller's line. Like std::source_location, which clang 14 lacks.
struct CppLine {
  const char* file;
  int line;
  static constexpr CppLine current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

class BodyBuilder;
using RegionFn = std::function<void(BodyBuilder&, const Values& args)>;
// Returns what the region yields.
using YieldingFn = std::function<Values(BodyBuilder&, const Values& args)>;

// An argument of a region: its type and, for refs, the kernel's own name.
struct Arg {
  const Type* type = nullptr;
  std::string name;
};

// Entries of index(…), for `get`, `store` and `view`.
struct Index {
  Index(int64_t n) : attr(Attr::integer(n)) {}  // NOLINT: a number is an index
  Index(Value v) : value(v) {}                  // NOLINT: so is a scalar
  Attr attr;
  std::optional<Value> value;  // becomes an operand of the access
  bool is_slice = false;
};
Index slice(int64_t start, int64_t size, int64_t stride = 1);
Index slice(Value start, int64_t size, int64_t stride = 1);

// Operations of one graph. Each takes the caller's source line as its location.
class BodyBuilder {
 public:
  using Source = CppLine;

  // Any operation. `results` are the types of its results.
  Values op(OpCode code, const Values& operands, const std::vector<const Type*>& results, AttrDict attrs = {},
            Source at = Source::current());
  Value op(OpCode code, const Values& operands, const Type* result, AttrDict attrs = {}, Source at = Source::current());

  // Result type as the operands': the shape of the first that is not a scalar.
  Value elementwise(OpCode code, const Values& operands, Source at = Source::current());
  Value add(Value x, Value y, Source at = Source::current()) { return elementwise(OpCode::add, {x, y}, at); }
  Value sub(Value x, Value y, Source at = Source::current()) { return elementwise(OpCode::sub, {x, y}, at); }
  Value mul(Value x, Value y, Source at = Source::current()) { return elementwise(OpCode::mul, {x, y}, at); }
  Value div(Value x, Value y, Source at = Source::current()) { return elementwise(OpCode::div, {x, y}, at); }
  Value compare(OpCode code, Value x, Value y, Source at = Source::current());
  Value constant(DType t, double value,
                 Source at = Source::current());  // rounded to `t`; exact for integers up to 2^53
  Value convert(Value x, DType t, Source at = Source::current());
  Value iota(DType t, std::vector<Dim> dims, int axis, Source at = Source::current());
  Value broadcast(Value x, std::vector<Dim> dims, const std::vector<int64_t>& mapping, Source at = Source::current());
  Value reshape(Value x, std::vector<Dim> dims, Source at = Source::current());
  Value transpose(Value x, const std::vector<int64_t>& perm, Source at = Source::current());
  Value reduce(OpCode code, Value x, const std::vector<int64_t>& axes, Source at = Source::current());
  // x's last dimension with y's first; `result` defaults to the operands' element type.
  Value matmul(Value x, Value y, std::optional<DType> result = {}, Source at = Source::current());
  Value program_id(int axis, Source at = Source::current());
  Value num_programs(int axis, Source at = Source::current());

  // Memory. Without indices the whole ref; else one entry per dimension.
  Value get(Value ref, const std::vector<Index>& index = {}, Source at = Source::current());
  void store(Value ref, Value value, const std::vector<Index>& index = {}, Source at = Source::current());

  // Control flow. Regions end with their `yield` by themselves.
  void when(Value predicate, const RegionFn& then, Source at = Source::current());
  Values cond(Value predicate, const std::vector<const Type*>& results, const YieldingFn& on_true,
              const YieldingFn& on_false, Source at = Source::current());
  // `body` gets the index and the carried values and returns the new ones.
  Values loop(Value lower, Value upper, Value step, const Values& carried, const YieldingFn& body,
              Source at = Source::current());
  void scoped(const std::vector<Arg>& allocations, const RegionFn& body, Source at = Source::current());
  // Any operation with regions: `args` and `bodies` are parallel.
  Values op_with_regions(OpCode code, const Values& operands, const std::vector<const Type*>& results, AttrDict attrs,
                         const std::vector<std::vector<Arg>>& args, const std::vector<YieldingFn>& bodies,
                         Source at = Source::current());

  const Type* tensor(DType t, std::vector<Dim> dims) { return module_.types->tensor(t, std::move(dims)); }

 private:
  friend class ModuleBuilder;
  BodyBuilder(Module& m, Graph& g, bool locations) : module_(m), graph_(g), locations_(locations) {}
  Value define(const Type* t, std::string name = {});
  LocId location(const Source& at);
  void run(Region& r, const std::vector<Arg>& args, const YieldingFn& body);
  Op& append(OpCode code, const Values& operands, AttrDict attrs, const Source& at);
  AttrDict view_of(const std::vector<Index>& index, Values* operands) const;

  Module& module_;
  Graph& graph_;
  Region* region_ = nullptr;
  bool locations_;
};

class ModuleBuilder {
 public:
  // `locations`: operations carry the C++ line that built them.
  ModuleBuilder(std::string name, Machine machine, bool locations = false);

  const Type* type(DType t, std::vector<Dim> dims) { return m_.types->tensor(t, std::move(dims)); }
  const Type* ref(DType t, std::vector<Dim> dims, Space s) { return m_.types->ref(t, std::move(dims), s); }

  ModuleBuilder& attr(std::string key, Attr value);
  ModuleBuilder& param(std::string name);
  ModuleBuilder& mesh(std::string name, std::string kind, std::vector<MeshAxis> axes);
  ModuleBuilder& grid(int64_t size, std::string semantics = {});
  ModuleBuilder& dynamic_grid(int k, std::string semantics = {});
  ModuleBuilder& prefetch(std::string name, const Type* array, Space space = Space::Smem);
  ModuleBuilder& input(std::string name, const Type* array, Space space = Space::Any);
  ModuleBuilder& output(std::string name, const Type* array, Space space = Space::Any);
  // Gives the operand declared last a block; `map` gets the program ids and the prefetch refs. A size of 0 is squeezed.
  ModuleBuilder& block(const std::vector<int64_t>& sizes, const YieldingFn& map);
  ModuleBuilder& block(std::vector<BlockDim> dims, const YieldingFn& map);
  ModuleBuilder& scratch(std::string name, const Type* ref);
  ModuleBuilder& alias(int input, int output);
  // The body's arguments are made from the declarations.
  ModuleBuilder& body(const RegionFn& f, std::string mesh = {});

  Module& module() { return m_; }
  Module finish();  // verifies; throws DiagnosticError

 private:
  ModuleBuilder& operand(Operand::Kind kind, std::string name, const Type* array, Space space);
  Graph build(const std::vector<Arg>& args, const YieldingFn& f);

  Module m_;
  bool locations_;
};

}  // namespace pallasim::ir
