// Devices that reach into each other run as one launch: copies and signals to another device, and its coordinates.
#include "pallasim/interp/rewrites.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

constexpr int kDevices = 4;

// Every device sends its block to the next one, after that one said that it is ready.
constexpr std::string_view kRing = R"(pallasim-ir 1
module "ring" {machine = tpu, devices = [axis("y", 2), axis("x", 2)], communicates = true}
input "x_ref" : f32[8,128] {space = any}
output "o_ref" : f32[8,128] {space = any}
output "at_ref" : i32[2] {space = smem}
scratch "send" : ref<dma_sem[], semaphore>
scratch "recv" : ref<dma_sem[], semaphore>
body (%0 "x_ref": ref<f32[8,128], any>, %1 "o_ref": ref<f32[8,128], any>, %2 "at_ref": ref<i32[2], smem>,
    %3 "send": ref<dma_sem[], semaphore>, %4 "recv": ref<dma_sem[], semaphore>) {
  %5 = axis_index {axis = "y"} : i32[]
  %6 = axis_index {axis = "x"} : i32[]
  store %2, %5 {view = [index(0)]}
  store %2, %6 {view = [index(1)]}
  %7 = constant {value = i32 0x2} : i32[]
  %8 = mul %5, %7 : i32[]
  %9 = add %8, %6 : i32[]
  %10 = constant {value = i32 0x1} : i32[]
  %11 = constant {value = i32 0x4} : i32[]
  %12 = add %9, %10 : i32[]
  %13 = rem %12, %11 : i32[]
  %14 = constant {value = i32 0x3} : i32[]
  %15 = add %9, %14 : i32[]
  %16 = rem %15, %11 : i32[]
  run_scoped (%17 "ready": ref<sem[], semaphore>) {
    sem_signal %17, %10, %16 {inc = $1, device_id = $2, device_id_type = logical}
    sem_wait %17, %10 {value = $1}
    yield
  }
  dma_start %0, %1, %4, %3, %13 {src = view($0, []), dst = view($1, []), dst_sem = view($2, []),
      src_sem = view($3, []), device_id = $4, device_id_type = logical}
  dma_wait %1, %0, %3 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
  dma_wait %0, %1, %4 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
  yield
}
)";

struct Ring {
  std::vector<Array> in, out, at;
  std::vector<std::vector<Buffer>> args, results;
  std::vector<DeviceCall> calls;

  Ring() {
    for (int d = 0; d < kDevices; ++d) {
      in.push_back(noise({8, 128}, static_cast<uint32_t>(d) + 1));
      out.push_back(noise({8, 128}, 99));
      at.push_back(i32({2}, {-1, -1}));
    }
    for (size_t d = 0; d < kDevices; ++d) {
      args.push_back({in[d].buffer()});
      results.push_back({out[d].buffer(), at[d].buffer()});
    }
    for (size_t d = 0; d < kDevices; ++d) calls.push_back({static_cast<int32_t>(d), args[d], results[d]});
  }
};

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::string code_of(std::string_view text, std::span<const DeviceCall> calls, std::string* message = nullptr) {
  Session session;
  try {
    launch(*compile(ir::parse(text)), session, calls);
  } catch (const ir::DiagnosticError& e) {
    if (message) *message = ir::render(e.diagnostic());
    return std::string(e.diagnostic().code.text());
  }
  return "";
}

// Calls check(ring, seed) behind launches whose copies move at every moment, in the usual order (seed 0) and others.
template <typename Check>
void under_every_schedule(const Plan& plan, uint64_t seeds, const Check& check) {
  for (const Options::Copies copies : {Options::Copies::AtIssue, Options::Copies::AtWait, Options::Copies::Scheduled})
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      Options o;
      o.copies = copies;
      if (seed) o.random_seed = seed;
      Session session;
      Ring r;
      const Report report = launch(plan, session, r.calls, o);
      EXPECT_EQ(report.threads, kDevices);
      EXPECT_TRUE(report.findings.empty());
      check(r, seed);
    }
}

TEST(Devices, EveryScheduleMovesTheRing) {
  const auto plan = compile(ir::parse(kRing));
  EXPECT_EQ(devices_of(*plan), kDevices);
  under_every_schedule(*plan, 20, [](const Ring& r, uint64_t) {
    for (size_t d = 0; d < kDevices; ++d) {
      EXPECT_EQ(r.out[(d + 1) % kDevices].bytes, r.in[d].bytes);
      EXPECT_EQ(r.at[d].as<int32_t>(),
                (std::vector<int32_t>{static_cast<int32_t>(d / 2), static_cast<int32_t>(d % 2)}));
    }
  });
}

