#include "pallasim/ir/view.h"

#include <algorithm>

#include <fmt/format.h>

#include "pallasim/ir/equal.h"
#include "pallasim/ir/module.h"
#include "pallasim/ir/nearest.h"
#include "print_attr.h"
#include "text.h"
#include "verify.h"

namespace pallasim::ir {
namespace {

constexpr std::string_view kTransforms[] = {"index",     "reshape", "bitcast", "transpose", "squeeze",
                                            "tile",      "untile",  "swizzle", "unswizzle", "peer",
                                            "multicast", "cluster", "extract", "select"};

// Reads one transform; the first thing that is wrong ends it.
class ViewReader {
 public:
  ViewReader(const Attr** part, std::string* why) : part_(part), why_(why) {}

  bool transform(const Attr& t, View* out) {
    if (!t.is(Attr::Kind::Call)) return wrong(t, "a transform is written like a call");
    if (t.s == "index") return index(t, &out->emplace<view::Index>());
    if (t.s == "reshape") return reshape(t, &out->emplace<view::Reshape>());
    if (t.s == "transpose") return dims(t, &out->emplace<view::Transpose>().perm);
    if (t.s == "squeeze") return dims(t, &out->emplace<view::Squeeze>().axes);
    if (t.s == "bitcast") return bitcast(t, &out->emplace<view::Bitcast>());
    if (t.s == "tile" || t.s == "untile") return tile(t, &out->emplace<view::Tile>());
    if (t.s == "swizzle" || t.s == "unswizzle") return swizzle(t, &out->emplace<view::Swizzle>());
    if (t.s == "extract") return extract(t, &out->emplace<view::Extract>());
    if (t.s == "select") return select(t, &out->emplace<view::Select>());
    if (t.s == "cluster") return axes(t, t.items, &out->emplace<view::Cluster>().axes);
    if (t.s == "peer") return peer(t, &out->emplace<view::Peer>());
    if (t.s == "multicast") return multicast(t, &out->emplace<view::Multicast>());
    return wrong(t, {});
  }

 private:
  bool wrong(const Attr& part, std::string why) {
    *part_ = &part;
    *why_ = std::move(why);
    return false;
  }

  static bool number(const Attr& a, ViewInt* out) {
    if (a.is(Attr::Kind::Operand)) return *out = ViewInt::of(static_cast<int>(a.i)), a.i >= 0 && a.i <= INT32_MAX;
    *out = ViewInt();
    return is_dim(a, &out->dim);
  }

  bool entry(const Attr& a, view::Entry* e) {
    using Kind = view::Entry::Kind;
    if (a.is_call("slice")) {
      e->kind = Kind::Slice;
      if (a.items.size() != 2 && a.items.size() != 3)
        return wrong(a, "a slice is slice(start, size) or slice(start, size, stride)");
      if (!number(a.items[0], &e->start)) return wrong(a, "the start of a slice is an integer or an operand");
      if (!number(a.items[1], &e->size) || (e->size.is_static() && e->size.value() < 0))
        return wrong(a, "the size of a slice is a number or an operand");
      e->has_stride = a.items.size() == 3;
      if (e->has_stride && (!number(a.items[2], &e->stride) || e->stride.is_operand()))
        return wrong(a, "the stride of a slice is a number");
      return true;
    }
    if (a.is_call("array") || a.is_call("ref")) {
      e->kind = a.s == "ref" ? Kind::Ref : Kind::Array;
      if (a.items.empty() || !a.items[0].is(Attr::Kind::Operand) || a.items[0].i < 0)
        return wrong(a, "an index array is an operand such as $1");
      e->operand = static_cast<int>(a.items[0].i);
      if (a.items.size() > 2 || (a.items.size() == 2 && !a.items[1].is_int()))
        return wrong(a, "an index array is an operand and, perhaps, the index that skips an element");
      if (a.items.size() == 2) e->ignored = a.items[1].i;
      return true;
    }
    if (number(a, &e->start)) return true;
    return wrong(a, "an entry is an integer, $k, slice(…), array($k) or ref($k)");
  }

  bool index(const Attr& t, view::Index* v) {
    v->entries.resize(t.items.size());
    for (size_t i = 0; i < t.items.size(); ++i)
      if (!entry(t.items[i], &v->entries[i])) return false;
    return true;
  }

  bool reshape(const Attr& t, view::Reshape* v) {
    for (const Attr& a : t.items) {
      Dim d;
      if (!is_dim(a, &d) || (d.is_static() && d.size < 0))
        return wrong(t, fmt::format("{} is not a dimension", to_string(a)));
      v->dims.push_back(std::move(d));
    }
    return true;
  }

  bool dims(const Attr& t, std::vector<int64_t>* v) {
    for (const Attr& a : t.items) {
      if (!a.is_int() || a.i < 0) return wrong(t, fmt::format("{} is not a dimension", to_string(a)));
      if (std::find(v->begin(), v->end(), a.i) != v->end())
        return wrong(t, fmt::format("dimension {} occurs twice", a.i));
      v->push_back(a.i);
    }
    return true;
  }

