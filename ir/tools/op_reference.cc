// Writes docs/ops.md from the op table to standard output.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pallasim/ir/op_table.h"

using namespace pallasim::ir;

namespace {

constexpr const char* kFamilies[] = {"Elementwise",
                                     "Shape",
                                     "Reductions and contractions",
                                     "Control",
                                     "Memory",
                                     "Asynchronous and synchronisation",
                                     "Random numbers",
                                     "Hints, debugging, escape hatches"};
constexpr const char* kRules[] = {
    "Abs",         "ArgReduce",    "BitcastConvert", "Broadcast", "Call",    "Clamp",      "Compare",
    "ComplexPart", "Concat",       "Cond",           "Constant",  "Convert", "Cumulative", "Declared",
    "Dot",         "DynamicSlice", "DynamicUpdate",  "For",       "Get",     "Identity",   "Index",
    "Iota",        "MaskedLoad",   "NoResult",       "Pad",       "Pow",     "Predicate",  "Reduce",
    "RefResult",   "Reshape",      "Same",           "Scoped",    "Select",  "Slice",      "Store",
    "Swap",        "Transpose",    "Variadic",       "While"};
constexpr const char* kRuleDocs[] = {
    "the operand's type; complex gives its part's float",
    "the operand without the axis, in an integer type",
    "same bits; a ratio of widths appears or disappears as the last dimension",
    "operand dimension i becomes result dimension dims[i], or is 1",
    "the region takes the operands and yields the results",
    "the type of operand 1; bounds are scalars or have its shape",
    "bool in the operands' shape",
    "float part of a complex operand",
    "operands joined along the axis",
    "every region yields the results; no arguments",
    "the literal's type",
    "the operand's shape in another element type",
    "the operand's type",
    "results are taken as written",
    "batch dimensions, left free dimensions, right free dimensions; any number type",
    "operands x and one integer per dimension; result has the sizes",
    "operands x, update and one integer per dimension; result has x's type",
    "integers lower, upper, step, then carried values; the region takes index and carried values and yields the "
    "carried values",
    "the shape that the view shows",
    "each result has its operand's type",
    "one integer scalar",
    "any number type with the axis",
    "as Get; mask and other broadcast to the result",
    "none",
    "low + size + (size-1)*interior + high per dimension; the padding value is a scalar",
    "as Same, but the exponent may be an integer",
    "bool in the operand's shape",
    "the operand without the axes",
    "one ref",
    "same element type and number of elements",
    "one element type; one shape, or scalars",
    "the region's arguments are allocations; it yields the results",
    "predicate bool or i32, scalar or of the cases' shape; the cases as Same",
    "ceil((limit-start)/stride) per dimension",
    "operand 1 has the type that the view shows; no result",
    "operand 1 has the type that the view shows; so has the result",
    "result dimension i is operand dimension perm[i]",
    "each result has its operand's type",
    "carried values: operands, arguments of both regions, what the body yields, results; the condition yields a bool",
};
constexpr const char* kResult[] = {"exact", "bounded", "product"};
constexpr const char* kEffects[] = {"read",    "write", "atomic", "sync",  "async",
                                    "control", "alloc", "print",  "check", "random"};

std::string range(int lo, int hi) {
  if (hi < 0) return lo ? fmt::format("{}+", lo) : "any";
  return lo == hi ? std::to_string(lo) : fmt::format("{} to {}", lo, hi);
}

std::string attributes(const OpInfo& i) {
  std::string r;
  for (const AttrSpec& a : i.attrs)
    r += fmt::format("{}`{}`: {}{}", r.empty() ? "" : ", ", a.name, name(a.kind), a.optional ? "?" : "");
  if (i.open_attrs) r += r.empty() ? "as captured" : ", others as captured";
  return r;
}

std::string effects(const OpInfo& i) {
  std::string r;
  for (int b = 0; b < 10; ++b)
    if (i.effects >> b & 1) r += fmt::format("{}{}", r.empty() ? "" : ", ", kEffects[b]);
  return r;
}

// "`name`: attributes", in lines of at most 160 characters.
void print_attributes(const OpInfo& i) {
  std::string line = fmt::format("* `{}`:", i.name);
  std::string text = attributes(i);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(", ", at), text.size() - 1);
    const std::string part = text.substr(at, end + 1 - at);
    if (line.size() + 1 + part.size() > 160) fmt::print("{}\n", line), line = " ";
    line += " " + part;
    at = end + 2;
  }
  fmt::print("{}\n", line);
}

