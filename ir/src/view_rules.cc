// Ref transforms: the shape that a view shows. Bounds are a matter of the run, not of the verifier.
#include <algorithm>

#include <fmt/format.h>

#include "print_attr.h"
#include "text.h"
#include "verify.h"

namespace pallasim::ir {
namespace {

constexpr std::string_view kTransforms[] = {"index",     "reshape", "bitcast", "transpose", "squeeze",
                                            "tile",      "untile",  "swizzle", "unswizzle", "peer",
                                            "multicast", "cluster", "extract", "select"};

class ViewFollower {
 public:
  ViewFollower(const OpCheck& c, ViewShape s) : c_(c), s_(std::move(s)) {}
  ViewShape follow(const Attr& transforms);

 private:
  void transform(const Attr& t);
  void index(const Attr& t);
  Dim slice(const Attr& e);
  void array(const Attr& e, bool from_ref);
  void reshape(const Attr& t);
  void bitcast(const Attr& t);
  void transpose(const Attr& t);
  void squeeze(const Attr& t);
  const Type& operand(const Attr& a, const char* what);
  void int_operand(const Attr& a, const char* what);
  std::vector<size_t> axes(const Attr& t);
  [[noreturn]] void fail(const Attr& part, const std::string& why) {
    c_.fail("PS-IR-110", fmt::format("{} in a view: {}", to_string(part), why),
            s_.known_shape ? "the view so far shows " + shape_text(s_.dtype, s_.dims) : "");
  }

