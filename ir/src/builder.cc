#include "pallasim/ir/builder.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "pallasim/ir/literal.h"

namespace pallasim::ir {
namespace {

// Values are numbered as they are made; the text numbers results before the values of the regions inside.
class Renumber {
 public:
  explicit Renumber(Graph& g) : g_(g), new_id_(g.types.size(), -1) {}
  void run() {
    visit(g_.region);
    std::vector<const Type*> types(g_.types.size());
    std::vector<std::string> names(g_.names.size());
    for (size_t i = 0; i < new_id_.size(); ++i) {
      types[static_cast<size_t>(new_id_[i])] = g_.types[i];
      names[static_cast<size_t>(new_id_[i])] = std::move(g_.names[i]);
    }
    g_.types = std::move(types);
    g_.names = std::move(names);
  }

 private:
  void define(std::vector<ValueId>& ids) {
    for (ValueId& v : ids) v = new_id_[static_cast<size_t>(v)] = next_++;
  }
  void visit(Region& r) {
    define(r.args);
    for (Op& o : r.ops) {
      for (ValueId& v : o.operands) v = new_id_[static_cast<size_t>(v)];
      define(o.results);
      for (Region& x : o.regions) visit(x);
    }
  }

  Graph& g_;
  std::vector<ValueId> new_id_;
  ValueId next_ = 0;
};

std::vector<const Type*> types_of(const Values& v) {
  std::vector<const Type*> r;
  for (const Value& x : v) r.push_back(x.type);
  return r;
}

Index make_slice(Attr start, int64_t size, int64_t stride) {
  Index i(0);
  i.attr = Attr::call("slice", {std::move(start), Attr::integer(size)});
  if (stride != 1) i.attr.items.push_back(Attr::integer(stride));
  i.is_slice = true;
  return i;
}

}  // namespace

Index slice(int64_t start, int64_t size, int64_t stride) { return make_slice(Attr::integer(start), size, stride); }

Index slice(Value start, int64_t size, int64_t stride) {
  Index i = make_slice(Attr::operand(0), size, stride);
  i.value = start;
  return i;
}

Value BodyBuilder::define(const Type* t, std::string name) {
  graph_.types.push_back(t);
  graph_.names.push_back(std::move(name));
  return {static_cast<ValueId>(graph_.types.size() - 1), t};
}

LocId BodyBuilder::location(const Source& at) {
  if (!locations_) return -1;
  Loc loc;
  const std::string_view file = at.file;
  loc.source.file = file.substr(file.find_last_of('/') + 1);  // the same text wherever the source tree lies
  loc.source.line = at.line;
  for (size_t i = 0; i < module_.locs.size(); ++i)
    if (module_.locs[i].source == loc.source) return static_cast<LocId>(i);
  module_.locs.push_back(std::move(loc));
  return static_cast<LocId>(module_.locs.size() - 1);
}

Op& BodyBuilder::append(OpCode code, const Values& operands, AttrDict attrs, const Source& at) {
  Op o;
  o.code = code;
  o.loc = location(at);
  for (const Value& v : operands) o.operands.push_back(v.id);
  o.attrs = std::move(attrs);
  type_views(&o);
  region_->ops.push_back(std::move(o));
  return region_->ops.back();
}

Values BodyBuilder::op(OpCode code, const Values& operands, const std::vector<const Type*>& results, AttrDict attrs,
                       Source at) {
  Op& o = append(code, operands, std::move(attrs), at);
  Values r;
  for (const Type* t : results) {
    r.push_back(define(t));
    o.results.push_back(r.back().id);
  }
  return r;
}

Value BodyBuilder::op(OpCode code, const Values& operands, const Type* result, AttrDict attrs, Source at) {
  return op(code, operands, std::vector<const Type*>{result}, std::move(attrs), at)[0];
}

Value BodyBuilder::elementwise(OpCode code, const Values& operands, Source at) {
  const auto it = std::find_if(operands.begin(), operands.end(), [](const Value& v) { return !v.type->is_scalar(); });
  return op(code, operands, it == operands.end() ? operands.at(0).type : it->type, {}, at);
}

Value BodyBuilder::compare(OpCode code, Value x, Value y, Source at) {
  return op(code, {x, y}, tensor(DType::Bool, x.type->is_scalar() ? y.type->dims : x.type->dims), {}, at);
}

Value BodyBuilder::constant(DType t, double value, Source at) {
  return op(OpCode::constant, {}, tensor(t, {}), {{"value", Attr::bits(t, double_to_bits(t, value))}}, at);
}

Value BodyBuilder::convert(Value x, DType t, Source at) {
  return op(OpCode::convert, {x}, tensor(t, x.type->dims), {}, at);
}

Value BodyBuilder::iota(DType t, std::vector<Dim> dims, int axis, Source at) {
  return op(OpCode::iota, {}, tensor(t, std::move(dims)), {{"axis", Attr::integer(axis)}}, at);
}

Value BodyBuilder::broadcast(Value x, std::vector<Dim> dims, const std::vector<int64_t>& mapping, Source at) {
  return op(OpCode::broadcast_in_dim, {x}, tensor(x.type->dtype, std::move(dims)), {{"dims", Attr::ints(mapping)}}, at);
}

Value BodyBuilder::reshape(Value x, std::vector<Dim> dims, Source at) {
  return op(OpCode::reshape, {x}, tensor(x.type->dtype, std::move(dims)), {}, at);
}

Value BodyBuilder::transpose(Value x, const std::vector<int64_t>& perm, Source at) {
  std::vector<Dim> dims;
  for (int64_t p : perm) dims.push_back(x.type->dims.at(static_cast<size_t>(p)));
  return op(OpCode::transpose, {x}, tensor(x.type->dtype, std::move(dims)), {{"perm", Attr::ints(perm)}}, at);
}

Value BodyBuilder::reduce(OpCode code, Value x, const std::vector<int64_t>& axes, Source at) {
  std::vector<Dim> dims;
  for (int64_t i = 0; i < x.type->rank(); ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) dims.push_back(x.type->dims[static_cast<size_t>(i)]);
  return op(code, {x}, tensor(x.type->dtype, std::move(dims)), {{"axes", Attr::ints(axes)}}, at);
}

Value BodyBuilder::matmul(Value x, Value y, std::optional<DType> result, Source at) {
  std::vector<Dim> dims(x.type->dims.begin(), x.type->dims.end() - 1);
  dims.insert(dims.end(), y.type->dims.begin() + 1, y.type->dims.end());
  AttrDict attrs = {{"lhs_contract", Attr::ints({x.type->rank() - 1})},
                    {"rhs_contract", Attr::ints({0})},
                    {"lhs_batch", Attr::ints({})},
                    {"rhs_batch", Attr::ints({})}};
  return op(OpCode::dot_general, {x, y}, tensor(result.value_or(x.type->dtype), std::move(dims)), std::move(attrs), at);
}

Value BodyBuilder::program_id(int axis, Source at) {
  return op(OpCode::program_id, {}, tensor(DType::I32, {}), {{"axis", Attr::integer(axis)}}, at);
}

Value BodyBuilder::num_programs(int axis, Source at) {
  return op(OpCode::num_programs, {}, tensor(DType::I32, {}), {{"axis", Attr::integer(axis)}}, at);
}

AttrDict BodyBuilder::view_of(const std::vector<Index>& index, Values* operands) const {
  if (index.empty()) return {};
  std::vector<Attr> entries;
  for (const Index& i : index) {
    Attr a = i.attr;
    if (i.value) {
      const Attr k = Attr::operand(static_cast<int>(operands->size()));
      operands->push_back(*i.value);
      if (i.is_slice) a.items[0] = k;
      else a = k;
    }
    entries.push_back(std::move(a));
  }
  return {{"view", Attr::list({Attr::call("index", std::move(entries))})}};
}

Value BodyBuilder::get(Value ref, const std::vector<Index>& index, Source at) {
  Values operands = {ref};
  AttrDict view = view_of(index, &operands);
  std::vector<Dim> dims = index.empty() ? ref.type->dims : std::vector<Dim>();
  for (const Index& i : index)
    if (i.is_slice) dims.emplace_back(i.attr.items[1].i);
  return op(OpCode::get, operands, tensor(ref.type->dtype, std::move(dims)), std::move(view), at);
}

void BodyBuilder::store(Value ref, Value value, const std::vector<Index>& index, Source at) {
  Values operands = {ref, value};
  AttrDict view = view_of(index, &operands);
  op(OpCode::store, operands, std::vector<const Type*>{}, std::move(view), at);
}

// Fills a region; operations inside go to it until it ends.
void BodyBuilder::run(Region& r, const std::vector<Arg>& args, const YieldingFn& body) {
  Region* outer = std::exchange(region_, &r);
  Values values;
  for (const Arg& a : args) {
    values.push_back(define(a.type, a.name));
    r.args.push_back(values.back().id);
  }
  const Values yields = body(*this, values);
  Op y;
  for (const Value& v : yields) y.operands.push_back(v.id);
  r.ops.push_back(std::move(y));
  region_ = outer;
}

Values BodyBuilder::op_with_regions(OpCode code, const Values& operands, const std::vector<const Type*>& results,
                                    AttrDict attrs, const std::vector<std::vector<Arg>>& args,
                                    const std::vector<YieldingFn>& bodies, Source at) {
  // The regions are built aside: operations inside may move the list that holds this one.
  std::vector<Region> regions(bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i) run(regions[i], args.at(i), bodies[i]);
  const Values r = op(code, operands, results, std::move(attrs), at);
  region_->ops.back().regions = std::move(regions);
  return r;
}

void BodyBuilder::when(Value predicate, const RegionFn& then, Source at) {
  cond(
      predicate, {},
      [&](BodyBuilder& b, const Values& a) {
        then(b, a);
        return Values{};
      },
      [](BodyBuilder&, const Values&) { return Values{}; }, at);
}

Values BodyBuilder::cond(Value predicate, const std::vector<const Type*>& results, const YieldingFn& on_true,
                         const YieldingFn& on_false, Source at) {
  return op_with_regions(OpCode::cond, {predicate}, results, {}, {{}, {}}, {on_false, on_true}, at);
}

Values BodyBuilder::loop(Value lower, Value upper, Value step, const Values& carried, const YieldingFn& body,
                         Source at) {
  Values operands = {lower, upper, step};
  operands.insert(operands.end(), carried.begin(), carried.end());
  std::vector<Arg> args = {{lower.type, {}}};
  for (const Value& v : carried) args.push_back({v.type, {}});
  return op_with_regions(OpCode::for_, operands, types_of(carried), {}, {args}, {body}, at);
}

void BodyBuilder::scoped(const std::vector<Arg>& allocations, const RegionFn& body, Source at) {
  op_with_regions(OpCode::run_scoped, {}, {}, {}, {allocations}, {[&](BodyBuilder& b, const Values& a) {
                    body(b, a);
                    return Values{};
                  }},
                  at);
}

ModuleBuilder::ModuleBuilder(std::string name, Machine machine, bool locations) : locations_(locations) {
  m_.name = std::move(name);
  m_.machine = machine;
}

ModuleBuilder& ModuleBuilder::attr(std::string key, Attr value) {
  return m_.attrs.emplace_back(std::move(key), std::move(value)), *this;
}
ModuleBuilder& ModuleBuilder::param(std::string name) { return m_.params.push_back(std::move(name)), *this; }

ModuleBuilder& ModuleBuilder::mesh(std::string name, std::string kind, std::vector<MeshAxis> axes) {
  m_.meshes.push_back({std::move(name), std::move(kind), std::move(axes), {}});
  return *this;
}

ModuleBuilder& ModuleBuilder::grid(int64_t size, std::string semantics) {
  GridAxis g;
  g.size = size;
  g.semantics = std::move(semantics);
  m_.grid.push_back(std::move(g));
  return *this;
}

ModuleBuilder& ModuleBuilder::dynamic_grid(int k, std::string semantics) {
  grid(0, std::move(semantics));
  m_.grid.back().dynamic = k;
  m_.num_dynamic = std::max(m_.num_dynamic, k + 1);
  return *this;
}

ModuleBuilder& ModuleBuilder::operand(Operand::Kind kind, std::string name, const Type* array, Space space) {
  Operand o;
  o.kind = kind;
  o.name = std::move(name);
  o.array = array;
  o.space = space;
  m_.operands.push_back(std::move(o));
  return *this;
}

ModuleBuilder& ModuleBuilder::prefetch(std::string name, const Type* array, Space space) {
  return operand(Operand::Kind::Prefetch, std::move(name), array, space);
}
ModuleBuilder& ModuleBuilder::input(std::string name, const Type* array, Space space) {
  return operand(Operand::Kind::Input, std::move(name), array, space);
}
ModuleBuilder& ModuleBuilder::output(std::string name, const Type* array, Space space) {
  return operand(Operand::Kind::Output, std::move(name), array, space);
}

ModuleBuilder& ModuleBuilder::block(const std::vector<int64_t>& sizes, const YieldingFn& map) {
  std::vector<BlockDim> dims;
  for (int64_t n : sizes)
    dims.push_back(n == 0 ? BlockDim{BlockDim::Kind::Squeezed, 1, 0, 0} : BlockDim{BlockDim::Kind::Blocked, n, 0, 0});
  return block(std::move(dims), map);
}

ModuleBuilder& ModuleBuilder::block(std::vector<BlockDim> dims, const YieldingFn& map) {
  if (m_.operands.empty()) throw std::logic_error("ModuleBuilder::block before an operand");
  std::vector<Arg> args;
  for (size_t i = 0; i < m_.grid.size(); ++i) args.push_back({type(DType::I32, {}), {}});
  for (const Operand& o : m_.operands)
    if (o.kind == Operand::Kind::Prefetch) args.push_back({ref(o.array->dtype, o.array->dims, o.space), o.name});
  Operand& o = m_.operands.back();
  o.has_block = true;
  o.block = std::move(dims);
  o.index_map = std::make_unique<Graph>(build(args, map));
  return *this;
}

ModuleBuilder& ModuleBuilder::scratch(std::string name, const Type* t) {
  return m_.scratch.push_back({std::move(name), t, {}}), *this;
}
ModuleBuilder& ModuleBuilder::alias(int input, int output) { return m_.aliases.push_back({input, output}), *this; }

ModuleBuilder& ModuleBuilder::body(const RegionFn& f, std::string mesh) {
  std::vector<Arg> args;
  for (const Operand& o : m_.operands) {
    std::vector<Dim> dims = o.has_block ? std::vector<Dim>() : o.array->dims;
    for (const BlockDim& d : o.block)
      if (d.kind != BlockDim::Kind::Squeezed) dims.emplace_back(d.size);
    args.push_back({ref(o.array->dtype, std::move(dims), o.space), o.name});
  }
  for (const Scratch& s : m_.scratch) args.push_back({s.type, s.name});
  Body b;
  b.mesh = std::move(mesh);
  b.graph = build(args, [&](BodyBuilder& bb, const Values& v) {
    f(bb, v);
    return Values{};
  });
  m_.bodies.push_back(std::move(b));
  return *this;
}

Graph ModuleBuilder::build(const std::vector<Arg>& args, const YieldingFn& f) {
  Graph g;
  BodyBuilder(m_, g, locations_).run(g.region, args, f);
  Renumber(g).run();
  return g;
}

Module ModuleBuilder::finish() {
  verify(m_);
  return std::move(m_);
}

}  // namespace pallasim::ir
