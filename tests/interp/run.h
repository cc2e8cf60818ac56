// Running modules given as text, for the engine's tests.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "pallasim/interp/launch.h"

namespace pallasim::interp::test {

struct Array {
  ir::DType dtype;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;

  Buffer buffer() { return {bytes.data(), dtype, dims}; }
  template <typename T>
  std::vector<T> as() const {
    std::vector<T> r(bytes.size() / sizeof(T));
    std::memcpy(r.data(), bytes.data(), bytes.size());
    return r;
  }
};

template <typename T>
Array array(ir::DType dtype, std::vector<int64_t> dims, const std::vector<T>& values) {
  Array a{dtype, std::move(dims), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
  return a;
}

inline Array f32(std::vector<int64_t> dims, const std::vector<float>& v) {
  return array(ir::DType::F32, std::move(dims), v);
}
inline Array i32(std::vector<int64_t> dims, const std::vector<int32_t>& v) {
  return array(ir::DType::I32, std::move(dims), v);
}

// A deterministic f32 array with values of both signs.
inline Array noise(std::vector<int64_t> dims, uint32_t seed = 1) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  std::vector<float> v(static_cast<size_t>(n));
  uint32_t x = seed * 2654435761u + 1;
  for (float& f : v) {
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    f = static_cast<float>(static_cast<int32_t>(x)) * 4.6566e-10f;
  }
  return f32(std::move(dims), v);
}

// Whole numbers, whose sums are exact in any order.
inline Array whole(std::vector<int64_t> dims, uint32_t seed) {
  std::vector<float> v = noise(dims, seed).as<float>();
  for (float& x : v) x = std::floor(8 * x);
  return f32(std::move(dims), v);
}
// Cut off.
inline Array as_bf16(const Array& a) {
  std::vector<uint16_t> v;
  for (const uint32_t bits : a.as<uint32_t>()) v.push_back(static_cast<uint16_t>(bits >> 16));
  return array(ir::DType::BF16, a.dims, v);
}

struct Outcome {
  std::vector<Array> results;
  Report report;
  std::vector<GridPoint> points;  // where they are asked for
};

inline Outcome run(std::string_view text, std::vector<Array> args, Options o = {}, bool keep_points = false) {
  auto plan = compile(ir::parse(text), o);
  Outcome out;
  for (const ir::Type* t : result_types(*plan)) {
    Array a{t->dtype, {}, std::vector<std::byte>(static_cast<size_t>(t->num_bytes()))};
    for (const ir::Dim& d : t->dims) a.dims.push_back(d.size);
    out.results.push_back(std::move(a));
  }
  std::vector<Buffer> in, res;
  for (Array& a : args) in.push_back(a.buffer());
  for (Array& a : out.results) res.push_back(a.buffer());
  Session session;
  Recorder recorder{.keep_points = keep_points};
  out.report = launch(*plan, session, in, res, o, {&recorder, nullptr});
  out.points = std::move(recorder.points);
  return out;
}

inline std::string read_file(const std::string& name) {
  std::ifstream f(std::string(PALLASIM_TESTS_DIR) + "/" + name);
  std::stringstream s;
  s << f.rdbuf();
  return s.str();
}

// The kernels of tests/pass that have no run-time sizes and one device: file and text.
inline std::vector<std::pair<std::filesystem::path, std::string>> kernels_that_pass() {
  std::vector<std::pair<std::filesystem::path, std::string>> r;
  for (const auto& file : std::filesystem::directory_iterator(std::string(PALLASIM_TESTS_DIR) + "/pass")) {
    if (file.path().extension() != ".psir") continue;
    std::string text = read_file("pass/" + file.path().filename().string());
    const ir::Module m = ir::parse(text);
    if (m.params.empty() && m.num_dynamic == 0 && !ir::find(m.attrs, "devices"))
      r.emplace_back(file.path(), std::move(text));
  }
  return r;
}

inline bool all_zero(const Array& a) {
  for (std::byte b : a.bytes)
    if (b != std::byte{0}) return false;
  return true;
}

// The code of the error that `run` throws, "" when it ends.
inline std::string error_code(std::string_view text, std::vector<Array> args, Options o = {},
                              std::string* report = nullptr) {
  try {
    run(text, std::move(args), o);
  } catch (const ir::DiagnosticError& e) {
    if (report) *report = e.what();
    return std::string(e.diagnostic().code.text());
  }
  return "";
}

}  // namespace pallasim::interp::test