// A column of a family's table, left out where all its operations have nothing to say there.
struct Column {
  const char* head;
  std::string (*text)(const OpInfo&);
};
constexpr Column kColumns[] = {
    {"operation", [](const OpInfo& i) { return fmt::format("`{}`", i.name); }},
    {"operands", [](const OpInfo& i) { return range(i.min_operands, i.max_operands); }},
    {"regions", [](const OpInfo& i) { return i.regions ? range(std::max(i.regions, 0), i.regions) : std::string(); }},
    {"types", [](const OpInfo& i) { return std::string(kRules[static_cast<int>(i.rule)]); }},
    {"effects", effects},
    {"result", [](const OpInfo& i) { return std::string(kResult[static_cast<int>(i.fidelity)]); }},
    {"meaning", [](const OpInfo& i) { return std::string(i.doc); }},
};

void family(int f) {
  std::vector<const OpInfo*> ops;
  for (int k = 0; k < kNumOps; ++k)
    if (const OpInfo& i = info(static_cast<OpCode>(k)); static_cast<int>(i.family) == f) ops.push_back(&i);
  std::vector<Column> columns;
  for (const Column& c : kColumns)
    if (std::any_of(ops.begin(), ops.end(), [&](const OpInfo* i) { return !c.text(*i).empty(); })) columns.push_back(c);
  fmt::print("\n## {}\n\n|", kFamilies[f]);
  for (const Column& c : columns) fmt::print(" {} |", c.head);
  fmt::print("\n|");
  for (size_t k = 0; k < columns.size(); ++k) fmt::print("---|");
  for (const OpInfo* i : ops) {
    fmt::print("\n|");
    for (const Column& c : columns) fmt::print(" {} |", c.text(*i));
  }
  fmt::print("\n");
  if (std::all_of(ops.begin(), ops.end(), [](const OpInfo* i) { return attributes(*i).empty(); })) return;
  fmt::print("\nAttributes:\n\n");
  for (const OpInfo* i : ops)
    if (!attributes(*i).empty()) print_attributes(*i);
}

}  // namespace

int main() {
  static_assert(std::size(kRules) == static_cast<size_t>(TypeRule::While) + 1 &&
                std::size(kRuleDocs) == std::size(kRules));
  fmt::print(
      "# Operations\n\nWritten by `pallasim_op_reference` from the op table ({} operations); do not edit. The grammar "
      "is in "
      "[ir.md](ir.md), which operations run\non which machine in [coverage.md](coverage.md).\n\n"
      "* `types`: the [rule](#type-rules) that gives the types of the results.\n"
      "* `effects`: what else an operation does than give its results.\n"
      "* `result`: `exact`, bit for bit what the operation means; `bounded`, within the bound of "
      "[numerics.md](numerics.md); "
      "`product`, a sum of products,\n  whose order that page says.\n"
      "* An attribute with a `?` may be absent.\n",
      kNumOps);
  for (int f = 0; f <= static_cast<int>(Family::Debug); ++f) family(f);
  fmt::print("\n## Type rules\n\n| rule | result types |\n|---|---|\n");
  for (size_t i = 0; i < std::size(kRules); ++i) fmt::print("| {} | {} |\n", kRules[i], kRuleDocs[i]);
}
