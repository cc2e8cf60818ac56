// A debugger changes nothing about a run, and goes back to what was.
#include "pallasim/interp/debug.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "launch/debug_symbols.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

std::vector<Array> arrays_of(const ir::Module& m, bool outputs) {
  std::vector<Array> r;
  for (const ir::Operand& o : m.operands) {
    if ((o.kind == ir::Operand::Kind::Output) != outputs) continue;
    Array a{o.array->dtype, {}, std::vector<std::byte>(static_cast<size_t>(o.array->num_bytes()))};
    for (const ir::Dim& d : o.array->dims) a.dims.push_back(d.size);
    if (a.dtype == ir::DType::F32) a.bytes = noise(a.dims).bytes;
    r.push_back(std::move(a));
  }
  return r;
}

// A debugger with arrays of its own.
struct Debugged {
  std::vector<Array> in, to;
  std::unique_ptr<Debugger> debugger;

  explicit Debugged(const std::string& text, const Options& o = {}) {
    ir::Module m = ir::parse(text);
    in = arrays_of(m, false), to = arrays_of(m, true);
    std::vector<Buffer> args, results;
    for (Array& a : in) args.push_back(a.buffer());
    for (Array& a : to) results.push_back(a.buffer());
    const DeviceCall call{0, args, results, 0};
    debugger = std::make_unique<Debugger>(std::move(m), std::span(&call, 1), o);
  }
  Debugger* operator->() { return debugger.get(); }
  std::vector<std::vector<std::byte>> bytes() const {
    std::vector<std::vector<std::byte>> r;
    for (const Array& a : to) r.push_back(a.bytes);
    return r;
  }
};

struct End {
  std::vector<std::vector<std::byte>> bytes;
  std::string token, stop;
  std::vector<std::string> prints, codes;
  bool operator==(const End&) const = default;
};

End end_of(const Report& report, const std::optional<ir::Diagnostic>& stop, std::vector<std::vector<std::byte>> bytes) {
  End e{std::move(bytes), report.token, stop ? std::string(stop->code.text()) : "", report.prints, {}};
  for (const ir::Diagnostic& d : report.findings) e.codes.emplace_back(d.code.text());
  if (stop) e.bytes.clear();  // how far it came with them depends on the plan
  return e;
}

End plain(const std::string& text, const Options& o) {
  auto plan = compile(ir::parse(text), o);
  std::vector<Array> in = arrays_of(module_of(*plan), false), to = arrays_of(module_of(*plan), true);
  std::vector<Buffer> args, results;
  for (Array& a : in) args.push_back(a.buffer());
  for (Array& a : to) results.push_back(a.buffer());
  Session session;
  const DeviceCall call{0, args, results, 0};
  const interp::Outcome outcome = try_launch(*plan, session, std::span(&call, 1), o);
  std::vector<std::vector<std::byte>> bytes;
  for (const Array& a : to) bytes.push_back(a.bytes);
  return end_of(outcome.report, outcome.stop, std::move(bytes));
}

End looked_at(const std::string& text, const Options& o) {
  Debugged s(text, o);
  using How = Debugger::How;
  for (int i = 0; i < 6 && !s->at_end(); ++i) {
    s->step(i % 2 ? How::Operation : How::Over);
    s->threads(), s->objects(), s->in_flight(), s->memory();
    if (!s->frames().empty() && !s->at_end())
      for (const DebugValue& v : s->refs())
        if (!ir::is_sync(v.dtype)) s->evaluate(v.name);
    if (i == 3) s->step_back(How::Into), s->step_back(How::Operation);
  }
  if (s->moment() > 3) s->go_back();
  s->finish();
  return end_of(s->report(), s->error(), s.bytes());
}

TEST(Debugger, LookingChangesNothing) {
  int runs = 0;
  for (const auto& [file, text] : kernels_that_pass()) {
    for (int how = 0; how < 3; ++how) {
      Options o;
      o.livelock_steps = 100'000;
      o.workers = 1;
      if (how > 0) o.random_seed = 3;
      o.checked = how == 2;
      if (how == 1) o.copies = Options::Copies::Scheduled;
      EXPECT_EQ(plain(text, o), looked_at(text, o)) << file << ", " << how;
      ++runs;
    }
  }
  EXPECT_GT(runs, 45);
}

