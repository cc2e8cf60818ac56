// Ref transforms: the shape that a view shows. Bounds are a matter of the run, not of the verifier.
#include <algorithm>

#include <fmt/format.h>

#include "print_attr.h"
#include "text.h"
#include "verify.h"

namespace pallasim::ir {
namespace {

class ViewFollower {
 public:
  ViewFollower(const OpCheck& c, ViewShape s) : c_(c), s_(std::move(s)) {}
  ViewShape follow(const Attr& view);

  void operator()(const view::Index& t);
  void operator()(const view::Reshape& t);
  void operator()(const view::Transpose& t);
  void operator()(const view::Squeeze& t);
  void operator()(const view::Bitcast& t);
  void operator()(const view::Tile& t);
  void operator()(const view::Swizzle&) {}
  void operator()(const view::Extract& t);
  void operator()(const view::Select& t);
  void operator()(const view::Cluster& t) { coordinates(t.axes); }
  void operator()(const view::Peer& t);
  void operator()(const view::Multicast&) {}

 private:
  void transform(const View& t);
  Dim slice(const view::Entry& e);
  void array(const view::Entry& e);
  void coordinates(const std::vector<view::AxisIndex>& axes);
  const Type& operand(int k, const std::string& part, const char* what);
  void int_operand(const ViewInt& n, const std::string& part, const char* what);
  void need_axes(const std::vector<int64_t>& axes);
  [[noreturn]] void fail(const std::string& part, const std::string& why) {
    c_.fail("PS-IR-110", fmt::format("{} in a view: {}", part, why),
            s_.known_shape ? "the view so far shows " + shape_text(s_.dtype, s_.dims) : "");
  }
  [[noreturn]] void fail(const std::string& why) { fail(to_string(*now_), why); }  // the transform as a whole
  static std::string text(const view::Entry& e) {
    std::string r;
    append_entry(r, e);
    return r;
  }

