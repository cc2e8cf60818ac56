// What the call's operands hold: files, numbers, or fills.
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "commands.h"
#include "io.h"
#include "pallasim/capsule/npy.h"
#include "pallasim/ir/nearest.h"

namespace pallasim::cli {
namespace {

bool parse_number(const std::string& text, double* out) {
  if (text.empty() || text.size() > 64) return false;
  char* end = nullptr;
  *out = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size();
}

std::string shape_text(const std::vector<int64_t>& dims) { return fmt::format("({})", fmt::join(dims, ", ")); }

std::string list_operands(const std::vector<Argument>& all) {
  std::string r;
  for (const Argument& a : all) r += (r.empty() ? "" : ", ") + escaped(a.name);
  return r.empty() ? "none" : r;
}

std::string meant(std::string_view word, const std::vector<std::string_view>& words) {
  const std::string_view near = ir::nearest(word, words);
  return near.empty() ? "" : fmt::format("did you mean {}?", near);
}

// NAME=VALUE of no operand, unless it is a file.
void refuse_name(const std::string& arg, size_t eq, const std::vector<Argument>& all) {
  std::error_code error;
  if (std::filesystem::exists(arg, error)) return;
  std::vector<std::string_view> names;
  for (const Argument& a : all) names.push_back(a.name);
  const std::string name = arg.substr(0, eq);
  fail("PS-CLI-001", fmt::format("--arg {}: there is no operand {}", arg, name), {"operands: " + list_operands(all)},
       meant(name, names));
}

// A file's array, with the operand's type still to be compared once shape parameters are known.
struct FileArray {
  NpyHeader header;
  std::string bytes;
};

std::vector<int64_t> expected_dims(const ir::Type& t) {
  std::vector<int64_t> dims;
  for (const ir::Dim& d : t.dims) dims.push_back(d.size);
  return dims;
}

[[noreturn]] void mismatch(const Argument& a, const NpyHeader& h) {
  const ir::Type& t = *a.operand->array;
  fail("PS-ARG-001", fmt::format("{} is not what operand {} takes", a.origin, a.name),
       {fmt::format("the kernel takes {}: an array of {}", ir::to_string(t), numpy_name(t.dtype)),
        fmt::format("the file holds shape {} of '{}'", shape_text(h.dims), h.descr)});
}

// The dims of a file that stand for the operand's dims: keys have their words in a trailing dimension.
std::vector<int64_t> operand_dims(const Argument& a, const NpyHeader& h) {
  std::vector<int64_t> dims = h.dims;
  if (const int words = npy_key_words(a.operand->array->dtype)) {
    if (dims.empty() || dims.back() != words) mismatch(a, h);
    dims.pop_back();
  }
  return dims;
}

void bind_parameters(ir::Module* m, const RunOptions& o, const std::vector<Argument>& all,
                     const std::map<size_t, FileArray>& files) {
  auto values = parse_dims(o.dims);
  for (const auto& [name, value] : values)
    if (std::find(m->params.begin(), m->params.end(), name) == m->params.end())
      fail("PS-CLI-001", fmt::format("--dim {}={}: the kernel has no shape parameter of that name", name, value),
           {m->params.empty() ? "it has none" : fmt::format("it has {}", fmt::join(m->params, ", "))},
           meant(name, {m->params.begin(), m->params.end()}));
  if (m->params.empty()) return;
  auto has = [&](const std::string& name) {
    return std::any_of(values.begin(), values.end(), [&](const auto& v) { return v.first == name; });
  };
  for (const auto& [i, file] : files) {
    const ir::Type* t = all[i].operand ? all[i].operand->array : nullptr;
    const auto dims = t ? operand_dims(all[i], file.header) : std::vector<int64_t>{};
    if (!t || dims.size() != t->dims.size()) continue;
    for (size_t d = 0; d < dims.size(); ++d)
      if (!t->dims[d].is_static() && !has(t->dims[d].symbol) &&
          std::find(m->params.begin(), m->params.end(), t->dims[d].symbol) != m->params.end())
        values.emplace_back(t->dims[d].symbol, dims[d]);
  }
  for (const std::string& p : m->params)
    if (!has(p))
      fail("PS-CLI-001", fmt::format("shape parameter {} has no value", p), {},
           fmt::format("give --dim {}=8, or an array that has it as a dimension", p));
  *m = ir::bind_shapes(*m, values);
}

void allocate(Array* a, ir::DType dtype, std::vector<int64_t> dims, const std::string& name, int64_t* budget) {
  a->dtype = dtype;
  a->dims = std::move(dims);
  int64_t bytes = ir::byte_size(dtype);
  bool overflow = false;
  for (int64_t d : a->dims) overflow |= __builtin_mul_overflow(bytes, d, &bytes);
  if (overflow || bytes > *budget) {
    fail("PS-SIZE-001", fmt::format("operand {} is too large", name),
         {fmt::format("{}{} does not fit into the {} bytes that are left", ir::name(dtype), shape_text(a->dims),
                      *budget)},
         "raise --max-memory if the machine has more");
  }
  *budget -= bytes;
  a->data.resize(static_cast<size_t>(bytes));
}

Fill fill_of(const std::string& text) {
  return text == "zeros" ? Fill::Zeros : text == "iota" ? Fill::Iota : Fill::Random;
}
const std::vector<std::string_view> kFills = {"zeros", "iota", "random"};
bool is_fill(const std::string& text) { return std::find(kFills.begin(), kFills.end(), text) != kFills.end(); }

// The bytes of a value that is no number and no pattern.
std::string read_array(const std::string& text, int64_t limit) {
  try {
    return read_input(text, limit);
  } catch (ir::DiagnosticError& e) {
    if (text.find_first_of("./") == text.npos) {
      e.diagnostic().numbers.emplace_back("a value is an .npy file, a number, zeros, iota or random");
      e.diagnostic().hint = meant(text, kFills);
    }
    std::move(e.diagnostic()).raise();
  }
}

}  // namespace

std::vector<std::pair<std::string, int64_t>> parse_dims(const std::vector<std::string>& all) {
  std::vector<std::pair<std::string, int64_t>> r;
  for (const std::string& s : all) {
    const size_t eq = s.find('=');
    int64_t v = 0;
    const char* end = s.data() + s.size();
    const auto parsed = std::from_chars(s.data() + (eq == s.npos ? s.size() : eq + 1), end, v);
    if (eq == s.npos || eq == 0 || parsed.ec != std::errc() || parsed.ptr != end || v < 0)
      fail("PS-CLI-001", fmt::format("--dim {}: expected name=size", s), {}, "for example --dim n=128");
    r.emplace_back(s.substr(0, eq), v);
  }
  return r;
}

std::vector<Argument> make_results(const ir::Module& m, int64_t* budget) {
  std::vector<Argument> all;
  for (const ir::Operand& p : m.operands) {
    if (p.kind != ir::Operand::Kind::Output) continue;
    Argument a{&p, p.name, {}, {}};
    a.array.dtype = p.array->dtype;
    for (const ir::Dim& d : p.array->dims) a.array.dims.push_back(d.size);
    const int64_t bytes = p.array->num_bytes();
    if (bytes > *budget)
      fail("PS-SIZE-001", fmt::format("output {} is too large", p.name),
           {fmt::format("{} needs {} bytes, {} are left", ir::to_string(p.array), bytes, *budget)},
           "raise --max-memory if the machine has more");
    *budget -= bytes;
    a.array.data.resize(static_cast<size_t>(bytes));
    all.push_back(std::move(a));
  }
  return all;
}

std::vector<Argument> make_arguments(ir::Module* m, const RunOptions& o) {
  std::vector<Argument> all;
  for (int i = 0; i < m->num_dynamic; ++i) all.push_back({nullptr, fmt::format("grid bound {}", i), {}, {}});
  auto collect = [&] {
    size_t at = static_cast<size_t>(m->num_dynamic);
    for (const ir::Operand& p : m->operands) {
      if (p.kind == ir::Operand::Kind::Output) continue;
      if (at == all.size()) all.push_back({nullptr, p.name, {}, {}});
      all[at++].operand = &p;
    }
  };
  collect();

  // Which text each operand takes: by name, or the next without one.
  std::map<size_t, std::string> texts;
  size_t next = 0;
  for (const std::string& arg : o.args) {
    const size_t eq = arg.find('=');
    size_t which = all.size();
    if (eq != arg.npos)
      for (size_t i = 0; i < all.size(); ++i)
        if (all[i].name == arg.substr(0, eq)) which = i;
    const bool named = which < all.size();
    if (!named && eq != arg.npos) refuse_name(arg, eq, all);
    if (!named) {
      while (texts.count(next)) ++next;
      which = next;
    }
    if (which >= all.size()) {
      fail("PS-CLI-001", fmt::format("--arg {}: the kernel takes no further operand", arg),
           {"operands: " + list_operands(all)});
    }
    if (texts.count(which)) fail("PS-CLI-001", fmt::format("--arg {}: the operand already has a value", arg));
    texts[which] = named ? arg.substr(eq + 1) : arg;
  }

  const int64_t limit = engine_options(o).max_memory;
  int64_t budget = limit;
  std::map<size_t, FileArray> files;
  for (auto& [i, text] : texts) {
    double number;
    if (is_fill(text) || parse_number(text, &number)) continue;
    FileArray f;
    f.bytes = read_array(text, limit);
    NpyLimits limits;
    limits.max_bytes = budget;
    f.header = parse_npy_header(f.bytes, text, limits);
    all[i].origin = text;
    files.emplace(i, std::move(f));
  }
  bind_parameters(m, o, all, files);
  collect();  // binding made a new module

  for (size_t i = 0; i < all.size(); ++i) {
    Argument& a = all[i];
    const auto text = texts.find(i);
    const bool bound = !a.operand;
    const ir::DType dtype = bound ? ir::DType::I32 : a.operand->array->dtype;
    const auto dims = bound ? std::vector<int64_t>{} : expected_dims(*a.operand->array);
    if (bound && text == texts.end()) {
      fail("PS-CLI-001", fmt::format("{} has no value", a.name), {"operands: " + list_operands(all)},
           "bounds of a dynamic grid come first: --arg 4");
    }
    if (const auto file = files.find(i); file != files.end()) {
      const NpyHeader& h = file->second.header;
      if (bound) {
        // A bound is a single integer of any width.
        ir::DType t = ir::DType::I32;
        if (npy_descr_matches(h.descr, ir::DType::I64)) t = ir::DType::I64;
        else if (!npy_descr_matches(h.descr, t)) t = ir::DType::Token;
        if (t == ir::DType::Token || h.elements != 1)
          fail("PS-ARG-001", fmt::format("{} is not what {} takes", a.origin, a.name),
               {"a bound is one int32 or int64",
                fmt::format("the file holds shape {} of '{}'", shape_text(h.dims), h.descr)});
        a.array = {t, {}, npy_elements(file->second.bytes, h, t)};
        continue;
      }
      if (!npy_descr_matches(h.descr, dtype) || operand_dims(a, h) != dims) mismatch(a, h);
      allocate(&a.array, dtype, dims, a.name, &budget);
      a.array.data = npy_elements(file->second.bytes, h, dtype);
      file->second.bytes = {};
      continue;
    }
    allocate(&a.array, dtype, dims, a.name, &budget);
    double number = 0;
    if (text != texts.end() && !is_fill(text->second) && parse_number(text->second, &number)) {
      fill_value(&a.array, number);
      a.origin = text->second;
      continue;
    }
    std::string how = text != texts.end() ? text->second : o.fill;
    // Prefetched scalars are indices and sizes: zeros stay in bounds.
    if (how.empty()) how = !bound && a.operand->kind == ir::Operand::Kind::Prefetch ? "zeros" : "random";
    fill(&a.array, fill_of(how), o.seed, i);
    a.origin = how == "random" ? fmt::format("random, seed {}", o.seed) : how;
  }
  return all;
}

}  // namespace pallasim::cli
