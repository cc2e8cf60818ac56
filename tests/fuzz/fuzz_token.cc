// Any text is a schedule that runs, or a diagnostic.
#include "pallasim/interp/explore.h"

namespace {
constexpr const char* kRing = R"(pallasim-ir 1
module "ring" {machine = generic}
mesh "ring" {kind = generic, axes = [axis("i", 3)]}
output "o_ref" : i32[3] {space = smem}
scratch "sems" : ref<sem[3], semaphore, grid>
body "ring" (%0 "o_ref": ref<i32[3], smem>, %1 "sems": ref<sem[3], semaphore, grid>) {
  %2 = axis_index {axis = "i"} : i32[]
  %3 = constant {value = i32 0x1} : i32[]
  %4 = constant {value = i32 0x3} : i32[]
  %5 = add %2, %3 : i32[]
  %6 = rem %5, %4 : i32[]
  sem_signal %1, %6, %3 {view = [index($1)], inc = $2}
  sem_wait %1, %2, %3 {view = [index($1)], value = $2}
  store %0, %6, %2 {view = [index($2)]}
  yield
}
)";
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pallasim;
  static const auto plan = interp::compile(ir::parse(kRing));
  // Half of what comes is a list for this kernel: a key that nobody guesses would hide the rest.
  static const std::string key = [] {
    int32_t out[3] = {};
    const interp::Buffer to{out, ir::DType::I32, {3}};
    const interp::DeviceCall call{0, {}, std::span(&to, 1), 0};
    const std::shared_ptr<const ir::LocTable> locs(plan, &interp::module_of(*plan).locs);
    const std::string token =
        interp::explore({plan, locs}, std::span(&call, 1), {}, {.schedules = 1}).outcomes[0].token;
    return token.substr(0, token.rfind(':') + 1);
  }();
  interp::Options o;
  o.max_steps = 10'000;
  o.replay = std::string(size > 0 && (data[0] & 1) ? key : "") + std::string(reinterpret_cast<const char*>(data), size);
  int32_t out[3] = {};
  const interp::Buffer to{out, ir::DType::I32, {3}};
  const interp::DeviceCall call{0, {}, std::span(&to, 1), 0};
  interp::Session session;
  interp::try_launch(*plan, session, std::span(&call, 1), o);
  return 0;
}