  const OpCheck& c_;
  ViewShape s_;
  // The dimensions of the integer arrays of one index(…), broadcast together.
  std::vector<Dim> gathered_;
};

const Type& ViewFollower::operand(const Attr& a, const char* what) {
  if (!a.is(Attr::Kind::Operand) || a.i < 0 || a.i >= c_.num_in())
    fail(a, fmt::format("{} is an operand such as $1", what));
  return c_.in(static_cast<int>(a.i));
}

void ViewFollower::int_operand(const Attr& a, const char* what) {
  const Type& t = operand(a, what);
  if (!t.is_scalar() || !is_int(t.dtype))
    fail(a, fmt::format("operand {} has type {}, but {} is an integer scalar{}", a.i, to_string(t), what,
                        !t.is_ref && t.rank() ? "; arrays are written array($k)" : ""));
}

std::vector<size_t> ViewFollower::axes(const Attr& t) {
  std::vector<size_t> r;
  for (const Attr& a : t.items) {
    const auto rank = static_cast<int64_t>(s_.dims.size());
    if (!a.is_int() || a.i < 0 || (s_.known_shape && a.i >= rank))
      fail(t, fmt::format("{} is not a dimension", to_string(a)));
    if (std::find(r.begin(), r.end(), static_cast<size_t>(a.i)) != r.end())
      fail(t, fmt::format("dimension {} occurs twice", a.i));
    r.push_back(static_cast<size_t>(a.i));
  }
  return r;
}

// The extent that is left; one of the run cannot be compared.
Dim ViewFollower::slice(const Attr& e) {
  if (e.items.size() != 2 && e.items.size() != 3)
    fail(e, "a slice is slice(start, size) or slice(start, size, stride)");
  if (e.items[0].is(Attr::Kind::Operand)) int_operand(e.items[0], "the start of a slice");
  else if (!is_dim(e.items[0])) fail(e, "the start of a slice is an integer or an operand");
  Dim size(std::string("?"));
  if (e.items[1].is(Attr::Kind::Operand)) int_operand(e.items[1], "the size of a slice");
  else if (!is_dim(e.items[1], &size) || (size.is_static() && size.size < 0))
    fail(e, "the size of a slice is a number or an operand");
  if (e.items.size() == 3 && !is_dim(e.items[2])) fail(e, "the stride of a slice is a number");
  return size;
}

// Arrays broadcast together; a ref used as an index counts as the array that it holds.
void ViewFollower::array(const Attr& e, bool from_ref) {
  if (e.items.empty()) fail(e, "an index array is an operand such as $1");
  const Type& t = operand(e.items[0], "an index array");
  if (t.is_ref != from_ref) fail(e, fmt::format("operand {} has type {}", e.items[0].i, to_string(t)));
  if (!from_ref && !is_int(t.dtype) && t.dtype != DType::Bool)
    fail(e, fmt::format("operand {} of type {} is no index", e.items[0].i, to_string(t)));
  std::vector<Dim> d = t.dims;
  if (from_ref && (!t.members.empty() || e.items.size() > 1)) s_.known_shape = false;
  if (d.size() > gathered_.size()) std::swap(d, gathered_);
  for (size_t i = 0; i < d.size(); ++i) {
    Dim& g = gathered_[gathered_.size() - 1 - i];
    const Dim& x = d[d.size() - 1 - i];
    if (g == Dim(1)) g = x;
    else if (x != Dim(1) && !may_equal(g, x)) fail(e, "the index arrays do not broadcast together");
  }
}

// NDIndexer's rule: integer entries (scalars and arrays) collapse into the arrays' dimensions, which stand at the place
// of the first integer entry when all of them are adjacent, else in front.
void ViewFollower::index(const Attr& t) {
  if (s_.known_shape && t.items.size() != s_.dims.size())
    fail(t,
         fmt::format("{} for a ref of rank {}", plural(static_cast<int64_t>(t.items.size()), "entry"), s_.dims.size()));
  gathered_.clear();
  std::vector<Dim> kept;
  size_t first = SIZE_MAX, last = 0, ints = 0, at = 0;
  for (size_t i = 0; i < t.items.size(); ++i) {
    const Attr& e = t.items[i];
    if (e.is_call("slice")) {
      kept.push_back(slice(e));
      continue;
    }
    if (first == SIZE_MAX) first = i, at = kept.size();
    last = i;
    ++ints;
    if (e.is_call("array")) array(e, false);
    else if (e.is_call("ref")) array(e, true);
    else if (e.is(Attr::Kind::Operand)) int_operand(e, "an index");
    else if (!is_dim(e)) fail(e, "an entry is an integer, $k, slice(…), array($k) or ref($k)");
  }
  if (ints && last - first + 1 != ints) at = 0;
  kept.insert(kept.begin() + static_cast<ptrdiff_t>(at), gathered_.begin(), gathered_.end());
  s_.dims = std::move(kept);
}

void ViewFollower::reshape(const Attr& t) {
  std::vector<Dim> dims;
  bool decidable = s_.known_shape;
  __int128 from = 1, to = 1;
  for (const Attr& a : t.items) {
    Dim d;
    if (!is_dim(a, &d) || (d.is_static() && d.size < 0)) fail(t, fmt::format("{} is not a dimension", to_string(a)));
    decidable = decidable && d.is_static();
    if (d.is_static() && to < INT64_MAX) to *= d.size;
    dims.push_back(std::move(d));
  }
  for (const Dim& d : s_.dims) {
    decidable = decidable && d.is_static();
    if (d.is_static() && from < INT64_MAX) from *= d.size;
  }
  if (decidable && from != to) fail(t, "the number of elements changes");
  s_.dims = std::move(dims);
}

void ViewFollower::bitcast(const Attr& t) {
  if (t.items.size() != 1 || !t.items[0].is(Attr::Kind::TypeOf) || t.items[0].type->is_ref)
    fail(t, "a bitcast names an element type such as f32[]");
  const DType to = t.items[0].type->dtype;
  const int a = bit_width(s_.dtype), b = bit_width(to);
  if (!s_.known_dtype) s_.known_shape = false;
  // Mosaic TPU folds the ratio into the second minor dimension; elsewhere the shape is the machine's matter.
  if (s_.known_shape && a != b) {
    Dim* d = s_.dims.size() >= 2 ? &s_.dims[s_.dims.size() - 2] : nullptr;
    if (!d || !d->is_static() || c_.m.machine != Machine::Tpu) {
      s_.known_shape = false;
    } else {
      if (b == 0 || a == 0 || (b > a && d->size % (b / a) != 0)) fail(t, "the second minor dimension does not divide");
      *d = b > a ? Dim(d->size / (b / a)) : Dim(d->size * (a / b));
    }
  }
  s_.dtype = to;
  s_.known_dtype = true;
}

void ViewFollower::transpose(const Attr& t) {
  const std::vector<size_t> perm = axes(t);
  if (!s_.known_shape) return;
  if (perm.size() != s_.dims.size())
    fail(t, fmt::format("{} for a ref of rank {}", plural(static_cast<int64_t>(perm.size()), "entry"), s_.dims.size()));
  std::vector<Dim> dims;
  for (size_t p : perm) dims.push_back(s_.dims[p]);
  s_.dims = std::move(dims);
}

void ViewFollower::squeeze(const Attr& t) {
  std::vector<size_t> gone = axes(t);
  if (!s_.known_shape) return;
  std::sort(gone.rbegin(), gone.rend());
  for (size_t a : gone) {
    if (!may_equal(s_.dims[a], Dim(1))) fail(t, fmt::format("dimension {} has the extent {}", a, s_.dims[a].size));
    s_.dims.erase(s_.dims.begin() + static_cast<ptrdiff_t>(a));
  }
}

void ViewFollower::transform(const Attr& t) {
  if (!t.is(Attr::Kind::Call)) fail(t, "a transform is written like a call");
  if (t.s == "index") return index(t);
  if (t.s == "reshape") return reshape(t);
  if (t.s == "bitcast") return bitcast(t);
  if (t.s == "transpose") return transpose(t);
  if (t.s == "squeeze") return squeeze(t);
  if (std::find(std::begin(kTransforms), std::end(kTransforms), t.s) == std::end(kTransforms))
    c_.fail("PS-IR-110", fmt::format("unknown transform '{}' in a view", t.s),
            did_you_mean(t.s, {std::begin(kTransforms), std::end(kTransforms)}));
  // Layout transforms end the checking of shapes.
  s_.known_shape = false;
  if (t.s == "extract" || t.s == "select") s_.known_dtype = false;
}

ViewShape ViewFollower::follow(const Attr& transforms) {
  for (const Attr& t : transforms.items) transform(t);
  return std::move(s_);
}

}  // namespace

ViewShape view_shape(const OpCheck& c, const Type& ref, const Attr* transforms) {
  ViewShape s{ref.dtype, ref.dims, true, true};
  if (!ref.members.empty()) s.known_dtype = s.known_shape = false;
  if (!transforms || transforms->items.empty()) return s;
  return ViewFollower(c, std::move(s)).follow(*transforms);
}

ViewShape check_view_attr(const OpCheck& c, const std::string& key, const Attr& view) {
  const bool shaped = view.is_call("view") && view.items.size() == 2 && view.items[0].is(Attr::Kind::Operand) &&
                      view.items[1].is(Attr::Kind::List);
  if (!shaped || view.items[0].i >= c.num_in()) c.bad_attr(key, "a view is written view($k, [transforms])");
  const auto k = static_cast<int>(view.items[0].i);
  if (!c.in(k).is_ref) c.bad_operand(k, fmt::format("attribute '{}' needs a ref", key));
  return view_shape(c, c.in(k), &view.items[1]);
}

}  // namespace pallasim::ir