// What is sent was stored for the copy alone: twice what the device has. `early`: of the memory that is received into,
// before the device says that it is ready. `itself`: every device is its own neighbour.
std::string computing_ring(bool early, bool itself) {
  std::string text(kRing);
  text = replaced(text, "body (", "scratch \"s\" : ref<f32[8,128], vmem>\nbody (");
  text = replaced(text, "%4 \"recv\": ref<dma_sem[], semaphore>)",
                  "%4 \"recv\": ref<dma_sem[], semaphore>, %30 \"s\": ref<f32[8,128], vmem>)");
  for (const char* name : {"dma_start %0", "dma_wait %1, %0", "dma_wait %0"}) {
    std::string to = name;
    to.replace(to.find("%0"), 2, "%30");
    text = replaced(text, name, to);
  }
  const std::string twice = "%32 = add %31, %31 : f32[8,128]\n  store %30, %32\n  ";
  if (early)
    text =
        replaced(text, "run_scoped",
                 "%33 = get %0 : f32[8,128]\n  store %1, %33\n  %31 = get %1 : f32[8,128]\n  " + twice + "run_scoped");
  else text = replaced(text, "dma_start", "%31 = get %0 : f32[8,128]\n  " + twice + "dma_start");
  if (itself) text = replaced(replaced(text, "rem %12, %11", "rem %9, %11"), "rem %15, %11", "rem %9, %11");
  return text;
}

TEST(Devices, ValuesThatAreComputedWhereACopyTakesThem) {
  for (const bool early : {false, true})
    for (const bool itself : {false, true}) {
      const int64_t before = hits(Rewrite::StoreForwarded);
      const auto plan = compile(ir::parse(computing_ring(early, itself)));
      EXPECT_EQ(hits(Rewrite::StoreForwarded) - before, 1);
      under_every_schedule(*plan, 10, [&](const Ring& r, uint64_t seed) {
        for (size_t d = 0; d < kDevices; ++d) {
          std::vector<float> want = r.in[d].as<float>();
          for (float& x : want) x *= 2;
          EXPECT_EQ(r.out[itself ? d : (d + 1) % kDevices].as<float>(), want) << early << itself << ' ' << seed;
        }
      });
    }
}

// A copy adds 1 to a semaphore that does not count bytes.
TEST(Devices, CopiesMaySignalRegularSemaphores) {
  std::string text(kRing);
  for (const char* name : {"scratch \"send\" : ref<dma_sem", "scratch \"recv\" : ref<dma_sem", "\"send\": ref<dma_sem",
                           "\"recv\": ref<dma_sem"}) {
    const std::string from = name;
    text = replaced(text, from, from.substr(0, from.size() - 7) + "sem");
  }
  text = replaced(text, "dma_wait %1, %0, %3 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}",
                  "sem_wait %3, %10 {value = $1}");
  text = replaced(text, "dma_wait %0, %1, %4 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}",
                  "sem_wait %4, %10 {value = $1}");
  const auto plan = compile(ir::parse(text));
  for (const Options::Copies copies : {Options::Copies::AtIssue, Options::Copies::AtWait, Options::Copies::Scheduled}) {
    Options o;
    o.copies = copies;
    Session session;
    Ring r;
    EXPECT_TRUE(launch(*plan, session, r.calls, o).findings.empty());
    for (size_t d = 0; d < kDevices; ++d) EXPECT_EQ(r.out[(d + 1) % kDevices].bytes, r.in[d].bytes);
  }
}

TEST(Devices, ADeadlockNamesTheDevices) {
  Ring r;
  std::string text;
  // Nobody says that it is ready, but to itself.
  EXPECT_EQ(code_of(replaced(std::string(kRing), "sem_wait %17, %10 {value = $1}", "sem_wait %17, %11 {value = $1}"),
                    r.calls, &text),
            "PS-DEAD-001");
  EXPECT_NE(text.find("device 0 of 4"), std::string::npos) << text;
  EXPECT_NE(text.find("ready of device 3"), std::string::npos) << text;
}

TEST(Devices, DevicesThatDoNotExistAndMissingOnes) {
  Ring r;
  std::string text;
  EXPECT_EQ(code_of(replaced(std::string(kRing), "%13 = rem %12, %11", "%13 = add %12, %11"), r.calls, &text),
            "PS-SEM-001");
  EXPECT_NE(text.find("copy to device 8, but there are 4"), std::string::npos) << text;
  EXPECT_EQ(code_of(kRing, std::span(r.calls).subspan(1)), "PS-ARG-001");
}

