#include "debug_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "io.h"
#include "pallasim/capsule/values.h"

namespace pallasim::cli {
namespace {

bool is_number(ir::DType t) { return ir::is_float(t) || ir::is_int(t) || t == ir::DType::Bool; }

// Indices of a dimension that are shown; -1: some are left out here.
std::vector<int64_t> shown_of(int64_t n, int64_t most) {
  std::vector<int64_t> r;
  if (n <= most) {
    for (int64_t i = 0; i < n; ++i) r.push_back(i);
    return r;
  }
  for (int64_t i = 0; i < most / 2; ++i) r.push_back(i);
  r.push_back(-1);
  for (int64_t i = n - most / 2; i < n; ++i) r.push_back(i);
  return r;
}

class Corner {
 public:
  explicit Corner(const interp::DebugValue& v) : v_(v) {
    visit(0, 0, [&](const std::string& s) { width_ = std::max(width_, s.size()); });
  }
  std::string text() {
    text_.clear();
    write(0, 0, 0);
    return text_;
  }

 private:
  int64_t most(size_t d) const { return d + 1 == v_.dims.size() ? 8 : d + 2 == v_.dims.size() ? 6 : 4; }
  template <typename F>
  void visit(size_t d, int64_t at, const F& f) {
    if (d == v_.dims.size()) return f(debug_element(v_, static_cast<size_t>(at)));
    for (const int64_t i : shown_of(v_.dims[d], most(d)))
      if (i >= 0) visit(d + 1, at * v_.dims[d] + i, f);
  }
  void write(size_t d, int64_t at, size_t indent) {
    if (d == v_.dims.size()) {
      text_ += fmt::format("{:>{}}", debug_element(v_, static_cast<size_t>(at)), width_);
      return;
    }
    text_ += '[';
    const bool last = d + 1 == v_.dims.size();
    bool first = true;
    for (const int64_t i : shown_of(v_.dims[d], most(d))) {
      if (!first) text_ += last ? " " : "\n" + std::string(indent + 1, ' ');
      first = false;
      if (i < 0) text_ += "...";
      else write(d + 1, at * v_.dims[d] + i, indent + 1);
    }
    text_ += ']';
  }
  const interp::DebugValue& v_;
  size_t width_ = 0;
  std::string text_;
};

int64_t count(const std::vector<bool>& marks) { return std::count(marks.begin(), marks.end(), true); }

}  // namespace

std::string trimmed(const std::string& s) {
  const size_t a = s.find_first_not_of(" \t\r\n"), b = s.find_last_not_of(" \t\r\n");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

std::string debug_point(const std::vector<int64_t>& p) {
  return fmt::format("({}{})", fmt::join(p, ", "), p.size() == 1 ? "," : "");
}

std::string debug_type(const interp::DebugValue& v) {
  if (ir::is_sync(v.dtype)) return std::string(ir::name(v.dtype));
  return v.dims.empty() ? std::string(ir::name(v.dtype))
                        : fmt::format("{}[{}]", ir::name(v.dtype), fmt::join(v.dims, ","));
}

// With a mark where its value has no meaning.
std::string debug_element(const interp::DebugValue& v, size_t i) {
  if (!v.outside.empty() && v.outside[i]) return ".";
  if (!v.undefined.empty() && v.undefined[i]) return "?";
  return element_text(v.bytes.data() + i * static_cast<size_t>(ir::byte_size(v.dtype)), v.dtype);
}

std::string debug_summary(const interp::DebugValue& v) {
  std::string r = debug_type(v);
  if (!v.note.empty()) r += " in " + v.note;
  if (v.bytes.empty()) return r;
  if (v.dims.empty()) return r + " = " + debug_element(v, 0);
  const size_t n = v.bytes.size() / static_cast<size_t>(ir::byte_size(v.dtype));
  double least = HUGE_VAL, most = -HUGE_VAL;
  int64_t nan = 0, inf = 0, seen = 0;
  for (size_t i = 0; i < n && is_number(v.dtype); ++i) {
    if ((!v.outside.empty() && v.outside[i]) || (!v.undefined.empty() && v.undefined[i])) continue;
    const double x = to_double(v.bytes.data() + i * static_cast<size_t>(ir::byte_size(v.dtype)), v.dtype);
    nan += std::isnan(x), inf += std::isinf(x);
    if (!std::isfinite(x)) continue;
    least = std::min(least, x), most = std::max(most, x), ++seen;
  }
  if (seen > 0) r += fmt::format("  min {:g}  max {:g}", least, most);
  if (nan > 0) r += fmt::format("  {} NaN", nan);
  if (inf > 0) r += fmt::format("  {} infinite", inf);
  if (!v.undefined.empty()) r += fmt::format("  {} undefined (?)", count(v.undefined));
  if (!v.outside.empty()) r += fmt::format("  {} outside of the array (.)", count(v.outside));
  return r;
}

std::string debug_elements(const interp::DebugValue& v) {
  if (v.bytes.empty()) return "";
  return Corner(v).text();
}

std::string debug_source(const interp::Debugger& d, const std::string& file, int line) {
  static std::map<std::string, std::vector<std::string>> files;
  const auto known = [&](int n) {
    for (const ir::SourceLine& l : d.lines())
      if (l.file == file && l.line == n) return l.text;
    return std::string();
  };
  auto [it, fresh] = files.try_emplace(file);
  if (fresh && !file.empty()) {
    std::ifstream in(file);
    for (std::string text; std::getline(in, text) && it->second.size() < 1'000'000;) it->second.push_back(text);
    for (const ir::SourceLine& l : d.lines())  // another version of it
      if (l.file == file && !l.text.empty() &&
          (l.line < 1 || l.line > std::ssize(it->second) ||
           trimmed(it->second[static_cast<size_t>(l.line) - 1]) != trimmed(l.text))) {
        it->second.clear();
        break;
      }
  }
  if (line >= 1 && line <= std::ssize(it->second)) return it->second[static_cast<size_t>(line) - 1];
  return known(line);
}

}  // namespace pallasim::cli
