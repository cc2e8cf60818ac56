// Generated kernels: their bits depend on neither fusion, worker count, observer, pipeline profile nor the instruction
// set.
#include <algorithm>
#include <random>

#include "run.h"

namespace pallasim::interp::test {
namespace {

// Writes one kernel over a grid of 6 blocks [rows, cols] of f32: arithmetic on all dtypes, movement, folds, scratch,
// control flow.
class Generator {
 public:
  explicit Generator(uint32_t seed) : rng_(seed) {
    static constexpr int64_t kShapes[][2] = {{1, 1}, {3, 5}, {8, 128}, {13, 70}, {16, 300}, {64, 16}};
    const auto& s = kShapes[pick(std::size(kShapes))];
    rows_ = s[0], cols_ = s[1];
  }

  std::string text() {
    const std::string whole = type("f32", 6 * rows_, cols_), block = type("f32", rows_, cols_);
    const std::string map = "block = [blocked(" + std::to_string(rows_) + "), blocked(" + std::to_string(cols_) +
                            ")]} (%0: i32[]) {\n"
                            "  %1 = constant {value = i32 0x0} : i32[]\n  yield %0, %1\n}\n";
    std::string t =
        "pallasim-ir 1\nmodule \"generated\" {machine = tpu}\ngrid {size = 6, semantics = parallel}\ninput \"x_ref\" "
        ": " +
        whole + " {space = vmem, " + map + "output \"o_ref\" : " + whole + " {space = vmem, " + map +
        "scratch \"s_ref\" : ref<" + block + ", vmem>\nbody (%0 \"x_ref\": ref<" + block +
        ", vmem>, %1 \"o_ref\": ref<" + block + ", vmem>, %2 \"s_ref\": ref<" + block + ", vmem>) {\n";
    emit("get %0", block);
    keep("f32", false);
    const int steps = 12 + static_cast<int>(pick(40));
    for (int i = 0; i < steps; ++i) step();
    // The last values are added up, so that none of them is dead.
    int sum = as("f32", values_.back());
    for (size_t i = values_.size() - 1; i-- > 0 && i + 6 > values_.size();)
      sum = emit("add %" + std::to_string(sum) + ", %" + std::to_string(as("f32", values_[i])), block);
    return t + body_ + "  store %1, %" + std::to_string(sum) + "\n  yield\n}\n";
  }
  int64_t elements() const { return 6 * rows_ * cols_; }
  std::vector<int64_t> dims() const { return {6 * rows_, cols_}; }

 private:
  struct Value {
    int id;
    std::string dtype;
    bool turned;  // [cols, rows]
  };

  uint64_t pick(uint64_t n) { return rng_() % n; }
  template <size_t N>
  std::string one_of(const char* const (&names)[N]) {
    return names[pick(N)];
  }
  static std::string type(const std::string& dtype, int64_t r, int64_t c) {
    return dtype + "[" + std::to_string(r) + "," + std::to_string(c) + "]";
  }
  std::string type(const Value& v) const {
    return v.turned ? type(v.dtype, cols_, rows_) : type(v.dtype, rows_, cols_);
  }
  static std::string ref(int id) { return "%" + std::to_string(id); }

  int emit(const std::string& op, const std::string& result) {
    body_ += "  " + ref(next_) + " = " + op + " : " + result + "\n";
    return next_++;
  }
  void keep(const std::string& dtype, bool turned) { values_.push_back({next_ - 1, dtype, turned}); }
  Value& any() { return values_[values_.size() - 1 - pick(std::min<size_t>(values_.size(), 5))]; }

  // v as an unturned value of a dtype.
  int as(const std::string& dtype, Value v) {
    if (v.turned)
      v = {emit("transpose " + ref(v.id) + " {perm = [1, 0]}", type(v.dtype, rows_, cols_)), v.dtype, false};
    return v.dtype == dtype ? v.id : emit("convert " + ref(v.id), type(dtype, rows_, cols_));
  }

  void step() {
    const Value v = any();
    const bool floats = v.dtype != "i32" && v.dtype != "i8";
    const std::string t = type(v), x = ref(v.id);
    switch (pick(12)) {
      case 0:
      case 1:
        emit((floats ? one_of({"tanh", "neg", "abs", "logistic", "sin", "floor", "erf", "expm1"})
                     : one_of({"neg", "abs", "population_count", "not", "sign"})) +
                 " " + x,
             t);
        return keep(v.dtype, v.turned);
      case 2:
      case 3:
      case 4: {
        const Value w = any();
        const int b = w.dtype == v.dtype && w.turned == v.turned ? w.id : v.turned ? v.id : as(v.dtype, w);
        const std::string op = one_of({"add", "sub", "mul", "max", "min"});
        if (pick(4) == 0) {
          const int p = emit("lt " + x + ", " + ref(b), "bool" + t.substr(t.find('[')));
          emit("select_n " + ref(p) + ", " + x + ", " + ref(b), t);
        } else {
          emit(op + " " + x + ", " + ref(b), t);
        }
        return keep(v.dtype, v.turned);
      }
      case 5: {
        const std::string to = one_of({"f32", "bf16", "f16", "f8e4m3fn", "i32", "i8"});
        emit("convert " + x, type({0, to, v.turned}));
        return keep(to, v.turned);
      }
      case 6: {  // a fold, spread again
        const int axis = static_cast<int>(pick(2));
        const int64_t left = (axis == 0) != v.turned ? cols_ : rows_;
        const int r = emit(
            one_of({"reduce_max", "reduce_min", "reduce_sum"}) + " " + x + " {axes = [" + std::to_string(axis) + "]}",
            v.dtype + "[" + std::to_string(left) + "]");
        emit("broadcast_in_dim " + ref(r) + " {dims = [" + std::to_string(1 - axis) + "]}", t);
        return keep(v.dtype, v.turned);
      }
      case 7:
        emit("transpose " + x + " {perm = [1, 0]}", type({0, v.dtype, !v.turned}));
        return keep(v.dtype, !v.turned);
      case 8:
        emit((floats ? one_of({"rev", "cumsum", "cummax"}) : std::string("rev")) + " " + x, t);
        return movement(v, t);
      case 9: {  // through the scratch, or the output's own block
        const std::string to = one_of({"%1", "%2"});
        body_ += "  store " + to + ", " + ref(as("f32", v)) + "\n";
        emit("get " + to, type("f32", rows_, cols_));
        return keep("f32", false);
      }
      case 10: return loop(v, t);
      default: return branch(v, t);
    }
  }

