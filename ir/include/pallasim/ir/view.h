// Views of refs: the transforms that an attribute `view = […]` or `key = view($k, […])` lists, applied from left to
// right. They are typed once, with the text, and visited by the verifier's rules, chip rules, compiler and printer.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pallasim/ir/attr.h"

namespace pallasim::ir {

// A number of a view: known when the module is (8, n, add(n, 1)), or an operand's value ($k).
struct ViewInt {
  Dim dim;
  int operand = -1;
  ViewInt() = default;
  ViewInt(int64_t n) : dim(n) {}  // NOLINT: a number is one
  explicit ViewInt(Dim d) : dim(std::move(d)) {}
  static ViewInt of(int operand) {
    ViewInt r;
    r.operand = operand;
    return r;
  }
  bool is_operand() const { return operand >= 0; }
  bool is_static() const { return !is_operand() && dim.is_static(); }
  int64_t value() const { return dim.size; }  // of a static one
  bool operator==(const ViewInt&) const = default;
};

namespace view {

// One dimension of an index. Integers and arrays make their dimensions disappear; arrays broadcast together, and their
// dimensions stand where the first integer entry does if all of those are adjacent, else in front (NumPy).
struct Entry {
  enum class Kind : uint8_t {
    At,     // 3, $k
    Slice,  // slice(start, size, stride)
    Array,  // array($k): an integer or bool tensor
    Ref     // ref($k): the integers that a ref holds
  } kind = Kind::At;
  ViewInt start;                   // At, Slice
  ViewInt size, stride{1};         // Slice; a size of the run is bounded by the ref's dimension
  bool has_stride = false;         // as the text has it
  int operand = -1;                // Array, Ref
  std::optional<int64_t> ignored;  // Array, Ref: the index that skips its element (SparseCore)
  bool is_slice() const { return kind == Kind::Slice; }
  bool is_array() const { return kind == Kind::Array || kind == Kind::Ref; }
  bool operator==(const Entry&) const = default;
};
// A coordinate on a named axis: axis("x", $1).
struct AxisIndex {
  std::string axis;
  ViewInt index;
  bool operator==(const AxisIndex&) const = default;
};

struct Index {
  std::vector<Entry> entries;  // one per dimension
  bool has_arrays() const;
  bool operator==(const Index&) const = default;
};
struct Reshape {
  std::vector<Dim> dims;
  bool operator==(const Reshape&) const = default;
};
struct Transpose {
  std::vector<int64_t> perm;
  bool operator==(const Transpose&) const = default;
};
struct Squeeze {
  std::vector<int64_t> axes;
  bool operator==(const Squeeze&) const = default;
};
// On TPUs a ratio of widths goes into the second minor dimension.
struct Bitcast {
  DType dtype = DType::F32;
  bool operator==(const Bitcast&) const = default;
};
// tile(a, b): (…, M, N) -> (…, M/a, N/b, a, b); untile(a, b) takes it back.
struct Tile {
  std::vector<int64_t> tiling;
  bool inverse = false;
  bool operator==(const Tile&) const = default;
};
// swizzle(n), unswizzle(n): rows of n bytes have their 16-byte parts permuted; the shape stays.
struct Swizzle {
  int64_t bytes = 128;
  bool inverse = false;
  bool operator==(const Swizzle&) const = default;
};
// extract(f32[64,64], offset, group): a member of a ref union, `offset` bytes into its group.
struct Extract {
  DType dtype = DType::F32;
  std::vector<Dim> dims;
  int64_t offset = 0, group = 0;
  std::shared_ptr<const Attr> layout;  // null: none
  bool operator==(const Extract&) const;
};
// select($k): one member of a ref with several.
struct Select {
  ViewInt member;
  bool operator==(const Select&) const = default;
};
// cluster(axis("x", 1)): the same ref of another CTA of the cluster.
struct Cluster {
  std::vector<AxisIndex> axes;
  bool operator==(const Cluster&) const = default;
};
// peer($k, logical), peer([axis("x", 1)], mesh): the same ref of another device.
struct Peer {
  ViewInt device;
  std::vector<AxisIndex> axes;  // instead of `device`; empty where that names it
  std::string kind;
  bool operator==(const Peer&) const = default;
};
// multicast("x", "y"): the same ref of all devices along axes.
struct Multicast {
  std::vector<std::string> axes;
  bool operator==(const Multicast&) const = default;
};

}  // namespace view

using View = std::variant<view::Index, view::Reshape, view::Transpose, view::Squeeze, view::Bitcast, view::Tile,
                          view::Swizzle, view::Extract, view::Select, view::Cluster, view::Peer, view::Multicast>;
std::string_view name(const View&);  // as in the text: "untile"
std::string to_string(const View&);

// A ref and the transforms that it is seen through: `view($k, […])`; a list alone is one of operand 0.
struct Viewed {
  int operand = 0;
  bool named = false;  // written view($k, […])
  std::vector<View> transforms;
  bool operator==(const Viewed&) const = default;
};

// Calls f(k) for each operand number that the transforms name, without the ref's own.
template <typename F>
void for_each_operand(const View&, const F& f);

// A transform as it is written. False where it is no transform: `part` is what is wrong then, `why` completes
// "… in a view: ".
bool parse_view(const Attr& text, View* out, const Attr** part, std::string* why);

struct Op;
// Types the views among an operation's attributes: those that the op table names, and every view($k, […]). What is no
// view stays as it is; the verifier says why.
void type_views(Op*);

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

// Calls f(d) for each dimension of a View or const View that is no operand's value.
template <typename V, typename F>
void for_each_dim(V& v, const F& f) {
  const auto number = [&](auto& n) {
    if (!n.is_operand()) f(n.dim);
  };
  const auto axes = [&](auto& list) {
    for (auto& a : list) number(a.index);
  };
  std::visit(
      [&](auto& t) {
        using T = std::remove_cvref_t<decltype(t)>;
        if constexpr (std::is_same_v<T, view::Index>) {
          for (auto& e : t.entries) number(e.start), number(e.size), number(e.stride);
        } else if constexpr (std::is_same_v<T, view::Reshape> || std::is_same_v<T, view::Extract>) {
          for (auto& d : t.dims) f(d);
        } else if constexpr (std::is_same_v<T, view::Select>) {
          number(t.member);
        } else if constexpr (std::is_same_v<T, view::Cluster>) {
          axes(t.axes);
        } else if constexpr (std::is_same_v<T, view::Peer>) {
          number(t.device), axes(t.axes);
        }
      },
      v);
}

template <typename F>
void for_each_operand(const View& v, const F& f) {
  const auto number = [&](const ViewInt& n) {
    if (n.is_operand()) f(n.operand);
  };
  std::visit(Overloaded{[&](const view::Index& t) {
                          for (const view::Entry& e : t.entries) {
                            number(e.start), number(e.size), number(e.stride);
                            if (e.is_array()) f(e.operand);
                          }
                        },
                        [&](const view::Select& t) { number(t.member); },
                        [&](const view::Cluster& t) {
                          for (const view::AxisIndex& a : t.axes) number(a.index);
                        },
                        [&](const view::Peer& t) {
                          number(t.device);
                          for (const view::AxisIndex& a : t.axes) number(a.index);
                        },
                        [](const auto&) {}},
             v);
}

}  // namespace pallasim::ir
