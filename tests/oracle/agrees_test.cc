// The engine and the judge give the same bits for the modules of tests/pass, under every order of threads.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "evaluate.h"
#include "pallasim/interp/launch.h"

namespace pallasim::oracle {
namespace {

std::string text_of(const std::filesystem::path& p) {
  std::ifstream f(p);
  std::stringstream s;
  s << f.rdbuf();
  return s.str();
}

Array array_of(const ir::Type& t) {
  Array a{t.dtype, {}, std::vector<std::byte>(static_cast<size_t>(t.num_bytes()))};
  for (const ir::Dim& d : t.dims) a.dims.push_back(d.size);
  return a;
}

// Small integers: every sum and product of them is exact.
Array small(const ir::Type& t, uint32_t seed) {
  Array a = array_of(t);
  const auto n = static_cast<size_t>(t.num_elements());
  for (size_t i = 0; i < n; ++i) {
    const int v = static_cast<int>((i * 2654435761u + seed * 40503u) >> 7 & 7);
    const float f = static_cast<float>(v - 3);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    if (t.dtype == ir::DType::BF16) bits >>= 16;
    if (!ir::is_float(t.dtype)) bits = static_cast<uint32_t>(v);
    std::memcpy(a.bytes.data() + i * a.bytes.size() / n, &bits, a.bytes.size() / n);
  }
  return a;
}

std::vector<Array> arguments(const ir::Module& m) {
  std::vector<Array> args;
  for (int i = 0; i < m.num_dynamic; ++i) {
    args.push_back({ir::DType::I32, {}, std::vector<std::byte>(4)});
    args.back().bytes[0] = std::byte{3};
  }
  for (const ir::Operand& o : m.operands)
    if (o.kind != ir::Operand::Kind::Output) args.push_back(small(*o.array, static_cast<uint32_t>(args.size())));
  return args;
}

Outcome engine(const std::string& text, const std::vector<Array>& args) {
  const auto plan = interp::compile(ir::parse(text));
  std::vector<Array> in = args;
  Outcome r;
  for (const ir::Type* t : interp::result_types(*plan)) r.results.push_back(array_of(*t));
  std::vector<interp::Buffer> from, to;
  for (Array& a : in) from.push_back({a.bytes.data(), a.dtype, a.dims});
  for (Array& a : r.results) to.push_back({a.bytes.data(), a.dtype, a.dims});
  interp::Session session;
  r.prints = interp::launch(*plan, session, from, to).prints;
  return r;
}

// Equal bits; which NaN comes out of arithmetic is not specified.
bool same(const Array& a, const Array& b) {
  if (a.bytes == b.bytes || a.dtype != ir::DType::F32 || a.bytes.size() != b.bytes.size()) return a.bytes == b.bytes;
  for (size_t i = 0; i < a.bytes.size(); i += 4) {
    float x, y;
    std::memcpy(&x, a.bytes.data() + i, 4);
    std::memcpy(&y, b.bytes.data() + i, 4);
    if (std::memcmp(&x, &y, 4) != 0 && !(x != x && y != y)) return false;
  }
  return true;
}

TEST(Agrees, EveryModuleOfPass) {
  int modules = 0;
  for (const auto& file : std::filesystem::directory_iterator(PALLASIM_TESTS_DIR "/pass")) {
    if (file.path().extension() != ".psir") continue;
    SCOPED_TRACE(file.path().filename().string());
    const std::string text = text_of(file.path());
    const ir::Module m = ir::parse(text);
    const std::vector<Array> args = arguments(m);
    const Outcome want = evaluate(m, args);
    EXPECT_EQ(want.end, End::Done) << want.what;
    const Outcome got = engine(text, args);
    ASSERT_EQ(got.results.size(), want.results.size());
    for (size_t i = 0; i < got.results.size(); ++i) EXPECT_TRUE(same(got.results[i], want.results[i])) << "result " << i;
    EXPECT_EQ(got.prints, want.prints);
    const Outcome other = evaluate(m, args, {{7, 5, 3, 1}});
    for (size_t i = 0; i < other.results.size(); ++i) EXPECT_TRUE(other.results[i].bytes == want.results[i].bytes) << "result " << i << " in another order";
    ++modules;
  }
  EXPECT_GE(modules, 12);
}

}  // namespace
}  // namespace pallasim::oracle
