// Bytes become a well-typed kernel, or are taken as text: verify, plan, 10,000 steps. Whatever happens is a
// DiagnosticError or an end; fused and unfused runs give the same bytes.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "pallasim/interp/launch.h"

using namespace pallasim;

namespace {

void require(bool ok) {
  if (!ok) std::abort();
}

// Consumes the input byte by byte; zeros at its end.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  int below(int n) { return at_ < end_ ? *at_++ % n : 0; }
  bool empty() const { return at_ >= end_; }

 private:
  const uint8_t *at_, *end_;
};

struct Value {
  std::string name, dtype;
  std::vector<int> dims;
  std::string type() const {
    std::string s = dtype + "[";
    for (size_t i = 0; i < dims.size(); ++i) s += (i ? "," : "") + std::to_string(dims[i]);
    return s + "]";
  }
};

// Kernels over x_ref, y_ref -> o_ref, all [6,8], in blocks or whole.
class Generator {
 public:
  explicit Generator(Bytes& b) : b_(b) {}

  std::string make() {
    static const char* kDtypes[] = {"f32", "i32", "bf16", "i8", "u32", "f16", "f64", "i64"};
    dtype_ = kDtypes[b_.below(8)];
    const int blocks = b_.below(4);
    static const int kRows[] = {6, 2, 4, 3};
    rows_ = kRows[blocks];
    std::string s = "pallasim-ir 1\nmodule \"fuzz\" {machine = generic}\n";
    if (blocks) s += "grid {size = " + std::to_string(1 + b_.below(4)) + "}\ngrid {size = 2}\n";
    const char* kinds[] = {"input", "input", "output"};
    const char* names[] = {"x_ref", "y_ref", "o_ref"};
    for (int i = 0; i < 3; ++i) {
      s += std::string(kinds[i]) + " \"" + names[i] + "\" : " + dtype_ + "[6,8] {space = any";
      if (blocks) {
        s += ", block = [blocked(" + std::to_string(rows_) +
             "), blocked(8)]} (%0: i32[], %1: i32[]) {\n  %2 = constant {value = i32 0x" + std::to_string(b_.below(3)) +
             "} : i32[]\n  %3 = constant {value = i32 0x0} : i32[]\n  ";
        const char* forms[] = {"%4 = add %0, %3 : i32[]\n", "%4 = mul %0, %2 : i32[]\n", "%4 = min %0, %2 : i32[]\n",
                               "%4 = sub %2, %1 : i32[]\n"};
        s += forms[b_.below(4)] + std::string("  yield %4, %3\n}\n");
      } else {
        s += "}\n";
      }
    }
    const bool scratch = b_.below(2);
    const std::string ref = "ref<" + dtype_ + "[" + std::to_string(rows_) + ",8], any>";
    if (scratch) s += "scratch \"acc\" : " + ref + "\n";
    s += "body (%0 \"x_ref\": " + ref + ", %1 \"y_ref\": " + ref + ", %2 \"o_ref\": " + ref +
         (scratch ? ", %3 \"acc\": " + ref : "") + ") {\n";
    next_ = scratch ? 4 : 3;
    refs_ = next_;
    region(1 + b_.below(12), 1);
    s += out_ + "  yield\n}\n";
    return s;
  }

 private:
  std::string fresh() { return "%" + std::to_string(next_++); }
  void line(const std::string& text) { out_ += std::string(static_cast<size_t>(indent_) * 2, ' ') + text + "\n"; }

  Value define(const std::string& rhs, std::string dtype, std::vector<int> dims) {
    Value v{fresh(), std::move(dtype), std::move(dims)};
    line(v.name + " = " + rhs + " : " + v.type());
    values_.push_back(v);
    return v;
  }
  Value index() {
    static const char* kBits[] = {"0x0", "0x1", "0x5", "0xffffffff", "0x7fffffff"};
    return define(std::string("constant {value = i32 ") + kBits[b_.below(5)] + "}", "i32", {});
  }
  // A value of the block's type.
  Value full() {
    for (size_t i = values_.size(), tries = 0; i-- > 0 && tries < 6; ++tries)
      if (values_[i].dtype == dtype_ && values_[i].dims == std::vector<int>{rows_, 8} && b_.below(3)) return values_[i];
    return define("get %" + std::to_string(b_.below(refs_)), dtype_, {rows_, 8});
  }

  void region(int ops, int depth) {
    indent_ = depth;
    const size_t visible = values_.size();
    while (ops-- > 0 && !b_.empty()) statement(depth);
    values_.resize(visible);
  }