  bool bitcast(const Attr& t, view::Bitcast* v) {
    if (t.items.size() != 1 || !t.items[0].is(Attr::Kind::TypeOf) || t.items[0].type->is_ref ||
        t.items[0].type->rank() != 0)
      return wrong(t, "a bitcast names an element type such as f32[]");
    v->dtype = t.items[0].type->dtype;
    return true;
  }

  bool tile(const Attr& t, view::Tile* v) {
    v->inverse = t.s == "untile";
    for (const Attr& a : t.items) {
      if (!a.is_int() || a.i < 1) return wrong(t, fmt::format("{} is not the extent of a tile", to_string(a)));
      v->tiling.push_back(a.i);
    }
    return !v->tiling.empty() || wrong(t, "a tile has at least one dimension");
  }

  bool swizzle(const Attr& t, view::Swizzle* v) {
    v->inverse = t.s == "unswizzle";
    const bool known = t.items.size() == 1 && t.items[0].is_int() &&
                       (t.items[0].i == 16 || t.items[0].i == 32 || t.items[0].i == 64 || t.items[0].i == 128);
    if (!known) return wrong(t, "a swizzle is of 16, 32, 64 or 128 bytes");
    v->bytes = t.items[0].i;
    return true;
  }

  bool extract(const Attr& t, view::Extract* v) {
    const bool formed = (t.items.size() == 3 || t.items.size() == 4) && t.items[0].is(Attr::Kind::TypeOf) &&
                        !t.items[0].type->is_ref && t.items[1].is_int() && t.items[2].is_int() && t.items[1].i >= 0 &&
                        t.items[2].i >= 0;
    if (!formed) return wrong(t, "an extract is extract(type, offset in bytes, group) or has a layout as well");
    v->dtype = t.items[0].type->dtype;
    v->dims = t.items[0].type->dims;
    v->offset = t.items[1].i, v->group = t.items[2].i;
    if (t.items.size() == 4) v->layout = std::make_shared<const Attr>(t.items[3]);
    return true;
  }

  bool select(const Attr& t, view::Select* v) {
    return (t.items.size() == 1 && number(t.items[0], &v->member)) || wrong(t, "a member is a number or an operand");
  }

  bool axes(const Attr& t, const std::vector<Attr>& items, std::vector<view::AxisIndex>* v) {
    for (const Attr& a : items) {
      view::AxisIndex x;
      if (!a.is_call("axis") || a.items.size() != 2 || !a.items[0].is(Attr::Kind::String) ||
          !number(a.items[1], &x.index))
        return wrong(t, "a coordinate is axis(\"name\", index)");
      x.axis = a.items[0].s;
      v->push_back(std::move(x));
    }
    return !v->empty() || wrong(t, "a unit has at least one coordinate");
  }

  bool peer(const Attr& t, view::Peer* v) {
    if (t.items.size() != 2 || !t.items[1].is(Attr::Kind::Symbol)) return wrong(t, "a peer is peer(device, kind)");
    v->kind = t.items[1].s;
    if (t.items[0].is(Attr::Kind::List)) return axes(t, t.items[0].items, &v->axes);
    return number(t.items[0], &v->device) || wrong(t, "a device is a number, an operand or a list of coordinates");
  }

  bool multicast(const Attr& t, view::Multicast* v) {
    for (const Attr& a : t.items) {
      if (!a.is(Attr::Kind::String)) return wrong(t, "an axis is a string");
      v->axes.push_back(a.s);
    }
    return !v->axes.empty() || wrong(t, "a multicast has at least one axis");
  }

  const Attr** part_;
  std::string* why_;
};

bool parse_all(const std::vector<Attr>& transforms, Viewed* v) {
  const Attr* part = nullptr;
  std::string why;
  v->transforms.resize(transforms.size());
  for (size_t i = 0; i < transforms.size(); ++i)
    if (!parse_view(transforms[i], &v->transforms[i], &part, &why)) return false;
  return true;
}

void type_tree(Attr* a) {
  if (a->is_call("view") && a->items.size() == 2 && a->items[0].is(Attr::Kind::Operand) && a->items[0].i >= 0 &&
      a->items[1].is(Attr::Kind::List)) {
    Viewed v;
    v.operand = static_cast<int>(a->items[0].i);
    v.named = true;
    if (parse_all(a->items[1].items, &v)) *a = Attr::of_view(std::move(v));
    return;
  }
  for (Attr& x : a->items) type_tree(&x);
}

void append_int(std::string& out, const ViewInt& n) {
  if (n.is_operand()) {
    fmt::format_to(std::back_inserter(out), "${}", n.operand);
  } else if (n.dim.is_static()) {
    fmt::format_to(std::back_inserter(out), "{}", n.dim.size);
  } else {
    for (char c : n.dim.symbol) {
      out += c;
      if (c == ',') out += ' ';
    }
  }
}

// Comma-separated.
template <typename Items, typename F>
void append_list(std::string& out, const Items& items, const F& append) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) out += ", ";
    append(items[i]);
  }
}

