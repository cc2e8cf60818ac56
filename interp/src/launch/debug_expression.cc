#include "debug_expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "debug_arithmetic.h"

namespace pallasim::interp {

struct DebugExpression::Node {
  enum class What : uint8_t { Number, Name, Unary, Binary, Call, Index, Attribute };
  What what = What::Number;
  std::string text;  // name, operator, digits
  std::vector<Node> of;
  struct Part {  // of an index
    bool is_range = false, is_rest = false;
    std::vector<Node> first, last, step;  // none or one
  };
  std::vector<Part> parts;
};

namespace {

using Node = DebugExpression::Node;

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}
  Node all() {
    Node n = either();
    if (peek() != '\0') fail();
    return n;
  }

 private:
  [[noreturn]] void fail() {
    const std::string rest = text_.substr(std::min(at_, text_.size()));
    throw DebugError(rest.empty() ? "the expression ends too early: " + text_
                                  : "this is not understood: " + rest + "; in " + text_);
  }
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(std::string_view token) {
    peek();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    const auto inside = [&](size_t i) {
      return i < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[i])) || text_[i] == '_');
    };
    if (std::isalpha(static_cast<unsigned char>(token[0])) && inside(at_ + token.size())) return false;
    at_ += token.size();
    return true;
  }
  // Levels of binary operators, from the loosest.
  template <typename Next>
  Node binary(std::initializer_list<const char*> ops, Next next) {
    Node left = (this->*next)();
    for (bool more = true; more;) {
      more = false;
      for (const char* op : ops)
        if (take(op)) {
          std::string name = op == std::string("&&") ? "and" : op == std::string("||") ? "or" : op;
          Node both{Node::What::Binary, std::move(name), {}, {}};
          both.of.push_back(std::move(left));
          both.of.push_back((this->*next)());
          left = std::move(both);
          more = true;
          break;
        }
    }
    return left;
  }
  struct Depth {
    explicit Depth(Parser& p) : p_(p) {
      if (++p_.depth_ > 200) throw DebugError("the expression is nested too deeply");
    }
    ~Depth() { --p_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Parser& p_;
  };
  Node either() {
    const Depth depth(*this);
    return binary({"or", "||"}, &Parser::both);
  }
  Node both() { return binary({"and", "&&"}, &Parser::negated); }
  Node negated() {
    const Depth depth(*this);
    if (!take("not")) return comparison();
    Node n{Node::What::Unary, "not", {}, {}};
    n.of.push_back(negated());
    return n;
  }
  Node comparison() { return binary({"==", "!=", "<=", ">=", "<", ">"}, &Parser::sum); }
  Node sum() { return binary({"+", "-"}, &Parser::product); }
  Node product() {
    peek();
    return binary({"//", "*", "/", "%"}, &Parser::signed_one);
  }
  Node signed_one() {
    const Depth depth(*this);
    if (take("+")) return signed_one();
    if (!take("-")) return power();
    Node n{Node::What::Unary, "-", {}, {}};
    n.of.push_back(signed_one());
    return n;
  }
  Node power() {
    Node base = postfix();
    if (!take("**")) return base;
    Node n{Node::What::Binary, "**", {}, {}};
    n.of.push_back(std::move(base));
    n.of.push_back(signed_one());
    return n;
  }
  Node postfix() {
    Node n = primary();
    for (;;) {
      if (take("[")) {
        Node index{Node::What::Index, "", {}, {}};
        index.of.push_back(std::move(n));
        do index.parts.push_back(part());
        while (take(","));
        if (!take("]")) fail();
        n = std::move(index);
      } else if (peek() == '.' && at_ + 1 < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_ + 1]))) {
        ++at_;
        Node a{Node::What::Attribute, word(), {}, {}};
        if (take("(") && !take(")")) fail();
        a.of.push_back(std::move(n));
        n = std::move(a);
      } else {
        return n;
      }
    }
  }
  Node::Part part() {
    Node::Part p;
    if (take("...")) {
      p.is_rest = true;
      return p;
    }
    const auto ends = [&] { return peek() == ':' || peek() == ',' || peek() == ']'; };
    if (!ends()) p.first.push_back(either());
    if (!take(":")) return p;
    p.is_range = true;
    if (!ends()) p.last.push_back(either());
    if (take(":") && !ends()) p.step.push_back(either());
    return p;
  }
  std::string word() {
    peek();
    const size_t from = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    if (at_ == from) fail();
    return text_.substr(from, at_ - from);
  }
  Node primary() {
    if (take("(")) {
      Node n = either();
      if (!take(")")) fail();
      return n;
    }
    const char c = peek();
    if (c == '%') {
      ++at_;
      return {Node::What::Name, "%" + word(), {}, {}};
    }
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '.') return number();
    if (!std::isalpha(static_cast<unsigned char>(c)) && c != '_') fail();
    Node n{Node::What::Name, word(), {}, {}};
    if (!take("(")) return n;
    n.what = Node::What::Call;
    if (take(")")) return n;
    do n.of.push_back(either());
    while (take(","));
    if (!take(")")) fail();
    return n;
  }
  Node number() {
    const size_t from = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.' ||
                                  ((text_[at_] == '-' || text_[at_] == '+') && (text_[at_ - 1] | 32) == 'e')))
      ++at_;
    return {Node::What::Number, text_.substr(from, at_ - from), {}, {}};
  }
  std::string text_;
  size_t at_ = 0;
  int depth_ = 0;
};

