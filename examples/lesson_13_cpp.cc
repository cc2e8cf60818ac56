// Lesson 13: the engine without Python: a kernel that C++ builds, launches and checks.
//
//     build/examples/lesson_13_cpp
//
// ir::ModuleBuilder makes the same module that Python would capture; interp::launch runs it on the caller's memory.
// The kernel is o = 2 x + y over four blocks of two rows, and a mistaken one that reads a row too far.
#include <cstdio>
#include <vector>

#include "pallasim/interp/launch.h"
#include "pallasim/ir/builder.h"

using namespace pallasim;
using ir::BodyBuilder, ir::DType, ir::Value, ir::Values;

namespace {

constexpr int64_t kRows = 8, kColumns = 128, kBlock = 2;

// `shift` rows are added to the index of the row that each point reads: 0 is right.
ir::Module axpy(int64_t shift) {
  ir::ModuleBuilder kernel("axpy_kernel", ir::Machine::Generic, /*locations=*/true);
  const ir::Type* array = kernel.type(DType::F32, {kRows, kColumns});
  const auto block_of_rows = [](BodyBuilder& b, const Values& ids) {
    return Values{ids[0], b.constant(DType::I32, 0)};
  };
  kernel.grid(kRows / kBlock);
  kernel.input("x_ref", array);
  kernel.input("y_ref", array).block({kBlock, kColumns}, block_of_rows);
  kernel.output("o_ref", array).block({kBlock, kColumns}, block_of_rows);
  kernel.body([&](BodyBuilder& b, const Values& refs) {
    const Value block = b.program_id(0), size = b.constant(DType::I32, kBlock), first = b.mul(block, size);
    const Value start = b.add(first, b.constant(DType::I32, static_cast<double>(shift)));
    const Value x = b.get(refs[0], {ir::slice(start, kBlock), ir::slice(0, kColumns)});
    const Value scaled = b.mul(x, b.constant(DType::F32, 2));
    b.store(refs[2], b.add(scaled, b.get(refs[1])));
  });
  return kernel.finish();  // numbered and verified
}

interp::Report run(ir::Module module, std::vector<float>& x, std::vector<float>& y, std::vector<float>& o) {
  interp::Options options;
  options.checked = true;  // counts what memory does
  const auto plan = interp::compile(std::move(module), options);
  interp::Session session;
  const std::vector<int64_t> dims{kRows, kColumns};
  const interp::Buffer args[] = {{x.data(), DType::F32, dims}, {y.data(), DType::F32, dims}};
  const interp::Buffer results[] = {{o.data(), DType::F32, dims}};
  return interp::launch(*plan, session, args, results, options);
}

#define CHECK(condition) \
  if (!(condition)) return std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition), 1

}  // namespace

int main() {
  std::printf("The kernel as text:\n%s\n", ir::print(axpy(0), {.literal_comments = false, .locations = false}).c_str());

  std::vector<float> x(kRows * kColumns), y(x.size()), o(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i), y[i] = 0.5f;
  std::printf("The one that reads a row too far:\n");
  try {
    run(axpy(1), x, y, o);
    CHECK(!"the access out of bounds was not found");
  } catch (const ir::DiagnosticError& e) {
    std::printf("%s", e.what());
    CHECK(e.diagnostic().code == "PS-OOB-001" && e.diagnostic().site.source.file == "lesson_13_cpp.cc");
  }
  std::printf("\n");

  const interp::Report report = run(axpy(0), x, y, o);
  for (size_t i = 0; i < o.size(); ++i) CHECK(o[i] == 2 * x[i] + y[i]);  // exact: small numbers

  std::printf("%lld grid points in %lld steps; what they did to memory:\n", static_cast<long long>(report.grid_points),
              static_cast<long long>(report.steps));
  CHECK(report.traffic.size() == 3);
  for (const interp::Traffic& t : report.traffic)
    std::printf("  %-6s %5lld B read %5lld B written\n", t.name.c_str(), static_cast<long long>(t.bytes_read),
                static_cast<long long>(t.bytes_written));
  CHECK(report.traffic[0].bytes_read == 4096 && report.traffic[2].bytes_written == 4096);

  return 0;
}