  // Completes the attributes of the operation just written.
  void movement(const Value& v, const std::string& t) {
    const size_t at = body_.rfind(" : ");
    const std::string line = body_.substr(body_.rfind("\n  ", at) + 1);
    const std::string axis = std::to_string(pick(2));
    body_.resize(at);
    body_ += (line.find(" rev ") != std::string::npos
                  ? " {axes = [" + axis + "]}"
                  : " {axis = " + axis + ", reverse = " + (pick(2) ? "true" : "false") + "}") +
             " : " + t + "\n";
    keep(v.dtype, v.turned);
  }

  void loop(const Value& v, const std::string& t) {
    const int zero = emit("constant {value = i32 0x0}", "i32[]"), three = emit("constant {value = i32 0x3}", "i32[]"),
              one = emit("constant {value = i32 0x1}", "i32[]");
    const int result = next_++, index = next_++, carried = next_++;
    body_ += "  " + ref(result) + " = for " + ref(zero) + ", " + ref(three) + ", " + ref(one) + ", " + ref(v.id) +
             " (" + ref(index) + ": i32[], " + ref(carried) + ": " + t + ") {\n";
    const int next = emit(one_of({"add", "max", "sub"}) + " " + ref(carried) + ", " + ref(v.id), t);
    const int last = emit("neg " + ref(next), t);
    body_ += "    yield " + ref(last) + "\n  } : " + t + "\n";
    values_.push_back({result, v.dtype, v.turned});
  }

  void branch(const Value& v, const std::string& t) {
    const int id = emit("program_id {axis = 0}", "i32[]"), two = emit("constant {value = i32 0x2}", "i32[]");
    const int even = emit("lt " + ref(id) + ", " + ref(two), "bool[]"), result = next_++;
    body_ += "  " + ref(result) + " = cond " + ref(even) + " () {\n";
    const int yes = emit("abs " + ref(v.id), t);
    body_ += "    yield " + ref(yes) + "\n  } () {\n";
    const int no = emit("neg " + ref(v.id), t);
    body_ += "    yield " + ref(no) + "\n  } : " + t + "\n";
    values_.push_back({result, v.dtype, v.turned});
  }

  std::mt19937 rng_;
  int64_t rows_ = 0, cols_ = 0;
  int next_ = 3;
  std::string body_;
  std::vector<Value> values_;
};

// Any NaN is as good as another.
bool same(const Array& a, const Array& b) {
  const auto x = a.as<float>(), y = b.as<float>();
  for (size_t i = 0; i < x.size(); ++i)
    if (std::memcmp(&x[i], &y[i], 4) != 0 && !(std::isnan(x[i]) && std::isnan(y[i]))) return false;
  return x.size() == y.size();
}

TEST(Generated, BitsDependOnTheProgramAlone) {
  std::vector<std::pair<const char*, Options>> variants(9);
  variants[0].first = "not fused", variants[0].second.fuse = false;
  variants[1].first = "two workers", variants[1].second.workers = 2;
  variants[2].first = "eight workers", variants[2].second.workers = 8;
  variants[3].first = "checked", variants[3].second.checked = true;
  variants[4].first = "checked and not fused", variants[4].second.checked = true, variants[4].second.fuse = false;
  variants[5].first = "reference bodies", variants[5].second.numerics = Options::Numerics::Reference;
  variants[6].first = "modelled pipeline", variants[6].second.pipeline = Options::Pipeline::Modelled;
  variants[7].first = "random schedule", variants[7].second.random_seed = 3;
  variants[8].first = "judged split", variants[8].second.verify_split = true;
  int meaningful = 0, split = 0;
  for (uint32_t seed = 1; seed <= 120; ++seed) {
    Generator g(seed);
    const std::string text = g.text();
    const Array x = noise(g.dims(), seed);
    Options one;
    one.workers = 1;
    Outcome want;
    try {
      want = run(text, {x}, one);
    } catch (const ir::DiagnosticError& e) { FAIL() << "seed " << seed << "\n" << e.what() << text; }
    const std::vector<float> v = want.results[0].as<float>();
    meaningful += std::any_of(v.begin(), v.end(), [](float f) { return std::isfinite(f) && f != 0; });
    for (const auto& [name, options] : variants) {
      const Outcome got = run(text, {x}, options);
      ASSERT_TRUE(same(got.results[0], want.results[0])) << name << ", seed " << seed << "\n" << text;
      split += got.report.units > 1;
    }
  }
  EXPECT_GT(meaningful, 75);
  EXPECT_GT(split, 200);
}

}  // namespace
}  // namespace pallasim::interp::test
