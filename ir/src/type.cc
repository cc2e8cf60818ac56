#include "pallasim/ir/type.h"

#include <array>

#include "text.h"

namespace pallasim::ir {
namespace {

constexpr std::string_view kSpaces[] = {
#define X(e, t) t,
    PALLASIM_SPACES(X)
#undef X
};
constexpr std::string_view kScopes[] = {
#define X(e, t) t,
    PALLASIM_SCOPES(X)
#undef X
};

template <typename Enum, size_t N>
bool parse_enum(const std::string_view (&names)[N], std::string_view text, Enum* out) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] != text) continue;
    *out = static_cast<Enum>(i);
    return true;
  }
  return false;
}

std::string tensor_text(const Type& t) {
  std::string s(name(t.dtype));
  s += '[';
  for (size_t i = 0; i < t.dims.size(); ++i) {
    if (i) s += ',';
    s += t.dims[i].is_static() ? std::to_string(t.dims[i].size) : t.dims[i].symbol;
  }
  return s += ']';
}

}  // namespace

std::string_view name(Space s) { return kSpaces[static_cast<size_t>(s)]; }
bool parse_space(std::string_view text, Space* out) { return parse_enum(kSpaces, text, out); }
std::string_view name(Scope s) { return kScopes[static_cast<size_t>(s)]; }
bool parse_scope(std::string_view text, Scope* out) { return parse_enum(kScopes, text, out); }

bool Type::is_static() const {
  for (const Dim& d : dims)
    if (!d.is_static()) return false;
  return true;
}

int64_t Type::num_elements() const {
  int64_t n = 1;
  for (const Dim& d : dims) n *= d.size;
  return n;
}

std::string to_string(const Type& t) {
  if (!t.is_ref) return tensor_text(t);
  std::string s = "ref<";
  if (t.members.empty()) {
    s += tensor_text(t);
  } else {
    s += '[';
    for (size_t i = 0; i < t.members.size(); ++i) {
      if (i) s += ", ";
      s += to_string(*t.members[i]);
    }
    s += ']';
  }
  s += ", ";
  s += name(t.space);
  if (t.scope != Scope::Thread) {
    s += ", ";
    s += name(t.scope);
  }
  if (!t.mesh.empty()) append_json_string(s += ", @", t.mesh);
  return s += '>';
}

const Type* TypeTable::intern(const Type& t) {
  std::string key = to_string(t);
  auto it = by_text_.find(key);
  if (it != by_text_.end()) return it->second;
  types_.push_back(t);
  by_text_.emplace(std::move(key), &types_.back());
  return &types_.back();
}

const Type* TypeTable::tensor(DType dtype, std::vector<Dim> dims) {
  Type t;
  t.dtype = dtype;
  t.dims = std::move(dims);
  return intern(t);
}

const Type* TypeTable::ref(DType dtype, std::vector<Dim> dims, Space space) {
  Type t;
  t.is_ref = true;
  t.dtype = dtype;
  t.dims = std::move(dims);
  t.space = space;
  return intern(t);
}

}  // namespace pallasim::ir