// What a part of an expression is: elements that lie somewhere, or a result.
struct Result {
  std::optional<DebugView> view;
  DebugNumbers numbers;
};

class Evaluator {
 public:
  explicit Evaluator(const DebugScope& scope) : s_(scope) {}
  Result of(const Node& n) {
    switch (n.what) {
      case Node::What::Number: return {{}, debug_number_literal(n.text)};
      case Node::What::Name: return name(n.text);
      case Node::What::Unary: return {{}, debug_unary(n.text, numbers(n.of[0]))};
      case Node::What::Binary: return {{}, debug_binary(n.text, numbers(n.of[0]), numbers(n.of[1]))};
      case Node::What::Call: return call(n.text, n.of);
      case Node::What::Attribute: return attribute(n);
      case Node::What::Index: return index(n);
    }
    return {};
  }
  DebugNumbers numbers(const Node& n) {
    Result r = of(n);
    return r.view ? numbers_of(read(s_, *r.view)) : std::move(r.numbers);
  }
  int64_t integer(const Node& n) {
    const DebugNumbers v = numbers(n);
    if (!v.is_integer() || v.size() != 1) throw DebugError("an index is an integer");
    return v.i[0];
  }

 private:
  static DebugNumbers list(std::vector<int64_t> v) {
    const auto n = static_cast<int64_t>(v.size());
    return {ir::DType::I64, true, {n}, {}, std::move(v)};
  }
  Result name(const std::string& text) {
    if (const ValuePlace* p = s_.symbols.find(s_.step, s_.level, text)) return {view_of(s_, text, *p), {}};
    if (text == "True" || text == "False") return {{}, {ir::DType::Bool, true, {}, {}, {text == "True"}}};
    if (text == "nan" || text == "inf")
      return {{}, {ir::DType::F64, true, {}, {text == "nan" ? std::nan("") : HUGE_VAL}, {}}};
    if (text == "thread") return {{}, debug_scalar(s_.thread.index)};
    if (text == "device") return {{}, debug_scalar(s_.ex.first_device + s_.ex.device_of(s_.thread))};
    if (text == "core") return {{}, debug_scalar(s_.ex.units.unit_of(memory::Level::Core, s_.thread.unit))};
    throw DebugError("there is no " + text + " here");
  }
  Result call(const std::string& f, const std::vector<Node>& of) {
    if ((f == "program_id" || f == "num_programs") && of.size() == 1) {
      const int64_t axis = integer(of[0]);
      if (axis < 0 || axis >= std::ssize(s_.ex.grid)) throw DebugError("the grid has no axis " + std::to_string(axis));
      if (f == "num_programs") return {{}, debug_scalar(s_.ex.grid[static_cast<size_t>(axis)])};
      if (!s_.thread.arena) throw DebugError("the thread is at no grid point");
      return {{}, debug_scalar(s_.thread.slot<int64_t>(s_.thread.body->pid_slots[static_cast<size_t>(axis)]))};
    }
    if (of.size() != 1) throw DebugError(f + "() takes one value");
    if (f == "array") return of_view(of[0], [&](const DebugView& v) { return array_of(s_, v); });
    Result r;
    if (!debug_function(f, numbers(of[0]), &r.numbers)) throw DebugError("there is no function " + f);
    return r;
  }
  template <typename F>
  Result of_view(const Node& n, const F& f) {
    const Result r = of(n);
    if (!r.view) throw DebugError("a result of arithmetic lies nowhere");
    return {f(*r.view), {}};
  }
  Result attribute(const Node& n) {
    if (n.text == "array") return of_view(n.of[0], [&](const DebugView& v) { return array_of(s_, v); });
    if (n.text == "block") {
      const Result r = of(n.of[0]);
      if (!r.view) throw DebugError("a result of arithmetic is no block of an array");
      return {{}, list(block_of(s_, *r.view))};
    }
    if (n.text == "shape" || n.text == "size" || n.text == "ndim") {
      const Result r = of(n.of[0]);
      const std::vector<int64_t> dims = r.view ? r.view->shape() : r.numbers.dims;
      if (n.text == "shape") return {{}, list(dims)};
      return {{},
              debug_scalar(n.text == "ndim" ? std::ssize(dims)
                           : r.view         ? r.view->elements()
                                            : static_cast<int64_t>(r.numbers.size()))};
    }
    if (n.text == "T")
      return of_view(n.of[0], [](DebugView v) {
        std::reverse(v.dims.begin(), v.dims.end());
        return v;
      });
    Result r;
    if (!debug_function(n.text, numbers(n.of[0]), &r.numbers)) throw DebugError("there is no attribute " + n.text);
    return r;
  }
  // Python's slices.
  Result index(const Node& n) {
    Result r = of(n.of[0]);
    DebugView v;
    DebugNumbers& have = r.numbers;
    if (r.view) {
      v = *r.view;
    } else {  // a view of the elements of the result, by number
      int64_t stride = 1;
      v.dims.resize(have.dims.size());
      for (size_t d = have.dims.size(); d-- > 0; stride *= have.dims[d]) v.dims[d] = {have.dims[d], stride};
    }
    const std::string whose = v.name;
    slice(&v, n.parts, whose);
    if (r.view) return {std::move(v), {}};
    DebugNumbers part{have.dtype, have.weak, v.shape(), {}, {}};
    std::vector<int64_t> at(v.dims.size(), 0);
    for (int64_t k = 0; k < v.elements(); ++k) {
      int64_t from = v.offset;
      for (size_t d = 0; d < at.size(); ++d) from += at[d] * v.dims[d].stride;
      if (have.is_integer()) part.i.push_back(have.i[static_cast<size_t>(from)]);
      else part.f.push_back(have.f[static_cast<size_t>(from)]);
      for (size_t d = at.size(); d-- > 0;) {
        if (++at[d] < v.dims[d].size) break;
        at[d] = 0;
      }
    }
    return {{}, std::move(part)};
  }
  void slice(DebugView* v, const std::vector<Node::Part>& parts, const std::string& whose) {
    size_t named = 0;
    for (const Node::Part& p : parts) named += !p.is_rest;
    if (named > v->dims.size())
      throw DebugError(fmt::format("{} has rank {}: {} indices are too many", whose.empty() ? "this" : whose,
                                   v->dims.size(), named));
    std::vector<DebugView::Dim> dims;
    size_t d = 0;
    std::string text;
    for (const Node::Part& p : parts) {
      text += (text.empty() ? "" : ", ");
      if (p.is_rest) {
        for (size_t rest = v->dims.size() - named; rest > 0; --rest) dims.push_back(v->dims[d++]);
        text += "...";
        continue;
      }
      take_part(p, v->dims[d++], v, &dims, &text);
    }
    while (d < v->dims.size()) dims.push_back(v->dims[d++]);
    v->dims = std::move(dims);
    if (!whose.empty()) v->name = whose + "[" + text + "]";
  }
  void take_part(const Node::Part& p, DebugView::Dim dim, DebugView* v, std::vector<DebugView::Dim>* dims,
                 std::string* text) {
    const auto from_end = [&](int64_t i) { return i < 0 ? i + dim.size : i; };
    if (!p.is_range) {
      const int64_t asked = integer(p.first[0]), i = from_end(asked);
      if (i < 0 || i >= dim.size) throw DebugError(fmt::format("index {} of {} elements", asked, dim.size));
      v->offset += i * dim.stride;
      const int64_t place = dim.first + i * dim.step;
      v->outside |= place < 0 || place >= dim.limit;
      *text += std::to_string(asked);
      return;
    }
    const int64_t step = p.step.empty() ? 1 : integer(p.step[0]);
    if (step <= 0) throw DebugError("the step of a slice is positive");
    const auto bound = [&](const std::vector<Node>& n, int64_t otherwise) {
      return n.empty() ? otherwise : std::clamp<int64_t>(from_end(integer(n[0])), 0, dim.size);
    };
    const int64_t lo = bound(p.first, 0), hi = std::max(lo, bound(p.last, dim.size));
    v->offset += lo * dim.stride;
    dims->push_back(
        {(hi - lo + step - 1) / step, dim.stride * step, dim.first + lo * dim.step, dim.step * step, dim.limit});
    *text += (p.first.empty() ? "" : std::to_string(lo)) + ":" + (p.last.empty() ? "" : std::to_string(hi)) +
             (p.step.empty() ? "" : ":" + std::to_string(step));
  }
  const DebugScope& s_;
};

}  // namespace

DebugExpression::DebugExpression(const std::string& text) : root_(std::make_unique<Node>(Parser(text).all())) {}
DebugExpression::~DebugExpression() = default;
DebugExpression::DebugExpression(DebugExpression&&) noexcept = default;
DebugExpression& DebugExpression::operator=(DebugExpression&&) noexcept = default;

DebugValue DebugExpression::value(const DebugScope& s) const {
  const Result r = Evaluator(s).of(*root_);
  return r.view ? read(s, *r.view) : value_of(r.numbers);
}

DebugView DebugExpression::view(const DebugScope& s) const {
  const Result r = Evaluator(s).of(*root_);
  if (!r.view) throw DebugError("a result of arithmetic lies nowhere: name elements of a ref");
  return *r.view;
}

bool DebugExpression::holds(const DebugScope& s) const {
  const DebugNumbers v = Evaluator(s).numbers(*root_);
  for (size_t n = 0; n < v.size(); ++n)
    if (v.number(n) != 0) return true;
  return false;
}

}  // namespace pallasim::interp