void append_axes(std::string& out, const std::vector<view::AxisIndex>& axes) {
  append_list(out, axes, [&](const view::AxisIndex& a) {
    out += "axis(";
    append_json_string(out, a.axis);
    out += ", ";
    append_int(out, a.index);
    out += ')';
  });
}

}  // namespace

bool view::Index::has_arrays() const {
  return std::any_of(entries.begin(), entries.end(), [](const Entry& e) { return e.is_array(); });
}

bool view::Extract::operator==(const Extract& o) const {
  return dtype == o.dtype && dims == o.dims && offset == o.offset && group == o.group && !layout == !o.layout &&
         (!layout || equal(*layout, *o.layout));
}

bool parse_view(const Attr& text, View* out, const Attr** part, std::string* why) {
  return ViewReader(part, why).transform(text, out);
}

std::string unknown_transform_hint(std::string_view name) {
  return did_you_mean(name, {std::begin(kTransforms), std::end(kTransforms)});
}

void type_views(Op* op) {
  for (auto& [key, a] : op->attrs) {
    type_tree(&a);
    if (!a.is(Attr::Kind::List)) continue;
    for (const AttrSpec& s : info(op->code).attrs) {
      if (s.kind != AttrKind::Transforms || s.name != key) continue;
      Viewed v;
      if (parse_all(a.items, &v)) a = Attr::of_view(std::move(v));
      break;
    }
  }
}

std::string_view name(const View& v) {
  return std::visit(
      Overloaded{[](const view::Index&) { return "index"; }, [](const view::Reshape&) { return "reshape"; },
                 [](const view::Transpose&) { return "transpose"; }, [](const view::Squeeze&) { return "squeeze"; },
                 [](const view::Bitcast&) { return "bitcast"; },
                 [](const view::Tile& t) { return t.inverse ? "untile" : "tile"; },
                 [](const view::Swizzle& t) { return t.inverse ? "unswizzle" : "swizzle"; },
                 [](const view::Extract&) { return "extract"; }, [](const view::Select&) { return "select"; },
                 [](const view::Cluster&) { return "cluster"; }, [](const view::Peer&) { return "peer"; },
                 [](const view::Multicast&) { return "multicast"; }},
      v);
}

void append_entry(std::string& out, const view::Entry& e) {
  using Kind = view::Entry::Kind;
  if (e.kind == Kind::At) return append_int(out, e.start);
  if (e.is_array()) {
    fmt::format_to(std::back_inserter(out), "{}(${}", e.kind == Kind::Ref ? "ref" : "array", e.operand);
    if (e.ignored) fmt::format_to(std::back_inserter(out), ", {}", *e.ignored);
  } else {
    out += "slice(";
    append_int(out, e.start);
    out += ", ";
    append_int(out, e.size);
    if (e.has_stride) {
      out += ", ";
      append_int(out, e.stride);
    }
  }
  out += ')';
}

void append_view(std::string& out, const View& v) {
  const auto number = [&](int64_t n) { fmt::format_to(std::back_inserter(out), "{}", n); };
  out += name(v);
  out += '(';
  std::visit(Overloaded{[&](const view::Index& t) {
                          append_list(out, t.entries, [&](const view::Entry& e) { append_entry(out, e); });
                        },
                        [&](const view::Reshape& t) {
                          append_list(out, t.dims, [&](const Dim& d) { append_int(out, ViewInt(d)); });
                        },
                        [&](const view::Transpose& t) { append_list(out, t.perm, number); },
                        [&](const view::Squeeze& t) { append_list(out, t.axes, number); },
                        [&](const view::Bitcast& t) { (out += name(t.dtype)) += "[]"; },
                        [&](const view::Tile& t) { append_list(out, t.tiling, number); },
                        [&](const view::Swizzle& t) { number(t.bytes); },
                        [&](const view::Extract& t) {
                          out += fmt::format("{}, {}, {}", shape_text(t.dtype, t.dims), t.offset, t.group);
                          if (t.layout) append_attr(out += ", ", *t.layout);
                        },
                        [&](const view::Select& t) { append_int(out, t.member); },
                        [&](const view::Cluster& t) { append_axes(out, t.axes); },
                        [&](const view::Peer& t) {
                          if (t.axes.empty()) append_int(out, t.device);
                          else append_axes(out += '[', t.axes), out += ']';
                          (out += ", ") += t.kind;
                        },
                        [&](const view::Multicast& t) {
                          append_list(out, t.axes, [&](const std::string& a) { append_json_string(out, a); });
                        }},
             v);
  out += ')';
}

void append_viewed(std::string& out, const Viewed& v) {
  if (v.named) fmt::format_to(std::back_inserter(out), "view(${}, ", v.operand);
  out += '[';
  append_list(out, v.transforms, [&](const View& t) { append_view(out, t); });
  out += v.named ? "])" : "]";
}

std::string to_string(const View& v) {
  std::string r;
  append_view(r, v);
  return r;
}

}  // namespace pallasim::ir
