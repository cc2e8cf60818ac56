// Rules on the operations of a TensorCore's kernel: tpu_op_rules.cc, tpu_access_rules.cc, tpu_align_rules.cc.
#pragma once
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rules.h"

namespace pallasim::hw {

class TpuRules {
 public:
  TpuRules(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out)
      : m_(m), p_(p), out_(out), jax_(jax_minor(m)) {}
  void check();

 private:
  const char* floats_that_compile() const;
  ir::Diagnostic& add(ir::Code code, std::string message, ir::LocId loc, std::string hint) {
    return report(m_, out_, code, std::move(message), loc, std::move(hint));
  }
  void form(const ir::Op&, const std::string& what, std::string hint = {});
  void needs(const ir::Op&, int64_t generation, const std::string& what);
  const ir::Type& in(const ir::Op& op, size_t i) const { return *graph_->type(op.operands[i]); }
  const ir::Type& out(const ir::Op& op) const { return *graph_->type(op.results[0]); }

  void region(const ir::Region&);
  void operation(const ir::Op&);
  void lacks(const ir::Op&);
  void fold(const ir::Op&);
  void forms(const ir::Op&);
  void arithmetic(const ir::Op&);
  void memory_type(ir::DType, const std::string& name, ir::LocId made);
  void reduction(const ir::Op&);
  void dot(const ir::Op&);
  void convolution(const ir::Op&);
  void gather(const ir::Op&);
  void print(const ir::Op&);

  // accesses
  class Transforms;
  void note_blocks(const ir::Graph&);
  void load(const ir::Op&);
  void store(const ir::Op&);
  void copy(const ir::Op&);
  void receiver(const ir::Op&);
  // `access`: the last transform, where it is an index, is the access itself.
  void transforms(const ir::Op&, ir::ValueId ref, std::span<const ir::View> view, bool access);
  void alignment(const ir::Op&, ir::ValueId ref, std::span<const ir::View> view);
  void copied(const ir::Op&, ir::ValueId ref, std::span<const ir::View> view);
  void strides(const ir::Op&, ir::ValueId ref, std::span<const ir::View> view);
  void unproven(const ir::Op&, ir::ValueId ref, size_t dimension, int64_t unit, int64_t known);
  int64_t divisor(ir::ValueId, int depth = 0);
  int64_t derived_divisor(ir::ValueId, int depth);
  void barrier();
  static bool is_load(const ir::Op& op) { return op.code == ir::OpCode::get || op.code == ir::OpCode::masked_load; }
  bool is_element(const ir::Op&, const ir::Type&);
  bool is_loadable(const ir::Op&, const ir::Type& ref, const char* what);
  std::string name_of(ir::ValueId) const;

  const ir::Module& m_;
  const Profile& p_;
  std::vector<ir::Diagnostic>* out_;
  const int64_t jax_;  // rules that a later JAX lifted end with it
  const ir::Graph* graph_ = nullptr;
  std::unordered_map<ir::ValueId, const ir::Op*> defined_;
  std::unordered_map<ir::ValueId, const ir::Op*> loops_;  // by index
  std::unordered_map<ir::ValueId, int64_t> divisors_;
  std::unordered_set<ir::ValueId> folded_;  // made of constants
  bool has_barrier_ = false;
  std::unordered_map<ir::ValueId, std::vector<bool>>
      squeezed_;  // refs of blocks: which dims of the block the ref lacks
};

}  // namespace pallasim::hw