  void branch(int depth) {
    if (depth > 3) return;
    const Value a = full(), i = index();
    const Value p = define("lt " + i.name + ", " + index().name, "bool", {});
    const std::string before = out_;
    const Value r{fresh(), dtype_, a.dims};
    line(r.name + " = cond " + p.name + " () {");
    region(b_.below(3), depth + 1);
    line("yield " + a.name);
    indent_ = depth;
    line("} () {");
    indent_ = depth + 1;
    const size_t visible = values_.size();
    const Value n = define("neg " + a.name, dtype_, a.dims);
    line("yield " + n.name);
    values_.resize(visible);
    indent_ = depth;
    line("} : " + r.type());
    values_.push_back(r);
  }

  void loop(int depth) {
    if (depth > 3) return;
    const Value a = full(), lo = index(), hi = index(), by = define("constant {value = i32 0x1}", "i32", {});
    const Value r{fresh(), dtype_, a.dims};
    const Value i{fresh(), "i32", {}}, c{fresh(), dtype_, a.dims};
    line(r.name + " = for " + lo.name + ", " + hi.name + ", " + by.name + ", " + a.name +
         (b_.below(2) ? " {reverse = true}" : "") + " (" + i.name + ": i32[], " + c.name + ": " + c.type() + ") {");
    const size_t visible = values_.size();
    values_.push_back(i);
    values_.push_back(c);
    region(b_.below(4), depth + 1);
    indent_ = depth + 1;
    const Value n = define("add " + c.name + ", " + a.name, dtype_, a.dims);
    line("yield " + n.name);
    values_.resize(visible);
    indent_ = depth;
    line("} : " + r.type());
    values_.push_back(r);
  }

