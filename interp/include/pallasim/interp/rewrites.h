// How often the plan compiler replaced what a module says by something faster. For tests: each replacement has to be
// among the programs that judge it.
#pragma once
#include <cstdint>
#include <string_view>

namespace pallasim::interp {

#define PALLASIM_REWRITES(X)                                             \
  X(EqualScalar, "a scalar that was computed before")                    \
  X(KnownAnswer, "a comparison of numbers whose ranges answer it")       \
  X(BranchOnTruth, "a branch on a truth value as it is")                 \
  X(EqualIndex, "an offset of a view that was found before")             \
  X(FoldedScalar, "an operation of constants")                           \
  X(ScalarByPower, "a division or remainder by a power of two")          \
  X(MultiplyAdd, "a product and a sum of integers")                      \
  X(StraightLoop, "a loop of one trip or none")                          \
  X(LoopCounter, "a carry that counts as the loop's index does")         \
  X(CarryInPlace, "a scalar that is computed in the slot of its carry")  \
  X(FollowingScalar, "a scalar step that goes on to the next one")       \
  X(HandedOver, "a scalar that reaches the next step in a register")     \
  X(CopyElided, "memory whose bytes may stay where copies get them")     \
  X(StoreForwarded, "a value that is computed where a copy takes it")    \
  X(OneStepStore, "a store of one element in one step")                  \
  X(FusedChain, "elementwise operations in one pass")                    \
  X(ArrangedInPlace, "an array that is put together where it is stored") \
  X(RoundedByStore, "a result that the store rounds")                    \
  X(LoadedInPlace, "a masked load that is a view where it can be one")   \
  X(StoredInPlace, "a value that is computed where a mask stores it")    \
  X(AffineIndex, "an index array that needs no memory")                  \
  X(AffineMask, "a mask that needs no memory")                           \
  X(KnownView, "elements by index and mask that are a view")             \
  X(ApartByAccess, "a grid axis along which accesses lie apart")         \
  X(CoveredByStores, "an output that stores through indices fill")

enum class Rewrite : uint8_t {
#define PALLASIM_REWRITE(name, what) name,
  PALLASIM_REWRITES(PALLASIM_REWRITE)
#undef PALLASIM_REWRITE
      Count
};

std::string_view describe(Rewrite);
void count(Rewrite, int64_t times = 1);
int64_t hits(Rewrite);  // of this process

}  // namespace pallasim::interp
