#include <gtest/gtest.h>

#include <cmath>

#include "pallasim/ir/builder.h"
#include "pallasim/ir/equal.h"
#include "pallasim/ir/literal.h"
#include "random_module.h"

namespace pallasim::ir {
namespace {

TEST(Property, RandomModulesRoundTrip) {
  int refused = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    const Module m = RandomModule(seed).make();
    const std::string text = print(m);
    Module again;
    ASSERT_NO_THROW(again = parse(text)) << text;
    ASSERT_TRUE(equal(m, again)) << text;
    ASSERT_EQ(print(again), text);
    try {
      verify(m);
    } catch (const DiagnosticError&) { ++refused; }
  }
  EXPECT_GT(refused, 1000);
}

// Cutting a module anywhere, or changing a byte, gives a module or a diagnostic and never anything else.
TEST(Property, DamagedTextIsRefusedWithAPosition) {
  const std::string text = print(RandomModule(7).make());
  for (size_t i = 0; i < text.size(); ++i) {
    for (std::string damaged :
         {text.substr(0, i), text.substr(0, i) + '}' + text.substr(i + 1), text.substr(0, i) + text.substr(i + 1)}) {
      try {
        parse(damaged);
      } catch (const DiagnosticError& e) {
        EXPECT_GT(e.diagnostic().site.source.line, 0);
        EXPECT_GT(e.diagnostic().site.source.column, 0);
      }
    }
  }
}

bool verifies(OpCode code, int operands, DType t, std::vector<Dim> second, AttrDict attrs, DType result) {
  ModuleBuilder mb("k", Machine::Generic);
  mb.body([&](BodyBuilder& b, const Values&) {
    Values v = {b.iota(t, {4, 2}, 0)};
    while (static_cast<int>(v.size()) < operands)
      v.push_back(second.empty() ? b.reduce(OpCode::reduce_max, v[0], {0, 1}) : b.iota(t, second, 0));
    b.op(code, v, b.tensor(result, {4, 2}), attrs);
  });
  try {
    mb.finish();
    return true;
  } catch (const DiagnosticError&) { return false; }
}

AttrDict required(const OpInfo& i) {
  AttrDict d;
  for (const AttrSpec& s : i.attrs)
    if (!s.optional)
      d.emplace_back(std::string(s.name), s.kind == AttrKind::Ints  ? Attr::ints({0})
                                          : s.kind == AttrKind::Sym ? Attr::symbol("x")
                                                                    : Attr::integer(1));
  return d;
}

TEST(Property, ElementwiseRulesAcceptOneShapeAndScalarsOnly) {
  int tried = 0;
  for (int k = 0; k < kNumOps; ++k) {
    const OpInfo& i = info(static_cast<OpCode>(k));
    if (i.rule != TypeRule::Same && i.rule != TypeRule::Compare && i.rule != TypeRule::Pow) continue;
    SCOPED_TRACE(std::string(i.name));
    bool some = false;
    for (DType t : {DType::F32, DType::I32, DType::Bool, DType::BF16}) {
      const DType r = i.rule == TypeRule::Compare ? DType::Bool : t;
      const bool ok = verifies(i.code, i.min_operands, t, {4, 2}, required(i), r);
      some = some || ok;
      if (!ok) continue;
      EXPECT_TRUE(verifies(i.code, i.min_operands, t, {}, required(i), r));
      EXPECT_FALSE(verifies(i.code, i.min_operands, t, {4, 2}, required(i), r == DType::F64 ? DType::F32 : DType::F64));
      EXPECT_FALSE(verifies(i.code, i.min_operands + 1, t, {4, 2}, required(i), r));
      if (i.min_operands > 1) { EXPECT_FALSE(verifies(i.code, i.min_operands, t, {2, 4}, required(i), r)); }
      ++tried;
    }
    EXPECT_TRUE(some);
  }
  EXPECT_GT(tried, 100);
}

TEST(Property, NarrowFloatsAreExactDoubles) {
  for (DType t : {DType::F8E3M4, DType::F8E4M3, DType::F8E4M3B11FNUZ, DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2,
                  DType::F8E5M2FNUZ, DType::F8E8M0FNU, DType::F4E2M1FN, DType::F16, DType::BF16}) {
    SCOPED_TRACE(std::string(name(t)));
    for (uint64_t b = 0; b < uint64_t{1} << bit_width(t); ++b) {
      const double v = bits_to_double(t, b);
      if (!std::isnan(v)) { ASSERT_EQ(double_to_bits(t, v), b) << v; }
    }
  }
  EXPECT_EQ(bits_to_double(DType::F8E4M3FN, 0x7e), 448);
  EXPECT_EQ(bits_to_double(DType::F8E5M2, 0x7b), 57344);
  EXPECT_EQ(bits_to_double(DType::F8E4M3FNUZ, 0x7f), 240);
  EXPECT_EQ(bits_to_double(DType::F4E2M1FN, 0x7), 6);
  EXPECT_EQ(double_to_bits(DType::BF16, 1.00390625), 0x3f80u);  // ties to even
  EXPECT_EQ(double_to_bits(DType::F16, 65520), 0x7c00u);
  EXPECT_EQ(double_to_bits(DType::I4, -1), 0xfu);
}

}  // namespace
}  // namespace pallasim::ir