  void statement(int depth) {
    switch (b_.below(16)) {
      case 0:
      case 1: {
        static const char* kBinary[] = {"add", "sub", "mul", "max", "min", "div", "rem"};
        const Value a = full(), b = full();
        define(std::string(kBinary[b_.below(7)]) + " " + a.name + ", " + b.name, dtype_, a.dims);
        break;
      }
      case 2: {
        static const char* kUnary[] = {"neg", "abs", "sign", "square"};
        const Value a = full();
        define(std::string(kUnary[b_.below(4)]) + " " + a.name, dtype_, a.dims);
        break;
      }
      case 3: {
        const Value a = full();
        const Value f = define("convert " + a.name, "f32", a.dims);
        static const char* kFloat[] = {"exp", "tanh", "log", "sqrt", "sin", "floor"};
        const Value g = define(std::string(kFloat[b_.below(6)]) + " " + f.name, "f32", a.dims);
        define("convert " + g.name, dtype_, a.dims);
        break;
      }
      case 4: {
        const Value a = full();
        static const char* kReduce[] = {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"};
        const bool rows = b_.below(2);
        const Value r =
            define(std::string(kReduce[b_.below(4)]) + " " + a.name + " {axes = [" + (rows ? "1" : "0") + "]}", dtype_,
                   {rows ? rows_ : 8});
        define("broadcast_in_dim " + r.name + (rows ? " {dims = [0]}" : " {dims = [1]}"), dtype_, a.dims);
        break;
      }
      case 5: {
        const Value a = full();
        const Value t = define("transpose " + a.name + " {perm = [1, 0]}", dtype_, {8, rows_});
        if (b_.below(2)) define("rev " + t.name + " {axes = [0]}", dtype_, t.dims);
        define("reshape " + values_.back().name, dtype_, {rows_, 8});
        break;
      }
      case 6: {
        const Value a = full(), b = full();
        if (dtype_ != "f32" && dtype_ != "bf16") break;
        const Value t = define("transpose " + b.name + " {perm = [1, 0]}", dtype_, {8, rows_});
        const Value d = define("dot_general " + a.name + ", " + t.name +
                                   " {lhs_contract = [1], rhs_contract = [0], lhs_batch = [], rhs_batch = []}",
                               "f32", {rows_, rows_});
        const Value r = define("reduce_max " + d.name + " {axes = [0]}", "f32", {rows_});
        const Value c = define("convert " + r.name, dtype_, {rows_});
        define("broadcast_in_dim " + c.name + " {dims = [0]}", dtype_, {rows_, 8});
        break;
      }
      case 7: {
        const Value a = full(), i = index(), j = index();
        const Value s =
            define("dynamic_slice " + a.name + ", " + i.name + ", " + j.name + " {sizes = [1, 3]}", dtype_, {1, 3});
        define("dynamic_update_slice " + a.name + ", " + s.name + ", " + j.name + ", " + i.name, dtype_, a.dims);
        break;
      }
      case 8:
      case 9: {
        const Value a = full();
        line("store %" + std::to_string(refs_ > 3 && b_.below(2) ? 3 : 2) + ", " + a.name);
        break;
      }
      case 10: {
        const Value i = index();
        const std::string ref = std::to_string(b_.below(refs_));
        const Value s = define(
            "get %" + ref + ", " + i.name + " {view = [index($1, slice(" + std::to_string(b_.below(9)) + ", 2))]}",
            dtype_, {2});
        line("store %2, " + s.name + ", " + i.name + " {view = [index($2, slice(" + std::to_string(b_.below(9)) +
             ", 2))]}");
        break;
      }
      case 11: branch(depth); break;
      case 12: loop(depth); break;
      case 13: {
        const Value a = full();
        const Value z = define("constant {value = " + dtype_ + " 0x0}", dtype_, {});
        const Value p = define("pad " + a.name + ", " + z.name + " {low = [-1, 1], high = [2, -2], interior = [0, 1]}",
                               dtype_, {rows_ + 1, 14});
        define("slice " + p.name + " {start = [0, 1], limit = [" + std::to_string(rows_) + ", 9]}", dtype_, {rows_, 8});
        break;
      }
      case 14: {
        const Value a = full(), b = full();
        const Value p = define("gt " + a.name + ", " + b.name, "bool", a.dims);
        define("select_n " + p.name + ", " + a.name + ", " + b.name, dtype_, a.dims);
        break;
      }
      default: {
        const Value a = full();
        define("concatenate " + a.name + ", " + a.name + " {axis = 0}", dtype_, {2 * rows_, 8});
        define("slice " + values_.back().name + " {start = [1, 0], limit = [" + std::to_string(rows_ + 1) + ", 8]}",
               dtype_, {rows_, 8});
      }
    }
  }

  Bytes& b_;
  std::string out_, dtype_;
  int rows_ = 6, next_ = 0, refs_ = 3, indent_ = 1;
  std::vector<Value> values_;
};

// Runs text with inputs of a fixed pattern; the outputs' bytes, empty after a DiagnosticError.
std::vector<std::byte> run(const std::string& text, interp::Options options) {
  options.max_steps = 10'000;
  options.max_memory = 16 << 20;
  options.workers = 1;
  std::vector<std::byte> all;
  try {
    const auto plan = interp::compile(ir::parse(text), options);
    const ir::Module& m = interp::module_of(*plan);
    if (!m.params.empty()) return {};
    std::vector<std::vector<std::byte>> memory;
    std::vector<interp::Buffer> args, results;
    int64_t total = 0;
    for (int i = 0; i < m.num_dynamic; ++i) {
      memory.emplace_back(8, std::byte{0});
      memory.back()[0] = std::byte{3};
      args.push_back({memory.back().data(), ir::DType::I32, {}});
    }
    for (const ir::Operand& o : m.operands) {
      const int64_t bytes = o.array->num_bytes();
      if ((total += bytes) > (4 << 20)) return {};
      memory.emplace_back(static_cast<size_t>(bytes) + 16);
      for (size_t i = 0; i < memory.back().size(); ++i)
        memory.back()[i] = static_cast<std::byte>(o.array->dtype == ir::DType::Bool ? i % 2 : i * 7 % 61);
      interp::Buffer b{memory.back().data(), o.array->dtype, {}};
      for (const ir::Dim& d : o.array->dims) b.dims.push_back(d.size);
      (o.kind == ir::Operand::Kind::Output ? results : args).push_back(b);
    }
    interp::Session session;
    interp::launch(*plan, session, args, results, options);
    for (const interp::Buffer& b : results) {
      int64_t n = ir::byte_size(b.dtype);
      for (int64_t d : b.dims) n *= d;
      all.insert(all.end(), static_cast<std::byte*>(b.data), static_cast<std::byte*>(b.data) + n);
    }
    all.push_back(std::byte{1});
  } catch (const ir::DiagnosticError& e) {
    require(e.diagnostic().code != "PS-BUG-001");
    return {};
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] == 'p') {
    run(std::string(reinterpret_cast<const char*>(data), size), {});
    return 0;
  }
  Bytes bytes(data, size);
  const std::string text = Generator(bytes).make();
  ir::parse(text);  // what the generator writes is well-formed
  interp::Options fused, plain;
  plain.fuse = false;
  const auto a = run(text, fused);
  if (data[size - 1] % 4) return 0;  // every fourth input runs twice
  const auto b = run(text, plain);
  // The step limit may stop one of them only.
  if (!a.empty() && !b.empty()) require(a == b);
  return 0;
}
