#include "pallasim/ir/builder.h"

#include <gtest/gtest.h>

#include "files.h"
#include "pallasim/ir/equal.h"

namespace pallasim::ir {
namespace {

std::string golden(const char* name) { return read(std::filesystem::path(PALLASIM_TESTS_DIR) / "pass" / name); }

TEST(Builder, Matmul) {
  ModuleBuilder mb("matmul_kernel", Machine::Generic);
  const Type* square = mb.type(DType::F32, {1024, 1024});
  mb.grid(2).grid(2);
  mb.input("x_ref", square).block({512, 1024}, [](BodyBuilder& b, const Values& i) {
    return Values{i[0], b.constant(DType::I32, 0)};
  });
  mb.input("y_ref", square).block({1024, 512}, [](BodyBuilder& b, const Values& i) {
    return Values{b.constant(DType::I32, 0), i[1]};
  });
  mb.output("z_ref", square).block({512, 512}, [](BodyBuilder&, const Values& i) { return Values{i[0], i[1]}; });
  mb.body([](BodyBuilder& b, const Values& refs) {
    const Value x = b.get(refs[0]), y = b.get(refs[1]);
    b.store(refs[2], b.matmul(x, y));
  });
  EXPECT_EQ(print(mb.finish()), golden("matmul_2x2.psir"));
}

TEST(Builder, PredicateAndSqueezedBlock) {
  ModuleBuilder mb("sum_kernel", Machine::Generic);
  mb.grid(4, "arbitrary");
  mb.input("x_ref", mb.type(DType::F32, {4, 8, 128}), Space::Vmem)
      .block({0, 8, 128}, [](BodyBuilder& b, const Values& i) {
        const Value zero = b.constant(DType::I32, 0);
        return Values{i[0], zero, zero};
      });
  mb.output("o_ref", mb.type(DType::F32, {8, 128}), Space::Vmem).block({8, 128}, [](BodyBuilder& b, const Values&) {
    const Value zero = b.constant(DType::I32, 0);
    return Values{zero, zero};
  });
  mb.body([](BodyBuilder& b, const Values& refs) {
    const Value id = b.program_id(0), zero = b.constant(DType::I32, 0);
    const Value first = b.compare(OpCode::eq, id, zero);
    b.when(first, [&](BodyBuilder& b, const Values&) {
      b.store(refs[1], b.broadcast(b.constant(DType::F32, 0), {8, 128}, {}));
    });
    const Value sum = b.get(refs[1]);
    b.store(refs[1], b.add(sum, b.get(refs[0])));
  });
  EXPECT_EQ(print(mb.finish()), golden("sum_when.psir"));
}

TEST(Builder, LoopsScopesAndIndices) {
  ModuleBuilder mb("k", Machine::Tpu, true);
  mb.input("x_ref", mb.type(DType::I32, {16}), Space::Smem).output("o_ref", mb.type(DType::I32, {2}), Space::Smem);
  const Type* tmp = mb.ref(DType::I32, {4}, Space::Smem);
  mb.body([&](BodyBuilder& b, const Values& refs) {
    const Value zero = b.constant(DType::I32, 0), one = b.constant(DType::I32, 1), end = b.constant(DType::I32, 16);
    const Values sum = b.loop(zero, end, one, {zero}, [&](BodyBuilder& b, const Values& v) {
      return Values{b.add(v[1], b.get(refs[0], {v[0]}))};
    });
    b.store(refs[1], sum[0], {0});
    b.scoped({{tmp, "tmp_ref"}},
             [&](BodyBuilder& b, const Values& v) { b.store(v[0], b.get(refs[0], {slice(sum[0], 4, 2)})); });
  });
  const Module m = mb.finish();
  ASSERT_FALSE(m.locs.empty());
  EXPECT_EQ(m.locs[0].source.file, "builder_test.cc");
  EXPECT_GT(m.locs[0].source.line, 40);
  EXPECT_LT(m.locs[0].source.line, 80);
  EXPECT_TRUE(equal(m, parse(print(m))));
  EXPECT_NE(print(m).find("%5 = for %2, %4, %3, %2 (%6: i32[], %7: i32[]) {"), std::string::npos) << print(m);
  EXPECT_NE(print(m).find("{view = [index(slice($1, 4, 2))]}"), std::string::npos) << print(m);
}

TEST(Builder, RefusesWrongTypes) {
  ModuleBuilder mb("k", Machine::Generic);
  mb.input("x_ref", mb.type(DType::F32, {8}));
  mb.body([](BodyBuilder& b, const Values& refs) { b.store(refs[0], b.iota(DType::F32, {4}, 0)); });
  try {
    mb.finish();
    FAIL();
  } catch (const DiagnosticError& e) { EXPECT_EQ(e.diagnostic().code, "PS-IR-107"); }
}

}  // namespace
}  // namespace pallasim::ir