const char* kLoop = R"ir(pallasim-ir 1
module "squares" {machine = tpu}
output "o_ref" : f32[8,128] {space = vmem}
scratch "acc_ref" : ref<f32[8,128], vmem>
body (%0 "o_ref": ref<f32[8,128], vmem>, %1 "acc_ref": ref<f32[8,128], vmem>) {
  %2 = constant {value = f32 0x3f800000} : f32[]
  %3 = broadcast_in_dim %2 {dims = []} : f32[8,128] @0
  store %1, %3 @0
  %4 = constant {value = i32 0x0} : i32[]
  %5 = constant {value = i32 0x1} : i32[]
  %6 = constant {value = i32 0x200} : i32[]
  for %4, %6, %5 (%7: i32[]) {
    %8 = get %1 : f32[8,128] @1
    %9 = convert %7 : f32[] @2
    %10 = broadcast_in_dim %9 {dims = []} : f32[8,128] @2
    %11 = add %8, %10 : f32[8,128] @2
    store %1, %11 @3
    yield
  } @4
  %12 = get %1 : f32[8,128] @5
  store %0, %12 @5
  yield
}
loc 0 {file = "k.py", line = 2, column = 4, function = "kernel", text = "acc_ref[...] = jnp.ones((8, 128))"
}
loc 1 {file = "k.py", line = 5, column = 8, function = "body", text = "a = acc_ref[...]"}
loc 2 {file = "k.py", line = 6, column = 8, function = "body", text = "b = a + i"}
loc 3 {file = "k.py", line = 7, column = 8, function = "body", text = "acc_ref[...] = b"}
loc 4 {file = "k.py", line = 4, column = 4, function = "kernel", text = "@pl.loop(0, 512)"}
loc 5 {file = "k.py", line = 8, column = 4, function = "kernel", text = "o_ref[...] = acc_ref[...]"}
)ir";

