#include <cstring>

#include <fmt/format.h>

#include "dim_expr.h"
#include "pallasim/ir/nearest.h"
#include "parser.h"
#include "text.h"

namespace pallasim::ir {
namespace {

std::vector<std::string_view> dtype_names() {
  std::vector<std::string_view> r = {"ref"};
  for (int i = 0; i < kNumDTypes; ++i) r.push_back(name(static_cast<DType>(i)));
  return r;
}
constexpr std::string_view kSpaceNames[] = {
#define X(e, t) t,
    PALLASIM_SPACES(X)
#undef X
};

// A ref type is looked up by its text up to the closing '>'; unusual ones (a quoted mesh, a line break) are not.
const char* end_of_ref(const char* p, const char* end) {
  int depth = 0;
  for (; p < end && *p != '"' && *p != '\n' && *p != '/'; ++p) {
    if (*p == '<') ++depth;
    if (*p == '>' && --depth == 0) return p + 1;
  }
  return nullptr;
}

}  // namespace

const Type* Parser::cached(const char* begin, const char* end) const {
  auto it = type_cache_.find(std::string_view(begin, static_cast<size_t>(end - begin)));
  return it == type_cache_.end() ? nullptr : it->second;
}

const Type* Parser::type() {
  skip_space();
  const char* b = p_;
  const std::string_view n = name_token();
  if (n.empty()) syntax("a type");
  if (n == "ref") {
    p_ = b;
    return ref_type();
  }
  DType d;
  if (!parse_dtype(n, &d))
    fail(b, "PS-IR-009", fmt::format("unknown element type '{}'", n), did_you_mean(n, dtype_names()));
  return tensor_type_after(d, b);
}

const Type* Parser::tensor_type() {
  const char* b = p_;
  const Type* t = type();
  if (t->is_ref) fail(b, "PS-IR-009", "expected a tensor type, found a ref type");
  return t;
}

const Type* Parser::tensor_type_after(DType dtype, const char* begin) {
  if (peek() != '[') syntax(fmt::format("'[' after the element type '{}'", name(dtype)));
  if (const auto* close = static_cast<const char*>(std::memchr(p_, ']', static_cast<size_t>(end_ - p_)))) {
    if (const Type* t = cached(begin, close + 1)) {
      p_ = close + 1;
      return t;
    }
  }
  ++p_;
  Type t;
  t.dtype = dtype;
  int64_t elements = 1;
  if (!accept_nl_ok(']')) {
    do {
      if (t.rank() == limits_.max_rank)
        fail(begin, "PS-IR-004", fmt::format("type has more than {} dimensions", limits_.max_rank));
      t.dims.push_back(dim());
      // A zero dimension must not hide an overflow of the others: bound the product of the nonzero ones.
      const int64_t n = t.dims.back().is_static() && t.dims.back().size > 0 ? t.dims.back().size : 1;
      if (n > limits_.max_elements / elements)
        fail(begin, "PS-IR-004", fmt::format("type has more than {} elements", limits_.max_elements));
      elements *= n;
    } while (accept_nl_ok(','));
    expect(']', "after the dimensions of a type");
  }
  const Type* r = m_.types->intern(t);
  type_cache_.emplace(std::string_view(begin, static_cast<size_t>(p_ - begin)), r);
  return r;
}

const Type* Parser::ref_type() {
  const char* b = p_;
  const char* known_end = end_of_ref(p_, end_);
  if (known_end) {
    if (const Type* t = cached(b, known_end)) {
      p_ = known_end;
      return t;
    }
  }
  Nested nested(*this, "a type");
  p_ += 3;
  if (peek() != '<') syntax("'<' after 'ref'");
  ++p_;
  Type t;
  t.is_ref = true;
  skip_space();
  if (accept('[')) {
    do {
      t.members.push_back(type());
      if (!t.members.back()->is_ref) fail(b, "PS-IR-009", "a union of refs has a member that is not a ref");
    } while (accept_nl_ok(','));
    expect(']', "after the members of a union of refs");
    t.dtype = t.members[0]->dtype;
  } else {
    const Type* element = tensor_type();
    t.dtype = element->dtype;
    t.dims = element->dims;
  }
  skip_space();
  expect(',', "before the memory space of a ref");
  skip_space();
  const char* space_at = p_;
  const std::string_view space = expect_name("a memory space");
  if (!parse_space(space, &t.space))
    fail(space_at, "PS-IR-009", fmt::format("unknown memory space '{}'", space),
         did_you_mean(space, {std::begin(kSpaceNames), std::end(kSpaceNames)}));
  bool more = accept_nl_ok(',');
  skip_space();
  if (more && peek() != '@') {
    const char* scope_at = p_;
    const std::string_view scope = expect_name("an ownership scope or @\"mesh\"");
    if (!parse_scope(scope, &t.scope)) fail(scope_at, "PS-IR-009", fmt::format("unknown ownership scope '{}'", scope));
    more = accept_nl_ok(',');
    skip_space();
  }
  if (more) {
    expect('@', "before the mesh of a ref");
    t.mesh = string_literal("the mesh's name");
    skip_space();
  }
  expect('>', "at the end of a ref type");
  const Type* r = m_.types->intern(t);
  if (known_end == p_) type_cache_.emplace(std::string_view(b, static_cast<size_t>(p_ - b)), r);
  return r;
}

Dim Parser::dim() {
  skip_space();
  const char* b = p_;
  if (peek() == '-' || (peek() >= '0' && peek() <= '9')) {
    const int64_t n = integer("a dimension");
    if (n < 0) fail(b, "PS-IR-008", fmt::format("dimension {} is negative", n));
    return Dim(n);
  }
  std::string text;
  dim_expression(text);
  return Dim(std::move(text));
}

void Parser::dim_expression(std::string& out) {
  Nested nested(*this, "a dimension");
  skip_space();
  if (peek() == '-' || (peek() >= '0' && peek() <= '9')) {
    out += std::to_string(integer("a dimension"));
    return;
  }
  const char* b = p_;
  const std::string_view n = expect_name("a dimension");
  out += n;
  if (!accept('(')) return;
  if (!is_dim_operation(n))
    fail(b, "PS-IR-009", fmt::format("unknown operation '{}' in a dimension", n),
         "dimensions use add, sub, mul, floordiv, mod, max and min");
  out += '(';
  dim_expression(out);
  skip_space();
  expect(',', "between the two arguments of a dimension's operation");
  out += ',';
  dim_expression(out);
  skip_space();
  expect(')', "after the two arguments of a dimension's operation");
  out += ')';
}

}  // namespace pallasim::ir
