// What a body is compiled for, and where in its module the compiler is.
#pragma once
#include <memory>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "../../plan/plan.h"
#include "../../plan/steps.h"
#include "pallasim/interp/rewrites.h"

namespace pallasim::interp {

using ir::Attr, ir::Op, ir::OpCode, ir::Region;

std::vector<int64_t> dims_of(const ir::Type*);
inline bool is_barrier(ir::DType t) { return t == ir::DType::Mbarrier || t == ir::DType::ClusterBarrier; }

// The integers of a list attribute; none where it is absent.
std::vector<int64_t> ints(const Attr*);

// PS-UNSUP-001 of a launch as a whole.
[[noreturn]] void unsupported(const ir::Module&, const std::string& what);

class Context {
 public:
  Context(Plan&, Body&);

  Plan& plan() { return plan_; }
  const Plan& plan() const { return plan_; }
  Body& body() { return body_; }
  const Body& body() const { return body_; }
  const PlanOptions& options() const { return plan_.options; }
  const ir::Module& module() const { return m_; }
  const ir::Graph& body_graph() const { return ir_body_.graph; }
  const hw::MachineModel& model() const { return model_; }
  const StepFunctions& functions() const { return *plan_.functions; }
  const KernelTable& kernels() const { return k_; }
  const Semantics& semantics() const { return semantics_; }
  // What a family of lowerings remembers from one operation to the next: made when it is first asked for.
  template <typename T>
  T& state() {
    std::shared_ptr<void>& s = states_[typeid(T)];
    if (!s) s = std::make_shared<T>();
    return *static_cast<T*>(s.get());
  }

  // The operation that is compiled; null before the first one.
  const Op* op() const { return op_; }
  ir::LocId loc() const { return op_ ? op_->loc : -1; }
  void at(const Op& op) { op_ = &op; }
  // While it lives, what is emitted stands for another operation.
  class At {
   public:
    At(Context& c, const Op* op) : c_(c), before_(c.op_) { c.op_ = op; }
    ~At() { c_.op_ = before_; }
    At(const At&) = delete;
    At& operator=(const At&) = delete;

   private:
    Context& c_;
    const Op* before_;
  };

  [[noreturn]] void unsupported(const Op&, const std::string& what) const;

 protected:
  void forget_states() { states_.clear(); }

  Plan& plan_;
  Body& body_;
  const ir::Module& m_;
  const ir::Body& ir_body_;
  const hw::MachineModel& model_;
  const KernelTable& k_;
  Semantics semantics_;

 private:
  const Op* op_ = nullptr;
  std::unordered_map<std::type_index, std::shared_ptr<void>> states_;
};

// Before anything of that size is allocated; `what` takes the memory. Throws PS-SIZE-001 above Options::max_memory.
void require_memory(const Context&, int64_t bytes, const std::string& what);
[[noreturn]] void too_much_memory(const Context&, int64_t bytes, const std::string& what);

}  // namespace pallasim::interp