  const OpCheck& c_;
  ViewShape s_;
  const View* now_ = nullptr;
  // The dimensions of the integer arrays of one index(…), broadcast together.
  std::vector<Dim> gathered_;
};

const Type& ViewFollower::operand(int k, const std::string& part, const char* what) {
  if (k >= c_.num_in()) fail(part, fmt::format("{} is an operand such as $1", what));
  return c_.in(k);
}

void ViewFollower::int_operand(const ViewInt& n, const std::string& part, const char* what) {
  if (!n.is_operand()) return;
  const Type& t = operand(n.operand, part, what);
  if (!t.is_scalar() || !is_int(t.dtype))
    fail(part, fmt::format("operand {} has type {}, but {} is an integer scalar{}", n.operand, to_string(t), what,
                           !t.is_ref && t.rank() ? "; arrays are written array($k)" : ""));
}

void ViewFollower::need_axes(const std::vector<int64_t>& axes) {
  for (int64_t a : axes)
    if (s_.known_shape && a >= static_cast<int64_t>(s_.dims.size())) fail(fmt::format("{} is not a dimension", a));
}

// The extent that is left; one of the run cannot be compared.
Dim ViewFollower::slice(const view::Entry& e) {
  const auto number = [](const ViewInt& n) { return fmt::format("${}", n.operand); };
  int_operand(e.start, number(e.start), "the start of a slice");
  int_operand(e.size, number(e.size), "the size of a slice");
  if (e.size.is_static() && e.size.value() < 0) fail(text(e), "the size of a slice is a number or an operand");
  return e.size.is_operand() ? Dim(std::string("?")) : e.size.dim;
}

// Arrays broadcast together; a ref used as an index counts as the array that it holds.
void ViewFollower::array(const view::Entry& e) {
  const bool from_ref = e.kind == view::Entry::Kind::Ref;
  const Type& t = operand(e.operand, text(e), "an index array");
  if (t.is_ref != from_ref) fail(text(e), fmt::format("operand {} has type {}", e.operand, to_string(t)));
  if (t.members.empty() && (!is_int(t.dtype) || bit_width(t.dtype) < 8))
    fail(text(e),
         fmt::format("operand {} of type {} is no index, which integers of 8 to 64 bits are", e.operand, to_string(t)));
  std::vector<Dim> d = t.dims;
  if (from_ref && (!t.members.empty() || e.ignored)) s_.known_shape = false;
  if (d.size() > gathered_.size()) std::swap(d, gathered_);
  for (size_t i = 0; i < d.size(); ++i) {
    Dim& g = gathered_[gathered_.size() - 1 - i];
    const Dim& x = d[d.size() - 1 - i];
    if (g == Dim(1)) g = x;
    else if (x != Dim(1) && !may_equal(g, x)) fail(text(e), "the index arrays do not broadcast together");
  }
}

// NDIndexer's rule: integer entries (scalars and arrays) collapse into the arrays' dimensions, which stand at the place
// of the first integer entry when all of them are adjacent, else in front.
void ViewFollower::operator()(const view::Index& t) {
  if (s_.known_shape && t.entries.size() != s_.dims.size())
    fail(fmt::format("{} for a ref of rank {}", plural(static_cast<int64_t>(t.entries.size()), "entry"),
                     s_.dims.size()));
  gathered_.clear();
  std::vector<Dim> kept;
  size_t first = SIZE_MAX, last = 0, ints = 0, at = 0;
  for (size_t i = 0; i < t.entries.size(); ++i) {
    const view::Entry& e = t.entries[i];
    if (e.is_slice()) {
      kept.push_back(slice(e));
      continue;
    }
    if (first == SIZE_MAX) first = i, at = kept.size();
    last = i;
    ++ints;
    if (e.is_array()) array(e);
    else int_operand(e.start, text(e), "an index");
  }
  if (ints && last - first + 1 != ints) at = 0;
  kept.insert(kept.begin() + static_cast<ptrdiff_t>(at), gathered_.begin(), gathered_.end());
  s_.dims = std::move(kept);
}

void ViewFollower::operator()(const view::Reshape& t) {
  bool decidable = s_.known_shape;
  __int128 from = 1, to = 1;
  for (const Dim& d : t.dims) {
    if (d.is_static() && d.size < 0) fail(fmt::format("{} is not a dimension", d.size));
    decidable = decidable && d.is_static();
    if (d.is_static() && to < INT64_MAX) to *= d.size;
  }
  for (const Dim& d : s_.dims) {
    decidable = decidable && d.is_static();
    if (d.is_static() && from < INT64_MAX) from *= d.size;
  }
  if (decidable && from != to) fail("the number of elements changes");
  s_.dims = t.dims;
}

void ViewFollower::operator()(const view::Bitcast& t) {
  const int a = bit_width(s_.dtype), b = bit_width(t.dtype);
  if (!s_.known_dtype) s_.known_shape = false;
  // Mosaic TPU folds the ratio into the second minor dimension; elsewhere the shape is the machine's matter.
  if (s_.known_shape && a != b) {
    Dim* d = s_.dims.size() >= 2 ? &s_.dims[s_.dims.size() - 2] : nullptr;
    if (!d || !d->is_static() || c_.m.machine != Machine::Tpu) {
      s_.known_shape = false;
    } else {
      if (b == 0 || a == 0 || (b > a && d->size % (b / a) != 0)) fail("the second minor dimension does not divide");
      *d = b > a ? Dim(d->size / (b / a)) : Dim(d->size * (a / b));
    }
  }
  s_.dtype = t.dtype;
  s_.known_dtype = true;
}

void ViewFollower::operator()(const view::Transpose& t) {
  need_axes(t.perm);
  if (!s_.known_shape) return;
  if (t.perm.size() != s_.dims.size())
    fail(fmt::format("{} for a ref of rank {}", plural(static_cast<int64_t>(t.perm.size()), "entry"), s_.dims.size()));
  std::vector<Dim> dims;
  for (int64_t p : t.perm) dims.push_back(s_.dims[static_cast<size_t>(p)]);
  s_.dims = std::move(dims);
}

void ViewFollower::operator()(const view::Squeeze& t) {
  need_axes(t.axes);
  if (!s_.known_shape) return;
  std::vector<int64_t> gone = t.axes;
  std::sort(gone.rbegin(), gone.rend());
  for (int64_t a : gone) {
    const Dim& d = s_.dims[static_cast<size_t>(a)];
    if (!may_equal(d, Dim(1))) fail(fmt::format("dimension {} has the extent {}", a, d.size));
    s_.dims.erase(s_.dims.begin() + a);
  }
}

// The dimensions of the tiles stand behind those that count the tiles.
void ViewFollower::operator()(const view::Tile& t) {
  if (!s_.known_shape) return;
  const size_t n = t.tiling.size(), rank = s_.dims.size();
  if (rank < (t.inverse ? 2 * n : n)) fail(fmt::format("{} of the tile for a ref of rank {}", n, rank));
  std::vector<Dim> dims = s_.dims;
  for (size_t i = 0; i < n; ++i) {
    const int64_t tile = t.tiling[i];
    Dim& d = dims[rank - (t.inverse ? 2 * n : n) + i];
    if (!d.is_static()) {
      s_.known_shape = false;
      return;
    }
    if (t.inverse) {
      if (!may_equal(dims[rank - n + i], Dim(tile)))
        fail(fmt::format("dimension {} has the extent {}", rank - n + i, dims[rank - n + i].size));
      if (__builtin_mul_overflow(d.size, tile, &d.size)) fail("the extents are too large");
    } else {
      if (d.size % tile != 0) fail(fmt::format("the extent {} is no multiple of {}", d.size, tile));
      d.size /= tile;
    }
  }
  if (t.inverse) dims.resize(rank - n);
  else
    for (int64_t tile : t.tiling) dims.emplace_back(tile);
  s_.dims = std::move(dims);
}

// What the union holds there is the machine's matter: bytes lie under several types.
void ViewFollower::operator()(const view::Extract& t) { s_ = {t.dtype, t.dims, true, true}; }

void ViewFollower::operator()(const view::Select& t) {
  int_operand(t.member, to_string(*now_), "a member");
  s_.known_shape = s_.known_dtype = false;
}

void ViewFollower::coordinates(const std::vector<view::AxisIndex>& axes) {
  for (const view::AxisIndex& a : axes) int_operand(a.index, to_string(*now_), "a coordinate");
}

void ViewFollower::operator()(const view::Peer& t) {
  int_operand(t.device, to_string(*now_), "a device");
  coordinates(t.axes);
}

void ViewFollower::transform(const View& t) {
  now_ = &t;
  std::visit(*this, t);
}

ViewShape ViewFollower::follow(const Attr& list) {
  if (list.is(Attr::Kind::View)) {
    for (const View& t : list.view->transforms) transform(t);
    return std::move(s_);
  }
  // What could not be typed: the first transform that is none.
  for (const Attr& a : list.items) {
    View t;
    const Attr* part = nullptr;
    std::string why;
    if (parse_view(a, &t, &part, &why)) {
      transform(t);
      continue;
    }
    if (why.empty())
      c_.fail("PS-IR-110", fmt::format("unknown transform '{}' in a view", a.s), unknown_transform_hint(a.s));
    fail(to_string(*part), why);
  }
  return std::move(s_);
}

}  // namespace

ViewShape view_shape(const OpCheck& c, const Type& ref, const Attr* transforms) {
  ViewShape s{ref.dtype, ref.dims, true, true};
  if (!ref.members.empty()) s.known_dtype = s.known_shape = false;
  if (!transforms) return s;
  return ViewFollower(c, std::move(s)).follow(*transforms);
}

ViewShape check_view_attr(const OpCheck& c, const std::string& key, const Attr& view) {
  const bool typed = view.is(Attr::Kind::View) && view.view->named;
  const bool shaped = typed || (view.is_call("view") && view.items.size() == 2 &&
                                view.items[0].is(Attr::Kind::Operand) && view.items[1].is(Attr::Kind::List));
  const int64_t k = typed ? view.view->operand : shaped ? view.items[0].i : -1;
  if (!shaped || k < 0 || k >= c.num_in()) c.bad_attr(key, "a view is written view($k, [transforms])");
  const auto i = static_cast<int>(k);
  if (!c.in(i).is_ref) c.bad_operand(i, fmt::format("attribute '{}' needs a ref", key));
  return view_shape(c, c.in(i), typed ? &view : &view.items[1]);
}

}  // namespace pallasim::ir
