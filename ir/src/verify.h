// What the verifier's rules share: the operation under test and the ways to refuse it.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "pallasim/ir/module.h"

namespace pallasim::ir {

// The operation that a rule looks at.
struct OpCheck {
  const Module& m;
  const Graph& g;
  const Op& op;
  const OpInfo& info;

  int num_in() const { return static_cast<int>(op.operands.size()); }
  int num_out() const { return static_cast<int>(op.results.size()); }
  const Type& in(int i) const { return *g.type(op.operands[static_cast<size_t>(i)]); }
  const Type& out(int i = 0) const { return *g.type(op.results[static_cast<size_t>(i)]); }

  [[noreturn]] void fail(Code code, std::string message, std::string hint = {}) const;
  // "'add': operand 1 (%4) has type i32[8], …": `expected` completes "but … ".
  [[noreturn]] void bad_operand(int i, const std::string& expected, std::string hint = {}) const;
  [[noreturn]] void bad_result(int i, const std::string& expected, std::string hint = {}) const;
  [[noreturn]] void bad_attr(const std::string& key, const std::string& why) const;

  void need_results(int n) const;
  void need_tensor(int i) const;      // a tensor whose elements carry a value
  void need_int_scalar(int i) const;  // an integer tensor of rank 0
  void need_out_tensor(int i = 0) const;
  // The result must have this type; `why` names the rule: "the operand's shape without axes 1".
  void need_out(DType dtype, const std::vector<Dim>& dims, const char* why) const;

  // Attributes whose kinds were checked already.
  int64_t int_attr(const char* key, int64_t otherwise = 0) const;
  std::vector<Dim> dims_attr(const char* key) const;                // a symbolic entry becomes a symbolic Dim
  std::vector<int64_t> axes_attr(const char* key, int rank) const;  // in range, no duplicates
  int axis_attr(const char* key, int rank) const;
};

// Symbolic dimensions: equal text means equal; what cannot be decided passes.
bool may_equal(const Dim& a, const Dim& b);
bool may_equal(const std::vector<Dim>& a, const std::vector<Dim>& b);
// By may_equal. Refs compare without scope and mesh: JAX's types of refs inside closures leave them out.
bool same_type(const Type& a, const Type& b);
// `any` and `deflt` are left to the compiler and match every space.
bool same_space(Space a, Space b);
std::string shape_text(DType dtype, const std::vector<Dim>& dims);

// True for an integer or an expression over shape parameters; fills `out`.
bool is_dim(const Attr& a, Dim* out = nullptr);

// The array that a list of transforms shows.
struct ViewShape {
  DType dtype = DType::F32;
  std::vector<Dim> dims;
  bool known_dtype = true;
  bool known_shape = true;
};
// Checks the transforms of a ref and follows them: those of a typed view, or a list that is none, to say why.
ViewShape view_shape(const OpCheck& c, const Type& ref, const Attr* transforms);
// Checks `view($k, [transforms])`.
ViewShape check_view_attr(const OpCheck& c, const std::string& key, const Attr& view);
// "did you mean 'index'?"
std::string unknown_transform_hint(std::string_view name);

// Dispatches on the op's type rule.
void check_types(const OpCheck& c);

// One per rule (type_rules*.cc).
void rule_abs(const OpCheck&);
void rule_arg_reduce(const OpCheck&);
void rule_bitcast_convert(const OpCheck&);
void rule_broadcast(const OpCheck&);
void rule_call(const OpCheck&);
void rule_clamp(const OpCheck&);
void rule_compare(const OpCheck&);
void rule_complex_part(const OpCheck&);
void rule_concat(const OpCheck&);
void rule_cond(const OpCheck&);
void rule_constant(const OpCheck&);
void rule_convert(const OpCheck&);
void rule_cumulative(const OpCheck&);
void rule_declared(const OpCheck&);
void rule_dot(const OpCheck&);
void rule_dynamic_slice(const OpCheck&);
void rule_dynamic_update(const OpCheck&);
void rule_for(const OpCheck&);
void rule_get(const OpCheck&);
void rule_identity(const OpCheck&);
void rule_index(const OpCheck&);
void rule_iota(const OpCheck&);
void rule_masked_load(const OpCheck&);
void rule_no_result(const OpCheck&);
void rule_pad(const OpCheck&);
void rule_pow(const OpCheck&);
void rule_predicate(const OpCheck&);
void rule_reduce(const OpCheck&);
void rule_ref_result(const OpCheck&);
void rule_reshape(const OpCheck&);
void rule_same(const OpCheck&);
void rule_scoped(const OpCheck&);
void rule_select(const OpCheck&);
void rule_slice(const OpCheck&);
void rule_split(const OpCheck&);
void rule_stack(const OpCheck&);
void rule_store(const OpCheck&);
void rule_swap(const OpCheck&);
void rule_tile(const OpCheck&);  // repeat, too
void rule_transpose(const OpCheck&);
void rule_unstack(const OpCheck&);
void rule_variadic(const OpCheck&);
void rule_while(const OpCheck&);

// Declarations: grid, meshes, operands, index maps, aliases, bodies' arguments (verify_module.cc).
void check_declarations(const Module& m);
// One graph: structure and types of every operation (verify_graph.cc). `what` names it in messages.
void check_graph(const Module& m, const Graph& g, const std::string& what);
[[noreturn]] void fail_module(const Module& m, Code code, std::string message, std::string hint = {});
// What is refused about a declaration, and is nowhere else, is at it.
template <typename F>
void declared_at(const Module& m, LocId loc, const F& check) {
  try {
    check();
  } catch (DiagnosticError& e) {
    Diagnostic& d = e.diagnostic();
    if (d.site.source.file.empty()) d.site = site_of(m, loc);
    std::move(d).raise();
  }
}

// The line that launches the kernel, or that of `module` in a text; -1 where neither is known.
LocId line_of_module(const Module& m);
// Every name in a type's symbolic dimensions is a declared parameter.
void check_params(const Module& m, const Type& t, const std::string& where);

}  // namespace pallasim::ir
