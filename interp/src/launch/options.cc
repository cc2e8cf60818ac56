#include "pallasim/interp/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "pallasim/ir/diagnostic.h"
#include "pallasim/ir/nearest.h"

namespace pallasim::interp {
namespace {

using Kind = OptionRow::Kind;
enum class Key : uint8_t { Plan, Run };

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> r;
  while (!text.empty()) {
    const size_t end = std::min(text.find('|'), text.size());
    r.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return r;
}

// ---- the texts of each type of value; `read` says whether there is such a value ----

bool read(const OptionRow&, std::string_view text, bool* out) {
  *out = text == "1" || text == "true" || text == "True";
  return *out || text == "0" || text == "false" || text == "False";
}
std::string write(const OptionRow&, bool v) { return v ? "true" : "false"; }

template <typename T>
bool number(std::string_view text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}
template <typename T>
requires std::is_integral_v<T>
bool read(const OptionRow& row, std::string_view text, T* out) {
  return number(text, out) && *out >= row.least && *out <= row.most;
}
template <typename T>
requires std::is_integral_v<T> std::string write(const OptionRow&, T v) { return std::to_string(v); }

// Negative seeds are those of the same bits.
bool read(const OptionRow&, std::string_view text, std::optional<uint64_t>* out) {
  int64_t negative = 0;
  uint64_t n = 0;
  if (number(text, &n)) return out->emplace(n), true;
  if (!number(text, &negative)) return false;
  return out->emplace(static_cast<uint64_t>(negative)), true;
}
std::string write(const OptionRow&, const std::optional<uint64_t>& v) { return v ? std::to_string(*v) : ""; }

bool read(const OptionRow&, std::string_view text, std::string* out) {
  if (text.find(';') != std::string_view::npos) return false;  // it would end the option
  return *out = text, true;
}
std::string write(const OptionRow&, const std::string& v) { return v; }

bool read(const OptionRow&, std::string_view text, Options::Chip* out) {
  const hw::Profile* p = hw::find_profile(text);
  return p && (*out = p);
}
std::string write(const OptionRow&, Options::Chip v) { return v ? std::string(v->name) : ""; }

// "2,3,0,1||1,0": axes 0 and 2 permuted, axis 1 ascending.
bool read(const OptionRow&, std::string_view text, Options::GridOrder* out) {
  out->assign(text.empty() ? 0 : 1, {});
  while (!text.empty()) {
    if (text.front() == '|') {
      out->emplace_back();
      text.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(text.find_first_of(",|"), text.size());
    if (!number(text.substr(0, end), &out->back().emplace_back())) return false;
    text.remove_prefix(end < text.size() && text[end] == ',' ? end + 1 : end);
  }
  return true;
}
std::string write(const OptionRow&, const Options::GridOrder& v) {
  std::vector<std::string> axes;
  for (const auto& axis : v) axes.push_back(fmt::format("{}", fmt::join(axis, ",")));
  return fmt::format("{}", fmt::join(axes, "|"));
}

template <typename T>
requires std::is_enum_v<T>
bool read(const OptionRow& row, std::string_view text, T* out) {
  const bool yes = text == "1" || text == "true" || text == "True";
  const bool no = text == "0" || text == "false" || text == "False";
  if (yes || no) {  // of a choice that can be off
    const bool can = std::find(row.values.begin(), row.values.end(), "off") != row.values.end();
    const auto on = std::find_if(row.values.begin(), row.values.end(), [](auto v) { return v != "off"; });
    return can && read(row, no ? "off" : row.default_text != "off" ? std::string_view(row.default_text) : *on, out);
  }
  const auto it = std::find(row.values.begin(), row.values.end(), text);
  *out = static_cast<T>(it - row.values.begin());
  return it != row.values.end();
}
template <typename T>
requires std::is_enum_v<T> std::string write(const OptionRow& row, T v) {
  return std::string(row.values[static_cast<size_t>(v)]);
}

// ---- the table ----

template <typename T>
constexpr std::string_view kValues = "";
#define PALLASIM_CHOICE(type, values, ...) \
  template <>                              \
  constexpr std::string_view kValues<Options::type> = values;
#define PALLASIM_CHOICE_OF PALLASIM_CHOICE
#include "pallasim/interp/options.def"

template <typename T>
constexpr Kind kind_of() {
  if (std::is_same_v<T, bool>) return Kind::Flag;
  if (std::is_enum_v<T>) return Kind::Choice;
  if (std::is_integral_v<T>) return Kind::Number;
  if (std::is_same_v<T, Options::Chip>) return Kind::Chip;
  if (std::is_same_v<T, Options::GridOrder>) return Kind::Order;
  return std::is_same_v<T, std::optional<uint64_t>> ? Kind::MaybeNumber : Kind::Text;
}

struct OptionAccess {
  bool (*set)(const OptionRow&, Options&, std::string_view);
  std::string (*get)(const OptionRow&, const Options&);
};
constexpr OptionAccess kAccess[] = {
#define PALLASIM_OPTION(type, field, ...)                                  \
  {[](const OptionRow& row, Options& o, std::string_view text) {           \
     auto value = o.field;                                                 \
     return read(row, text, &value) && (o.field = std::move(value), true); \
   },                                                                      \
   [](const OptionRow& row, const Options& o) { return write(row, o.field); }},
#include "pallasim/interp/options.def"
};

std::vector<OptionRow> make_rows() {
  using Options_ = Options;
  std::vector<OptionRow> rows = {
#define PALLASIM_OPTION(type, field, value, key, name, spellings, least, most, placeholder, group, help, doc) \
  OptionRow{name,                                                                                             \
            words(spellings),                                                                                 \
            kind_of<decltype(Options_::field)>(),                                                             \
            words(kValues<decltype(Options_::field)>),                                                        \
            "",                                                                                               \
            least,                                                                                            \
            most,                                                                                             \
            Key::key == Key::Plan,                                                                            \
            placeholder,                                                                                      \
            group,                                                                                            \
            help,                                                                                             \
            doc},
#include "pallasim/interp/options.def"
  };
  const Options defaults;
  for (size_t i = 0; i < rows.size(); ++i) rows[i].default_text = kAccess[i].get(rows[i], defaults);
  return rows;
}

const std::vector<OptionRow>& rows() {
  static const std::vector<OptionRow>& r = *new std::vector<OptionRow>(make_rows());
  return r;
}

const OptionAccess& access(const OptionRow& row) { return kAccess[&row - rows().data()]; }

}  // namespace

std::span<const OptionRow> option_rows() { return rows(); }

std::string allowed(const OptionRow& row) {
  if (row.kind == Kind::Flag) return "true or false";
  if (row.kind == Kind::Choice)
    return fmt::format("{} or {}", fmt::join(row.values.begin(), row.values.end() - 1, ", "), row.values.back());
  if (row.kind == Kind::MaybeNumber) return "an integer";
  if (row.kind == Kind::Number)
    return row.most == INT64_MAX ? fmt::format("an integer, at least {}", row.least)
                                 : fmt::format("an integer from {} to {}", row.least, row.most);
  if (row.kind == Kind::Chip) {
    std::vector<std::string_view> names;
    for (const hw::Profile& p : hw::profiles()) names.push_back(p.name);
    return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
  }
  if (row.kind == Kind::Order) return "coordinates of each axis, such as 2,0,1||1,0";
  return "text without a semicolon";
}

std::string nearest_value(const OptionRow& row, std::string_view text) {
  if (row.kind == Kind::Chip) return std::string(hw::nearest_chip(text));
  if (row.kind == Kind::Flag) return std::string(ir::nearest(text, {"true", "false"}));
  return std::string(ir::nearest(text, row.values));
}

const OptionRow* find_option(std::string_view name) {
  for (const OptionRow& row : rows())
    if (row.name == name || std::find(row.spellings.begin(), row.spellings.end(), name) != row.spellings.end())
      return &row;
  return nullptr;
}

void set_option(Options& o, std::string_view name, std::string_view value) {
  const OptionRow* row = find_option(name);
  if (!row) {
    std::vector<std::string_view> names;
    for (const OptionRow& r : rows()) names.push_back(r.name);
    ir::Diagnostic("PS-OPT-001", fmt::format("there is no option '{}'", name))
        .hinted(ir::did_you_mean(name, names))
        .raise();
  }
  if (access(*row).set(*row, o, value)) return;
  const std::string meant = nearest_value(*row, value);
  ir::Diagnostic("PS-OPT-001", fmt::format("option '{}' has no value '{}'", name, value))
      .with({"it is " + allowed(*row)})
      .hinted(meant.empty() ? "" : fmt::format("did you mean '{}'?", meant))
      .raise();
}

std::string option_text(const Options& o, const OptionRow& row) { return access(row).get(row, o); }

std::string to_text(const Options& o) {
  std::string r;
  for (const OptionRow& row : rows())
    if (const std::string value = option_text(o, row); value != row.default_text)
      r += fmt::format("{}{}={}", r.empty() ? "" : ";", row.name, value);
  return r;
}

Options parse_options(std::string_view text) {
  Options o;
  bool random = false;
  std::string_view seed = "0";
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view item = text.substr(0, end);
    const size_t eq = std::min(item.find('='), item.size());
    const std::string_view name = item.substr(0, eq), value = item.substr(std::min(eq + 1, item.size()));
    // Capsules of the first versions: "policy=random;seed=7".
    if (name == "policy") random = value == "random";
    else if (name == "seed") seed = value;
    else set_option(o, name, value);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (random) set_option(o, "random_seed", seed);
  return o;
}

std::string plan_key(const PlanOptions& of_plan) {
  Options o;
  static_cast<PlanOptions&>(o) = of_plan;
  std::string key;
  for (const OptionRow& row : rows())
    if (row.in_plan) key += option_text(o, row) + ";";
  for (const std::string& pass : o.without) key += "-" + pass + ";";
  if (of_plan.keeps_values) key += "values;";
  return key + (o.model ? fmt::format("{}|", static_cast<const void*>(o.model)) : "|");
}

}  // namespace pallasim::interp
