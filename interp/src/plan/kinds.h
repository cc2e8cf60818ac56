// What a step is: its kind, a row of steps.def. Reports, deadlocks, races, schedules and the printer ask this and never
// the function of a step.
#pragma once
#include <cassert>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "step.h"

namespace pallasim::interp {

struct ScalarForms;

enum class Kind : uint8_t {
#define STEP(kind, ...) kind,
#include "steps.def"
};
inline constexpr int kKinds = 0
#define STEP(...) +1
#include "steps.def"
    ;

// Where a thread goes on.
enum class Flow : uint8_t {
  Next,    // at the step behind it
  Branch,  // there, or at its jump
  Jump,    // at its jump alone
  Table,   // at one of the steps of its BranchTablePayload
  End,     // nowhere
};

// How elements that nobody wrote travel: what is undefined in a result.
enum class Definedness : uint8_t {
  None,         // it makes no elements, or defined ones
  Movement,     // each element as it was
  Lanewise,     // where one of the operands' elements at its place is
  Reduction,    // where any element that it is made of is
  Contraction,  // rows of the one and columns of the other operand
  Opaque,       // everywhere, if anything is
};

// Whether other threads can tell when a step runs: a choice of the schedule comes before such a step.
enum class Visible : uint8_t {
  Never,
  Shared,  // where memory that it touches is another thread's, too
  Always,
};

// What the cost of a step grows with.
enum class Work : uint8_t { None, Scalar, Elements, Bytes, Products, Message };

// How it is known which memory a step touches, before it runs (ops/footprint.h).
enum class Footprint : uint8_t {
  Nothing,     // slots alone
  Static,      // its payload says
  Dynamic,     // its payload and what slots and index arrays hold
  Operations,  // the sides of asynchronous operations that it starts or whose bytes it moves, told as it does so
};

// Traits, as bits.
inline constexpr uint8_t kProxy = 1;    // reads and writes shared memory by the asynchronous proxy
inline constexpr uint8_t kTrips = 2;    // of a loop whose trips have no order: begins it or a trip, or ends it
inline constexpr uint8_t kReaches = 4;  // itself touches memory that another thread has for itself

// One use of a block of semaphores or barriers by a step.
struct SyncUse {
  enum class Role : uint8_t {
    Signal,   // adds to it
    Written,  // a copy that the step starts adds to it when its destination is written
    Read,     // … when its source was read
    Await,    // takes from it
    Poll,     // looks at it in a loop that may wait for a change
  };
  static constexpr int64_t kAnyBytes = -1;  // known at run time only
  Role role = Role::Signal;
  int block = -1;                             // index into PlanMemory::semaphores
  bool elsewhere = false;                     // names a core or a device: not the thread's own
  int64_t bytes = 0;                          // Await of a copy's bytes: how many; 0: a count
  Wait::Kind object = Wait::Kind::Semaphore;  // or Barrier: `block` is an index into PlanMemory::barriers
};

// The sides of an asynchronous operation that a step starts, as reports name them; empty names: no ref of the kernel.
struct SideNames {
  std::string reads, writes;
};

// A row of steps.def.
struct KindRow {
  const char* name;
  Flow flow;
  Definedness definedness;
  void (*uses)(const Step&, std::vector<SyncUse>*);  // null: no semaphore and no barrier
  SideNames (*sides)(const Step&);                   // null: starts nothing asynchronous
  uint8_t traits;
  Visible visible;
  Work work;
  Footprint footprint;
  const char* payload;  // the name of its type; "void": none
};
const KindRow& row(Kind);
inline const KindRow& row(const Step& s) { return row(s.kind); }
inline bool has_trait(const Step& s, uint8_t trait) { return (row(s).traits & trait) != 0; }
inline bool starts_operation(const Step& s) { return row(s).sides != nullptr; }
std::span<const KindRow> kind_rows();

std::vector<SyncUse> sync_uses(const Step&);
// Steps that a thread may come to next, by id.
std::vector<int32_t> successors(const Step&);

// The payload types: complete in the header of their family (plan/payload).
struct Window;
// clang-format off
#define PALLASIM_PAYLOADS(X)                                                                                      \
  X(BranchTablePayload) X(SpawnPayload) X(UnreadWindow) X(PipelinePayload) X(IndexPayload) X(ValidPayload)        \
  X(ScopePayload) X(ScalarAccess) X(CopyPayload) X(FillPayload) X(ReinterpretPayload) X(GatherPayload)            \
  X(LoadedInPlace) X(StoredRows) X(ElisionPayload) X(ForwardPayload) X(ScalarStrip) X(EltProgram)                 \
  X(ReducePayload) X(ContractPayload) X(AsyncProductPayload) X(ArrayPayload) X(SemPayload) X(DmaPayload)          \
  X(DmaWaitPayload) X(RowCopyPayload) X(FetchAddPayload) X(BarrierPayload) X(PeerReadPayload)                     \
  X(PeerStorePayload) X(BulkCopyPayload) X(GroupWaitPayload) X(PrintPayload) X(CheckPayload) X(NanPayload)        \
  X(TensorProductPayload) X(TensorCopyPayload) X(TensorAccessPayload) X(TensorCommitPayload)                       \
  X(PeerArrayPayload) X(MultimemPayload) X(ClusterRequestPayload) X(ClusterAnswerPayload) X(PromisePayload)
// clang-format on
#define X(type) struct type;
PALLASIM_PAYLOADS(X)
#undef X
#undef PALLASIM_PAYLOADS

template <Kind>
struct PayloadOfKind;
#define STEP(kind, payload, ...)     \
  template <>                        \
  struct PayloadOfKind<Kind::kind> { \
    using type = payload;            \
  };
#include "steps.def"
template <Kind k>
using PayloadOf = typename PayloadOfKind<k>::type;

// What a step of kind `k` was given.
template <Kind k>
const PayloadOf<k>& payload(const Step& s) {
  assert(s.kind == k);
  return *static_cast<const PayloadOf<k>*>(s.payload);
}
template <Kind k>
const PayloadOf<k>& payload(const Step* s) {
  return payload<k>(*s);
}

// One of the bodies of a kind that has several.
struct StepForm {
  Kind kind;
  StepFn fn;
  const ScalarForms* scalar = nullptr;  // null: no scalar step
  // Scalar operations: which one, on what, to what.
  ir::OpCode op = ir::OpCode::add;
  CType type = CType::I32, made = CType::I32;
};

}  // namespace pallasim::interp