// PALLASIM_DEBUG_STEPS=100000 makes a longer walk.
TEST(Debugger, EachStepBackIsTheMomentThatWas) {
  const char* asked = std::getenv("PALLASIM_DEBUG_STEPS");
  const int kSteps = asked ? std::atoi(asked) : 1500;
  std::string text = kLoop;
  if (asked) text.replace(text.find("i32 0x200"), 9, fmt::format("i32 {:#x}", kSteps));
  Debugged s(text);
  std::vector<size_t> was;
  std::vector<int> lines;
  const auto now = [&] {
    const std::vector<std::byte> bytes = s->evaluate("acc_ref").bytes;
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  for (int i = 0; i < kSteps; ++i) {
    was.push_back(now());
    lines.push_back(s->frames().front().line.line);
    s->step(Debugger::How::Operation);
  }
  for (int i = kSteps; i-- > 0;) {
    s->step_back(Debugger::How::Operation);
    ASSERT_EQ(was[static_cast<size_t>(i)], now()) << i;
    ASSERT_EQ(lines[static_cast<size_t>(i)], s->frames().front().line.line) << i;
  }
  s->finish();
  EXPECT_EQ(end_of(s->report(), s->error(), s.bytes()), plain(text, {}));
}

TEST(Debugger, ConditionsWatchpointsAndLastWritesAgree) {
  Debugged s(kLoop);
  s->break_at("k.py", 6, "%7 == 300 and a[0, 0] > 1");
  EXPECT_EQ(s->go_on().why, DebugStop::Why::Breakpoint);
  EXPECT_EQ(s->evaluate("a[3, 5] == 1 + 300 * 299 / 2").bytes.front(), std::byte{1});
  EXPECT_THROW(s->evaluate("b"), DebugError);  // of this trip it is not there yet
  EXPECT_EQ(s->last_write("acc_ref[2, 2]").why, DebugStop::Why::LastWrite);
  EXPECT_EQ(s->frames().front().line.line, 7);
  EXPECT_EQ(s->evaluate("%7 == 299").bytes.front(), std::byte{1});
  const DebugBreakpoint w = s->watch("acc_ref[2, 2]", Debugger::Watch::Write);
  const DebugStop stop = s->go_on();
  EXPECT_EQ(stop.why, DebugStop::Why::Watchpoint);
  EXPECT_EQ(stop.text, "acc_ref[2, 2]: 44552 -> 44851, written at k.py:7");
  EXPECT_TRUE(s->remove(w.number));
  EXPECT_EQ(s->go_back().why, DebugStop::Why::Start);
  EXPECT_THROW(s->last_write("acc_ref[0, 0]"), DebugError);
}

TEST(Debugger, StepsOverAndOutOfRegions) {
  Debugged s(kLoop);
  const auto line = [&] { return s->frames().front().line.line; };
  s->break_at("k.py", 6);
  s->go_on();
  EXPECT_EQ(line(), 6);
  s->remove(1);
  s->step(Debugger::How::Out);
  EXPECT_EQ(line(), 8);
  s->step_back(Debugger::How::Over);
  EXPECT_EQ(line(), 4);
  s->step(Debugger::How::Over);
  EXPECT_EQ(line(), 8);
  s->step_back(Debugger::How::Into);
  EXPECT_EQ(line(), 7);  // of the last trip
  EXPECT_EQ(s->evaluate("%7 == 511").bytes.front(), std::byte{1});
  s->step(Debugger::How::Over);
  s->step(Debugger::How::Over);
  EXPECT_TRUE(s->frames().front().done);
  EXPECT_EQ(s->step(Debugger::How::Over).why, DebugStop::Why::End);
}

TEST(Debugger, RefusesInWords) {
  Debugged s(kLoop);
  const auto says = [&](const char* expression) -> std::string {
    try {
      s->evaluate(expression);
    } catch (const DebugError& e) { return e.what(); }
    return "";
  };
  EXPECT_EQ(says("nothing"), "there is no nothing here");
  EXPECT_EQ(says("acc_ref[0"), "the expression ends too early: acc_ref[0");
  EXPECT_EQ(says("acc_ref[8]"), "index 8 of 8 elements");
  EXPECT_EQ(says("acc_ref[0, 0, 0]"), "acc_ref has rank 2: 3 indices are too many");
  EXPECT_EQ(says("acc_ref[0:2, 0] + acc_ref[0:3, 0]"), "shapes (2) and (3) do not go together");
  EXPECT_EQ(says("1 +* 2"), "this is not understood: * 2; in 1 +* 2");
  EXPECT_EQ(says("acc_ref.array"), "acc_ref is no operand, which has an array");
  EXPECT_FALSE(says(std::string(1000, '(').c_str()).empty());
  EXPECT_THROW(s->break_at("other.py", 3), DebugError);
  EXPECT_THROW(s->break_at("k.py", 100), DebugError);
  EXPECT_THROW(s->watch("acc_ref + 1", Debugger::Watch::Write), DebugError);
  EXPECT_THROW(s->choose_thread(7), DebugError);
}

TEST(Debugger, NamesThatALineAssigns) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(assigned_names("x = x_ref[i == 3]"), Names{"x"});
  EXPECT_EQ(assigned_names("a, b = f(x=1)"), (Names{"a", "b"}));
  EXPECT_EQ(assigned_names("(p, q) = lax.fori_loop(0, 3, body, (1, 2))"), (Names{"p", "q"}));
  EXPECT_EQ(assigned_names("total += y"), Names{"total"});
  EXPECT_EQ(assigned_names("n: int = 3"), Names{"n"});
  for (const char* none : {"o_ref[...] = y", "if x == y:", "f(x=1)", "return a", "x.y = 3", "# a = b", "\"a = b\""})
    EXPECT_EQ(assigned_names(none), Names{}) << none;
}

}  // namespace
}  // namespace pallasim::interp::test