// A kernel that only asks where it runs needs no company.
TEST(Devices, CoordinatesWithoutCommunication) {
  constexpr std::string_view kWhere = R"(pallasim-ir 1
module "where" {machine = tpu, devices = [axis("y", 3), axis("x", 2)]}
output "o_ref" : i32[3] {space = smem}
body (%0 "o_ref": ref<i32[3], smem>) {
  %1 = axis_index {axis = "y"} : i32[]
  %2 = axis_index {axis = "x"} : i32[]
  %3 = axis_size {axis = "y"} : i32[]
  store %0, %1 {view = [index(0)]}
  store %0, %2 {view = [index(1)]}
  store %0, %3 {view = [index(2)]}
  yield
}
)";
  const auto plan = compile(ir::parse(kWhere));
  EXPECT_EQ(devices_of(*plan), 1);
  for (int32_t d = 0; d < 6; ++d) {
    Session session;
    Array out = i32({3}, {-1, -1, -1});
    const Buffer result = out.buffer();
    const DeviceCall call{d, {}, std::span(&result, 1)};
    launch(*plan, session, std::span(&call, 1));
    EXPECT_EQ(out.as<int32_t>(), (std::vector<int32_t>{d / 2, d % 2, 3}));
  }
}

// A signal to one device and a copy to another. Operand 2 and 3 of the signal, 3 and 4 of the copy are given at run
// time.
std::string alone(const std::string& signalled, const std::string& copied, const std::string& kind) {
  return R"(pallasim-ir 1
module "alone" {machine = tpu}
input "who" : i32[2] {space = smem}
input "x" : f32[8,128] {space = hbm}
output "o" : f32[8,128] {space = hbm}
scratch "came" : ref<dma_sem[], semaphore>
scratch "ready" : ref<sem[], semaphore>
body (%0 "who": ref<i32[2], smem>, %1 "x": ref<f32[8,128], hbm>, %2 "o": ref<f32[8,128], hbm>,
    %3 "came": ref<dma_sem[], semaphore>, %4 "ready": ref<sem[], semaphore>) {
  %5 = get %0 {view = [index(0)]} : i32[]
  %6 = get %0 {view = [index(1)]} : i32[]
  %7 = constant {value = i32 0x1} : i32[]
  sem_signal %4, %7, %5, %6 {inc = $1, device_id = )" +
         signalled + ", device_id_type = " + kind + R"(}
  sem_wait %4, %7 {value = $1}
  dma_start %1, %2, %3, %5, %6 {src = view($0, []), dst = view($1, []), dst_sem = view($2, []), device_id = )" +
         copied + ", device_id_type = " + kind + R"(}
  dma_wait %1, %2, %3 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
  yield
}
)";
}

TEST(Devices, WhereThereIsOneDeviceNobodyElseReceives) {
  const Array x = noise({8, 128});
  for (const char* id : {"0", "none"})
    EXPECT_EQ(run(alone(id, id, "logical"), {i32({2}, {0, 0}), x}).results[0].bytes, x.bytes) << id;
  EXPECT_EQ(run(alone("$2", "$3", "logical"), {i32({2}, {0, 7}), x}).results[0].bytes, x.bytes);
  EXPECT_EQ(run(alone("[$2, $3]", "[$3, $4]", "mesh"), {i32({2}, {0, 0}), x}).results[0].bytes, x.bytes);
  for (const auto& [signalled, copied] : std::vector<std::pair<std::string, std::string>>{{"$2", "0"}, {"0", "$3"}})
    for (const int who : {1, -1, 1 << 30})
      EXPECT_EQ(error_code(alone(signalled, copied, "logical"), {i32({2}, {who, 0}), x}), "PS-SEM-001") << who;
  for (const std::string id : {"1", "-1", "4294967296"}) {
    EXPECT_EQ(error_code(alone(id, "0", "logical"), {i32({2}, {0, 0}), x}), "PS-SEM-001") << id;
    std::string report;
    EXPECT_EQ(error_code(alone("0", id, "logical"), {i32({2}, {0, 0}), x}, {}, &report), "PS-SEM-001") << id;
    EXPECT_NE(report.find("but there is 1"), std::string::npos) << report;
  }
  for (const auto& who : {std::vector<int32_t>{1, 0}, {0, 1}, {3, -3}})
    EXPECT_EQ(error_code(alone("[$2, $3]", "0", "mesh"), {i32({2}, who), x}), "PS-SEM-001") << who[0];
  EXPECT_EQ(error_code(alone("[0, 1]", "0", "mesh"), {i32({2}, {0, 0}), x}), "PS-SEM-001");
  EXPECT_EQ(error_code(alone("[1, $2]", "0", "mesh"), {i32({2}, {0, 0}), x}), "PS-SEM-001");
}

}  // namespace
}  // namespace pallasim::interp::test
