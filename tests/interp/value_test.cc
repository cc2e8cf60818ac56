// Values while a plan is compiled: what belongs to another form cannot be asked.
#include "compile/values/value.h"

#include <gtest/gtest.h>

#include <stdexcept>

using namespace pallasim;
using namespace pallasim::interp;

namespace {

const std::vector<Val>& one_of_each() {
  static const std::vector<Val> all = {{},
                                       scalar_in(16, ir::DType::F32),
                                       scalar_in(16, ir::DType::F32).spread({2, 3}),
                                       {ir::DType::F32, {2, 3}, Val::Strided{}},
                                       {ir::DType::F32, {2, 3}, std::make_shared<Node>()},
                                       {ir::DType::F32, {2, 3}, Val::Ref{}}};
  return all;
}

template <typename F>
std::string who_answers(const F& ask) {
  std::string r;
  for (const Val& v : one_of_each()) try {
      ask(v);
      r += '+';
    } catch (const std::logic_error&) { r += '-'; }
  return r;
}

}  // namespace

TEST(Value, EachFormHasWhatBelongsToIt) {  // none, scalar, splat, strided, pending, ref
  EXPECT_EQ(who_answers([](const Val& v) { return v.scalar().slot; }), "-++---");
  EXPECT_EQ(who_answers([](const Val& v) { return v.memory().addr; }), "---+-+");
  EXPECT_EQ(who_answers([](const Val& v) { return v.node(); }), "----+-");
  EXPECT_EQ(who_answers([](const Val& v) { return v.ref().extents; }), "-----+");
  for (size_t i = 0; i < one_of_each().size(); ++i) EXPECT_EQ(static_cast<size_t>(one_of_each()[i].kind()), i);
}

TEST(Value, ASpreadScalarIsTheSameScalar) {
  const Val s = scalar_in(32, ir::DType::I32), all = s.spread({4});
  EXPECT_TRUE(s.is_scalar() && !all.is_scalar() && all.is_uniform());
  EXPECT_EQ(all.scalar().slot, 32u);
  EXPECT_EQ(all.elements(), 4);
  EXPECT_TRUE(all.spread({}).is_scalar());
}

TEST(Value, ARefAsElementsIsTheSamePlace) {
  Val::Ref r;
  r.addr = {3, memory::Addr::kNoSlot, 64};
  r.strides = {2};
  r.origin = 7;
  r.read_only = true;
  const Val ref(ir::DType::F32, {4}, r), seen = ref.as_strided();
  EXPECT_TRUE(seen.is_strided() && same_place(ref, seen));
  EXPECT_EQ(seen.origin(), 7);
  EXPECT_EQ(one_of_each()[1].origin(), kNoOrigin);
}
