#include "pallasim/hw/chips.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <stdexcept>

#include "csv.h"
#include "data.h"
#include "pallasim/ir/nearest.h"

namespace pallasim::hw {
namespace {

[[noreturn]] void malformed(const std::string& chip, size_t line, const std::string& what) {
  throw std::runtime_error("chip " + chip + ", line " + std::to_string(line) + ": " + what);
}

struct Need {
  const char* field;
  int64_t Profile::*member;
};
constexpr Need kTpu[] = {{"device_cores", &Profile::device_cores}, {"chip_cores", &Profile::chip_cores},
                         {"generation", &Profile::generation},     {"lanes", &Profile::lanes},
                         {"sublanes", &Profile::sublanes},         {"sparsecores", &Profile::sparsecores}};
constexpr Need kSparseCore[] = {{"subcores", &Profile::subcores},
                                {"subcore_lanes", &Profile::subcore_lanes},
                                {"subcore_vmem_bytes", &Profile::subcore_vmem_bytes},
                                {"subcore_dma_granule", &Profile::subcore_dma_granule}};
constexpr Need kGpu[] = {{"device_cores", &Profile::device_cores},
                         {"warps_per_sm", &Profile::warps_per_sm},
                         {"blocks_per_sm", &Profile::blocks_per_sm},
                         {"threads_per_block", &Profile::threads_per_block},
                         {"regs_per_sm", &Profile::regs_per_sm},
                         {"regs_per_thread", &Profile::regs_per_thread},
                         {"smem_per_sm_bytes", &Profile::smem_per_sm_bytes},
                         {"smem_reserved_bytes", &Profile::smem_reserved_bytes},
                         {"cluster_blocks", &Profile::cluster_blocks}};

const Figure& needed(const Chip& c, std::string_view field) {
  const Figure* f = c.find(field);
  if (!f) throw std::runtime_error("chip " + c.name + " has no " + std::string(field));
  return *f;
}

int64_t integer(const Chip& c, std::string_view field) {
  const Figure& f = needed(c, field);
  if (!f.known) return kUnknown;
  int64_t n = 0;
  const auto [end, error] = std::from_chars(f.text.data(), f.text.data() + f.text.size(), n);
  if (error != std::errc() || end != f.text.data() + f.text.size() || n < 0)
    throw std::runtime_error("chip " + c.name + ": " + f.field + " is no count");
  return n;
}

}  // namespace

const Figure* Chip::find(std::string_view field) const {
  for (const Figure& f : figures)
    if (f.field == field) return &f;
  return nullptr;
}

Chip parse_chip(std::string name, std::string_view csv) {
  Chip chip{std::move(name), {}};
  if (take_csv_line(&csv) != std::vector<std::string>{"field", "value", "unit", "scope", "source", "note"})
    malformed(chip.name, 1, "the header is not field,value,unit,scope,source,note");
  for (size_t line = 2; !csv.empty(); ++line) {
    std::vector<std::string> cells = take_csv_line(&csv);
    if (cells.size() != 6) malformed(chip.name, line, std::to_string(cells.size()) + " cells instead of 6");
    if (chip.find(cells[0])) malformed(chip.name, line, cells[0] + " is given twice");
    for (size_t i : {0, 1, 3, 4})
      if (cells[i].empty()) malformed(chip.name, line, "a figure needs a field, a value, a scope and a source");
    Figure f{cells[0], cells[1], 0, cells[1] != "unknown", cells[2], cells[3], cells[4], cells[5]};
    std::from_chars(f.text.data(), f.text.data() + f.text.size(), f.value);
    chip.figures.push_back(std::move(f));
  }
  return chip;
}

Profile make_profile(const Chip& chip) {
  Profile p;
  p.name = chip.name;
  const std::string& family = needed(chip, "family").text;
  if (family != "tpu" && family != "gpu") throw std::runtime_error("chip " + chip.name + ": no family " + family);
  p.family = family == "tpu" ? Family::Tpu : Family::Gpu;
  p.device_kind = needed(chip, "device_kind").text;
  auto read = [&](const auto& needs) {
    for (const Need& n : needs) p.*n.member = integer(chip, n.field);
  };
  for (const Figure& f : chip.figures)
    if (f.unit == "B") p.bytes.emplace_back(f.field, integer(chip, f.field));
  if (p.family == Family::Tpu) {
    read(kTpu);
    if (p.sparsecores > 0) read(kSparseCore);
  } else {
    p.compute_capability = needed(chip, "compute_capability").text;
    read(kGpu);
    const Figure& sum = needed(chip, "tensor_sum");
    if (sum.known && sum.text != "aligned" && sum.text != "aligned_wide")
      throw std::runtime_error("chip " + chip.name + ": no tensor_sum " + sum.text);
    if (sum.known) p.tensor_sum = sum.text == "aligned" ? TensorSum::Aligned : TensorSum::AlignedWide;
    const Figure& operands = needed(chip, "product_operands");
    if (operands.known && operands.text != "both")
      throw std::runtime_error("chip " + chip.name + ": no product_operands " + operands.text);
    p.holds_both_operands = operands.known;
  }
  return p;
}

int64_t Profile::capacity(std::string_view field) const {
  for (const auto& [name, n] : bytes)
    if (name == field) return n;
  return kUnknown;
}

const std::vector<Chip>& chips() {
  static const std::vector<Chip> all = [] {
    std::vector<Chip> r;
    for (const ChipData& d : kChipData) r.push_back(parse_chip(d.name, d.csv));
    return r;
  }();
  return all;
}

const std::vector<Profile>& profiles() {
  static const std::vector<Profile> all = [] {
    std::vector<Profile> r(1);
    for (const Chip& c : chips()) r.push_back(make_profile(c));
    return r;
  }();
  return all;
}

const Profile& generic() { return profiles().front(); }

const Profile* find_profile(std::string_view name) {
  for (const Profile& p : profiles())
    if (p.name == name) return &p;
  return nullptr;
}

const Chip* find_chip(std::string_view name) {
  for (const Chip& c : chips())
    if (c.name == name) return &c;
  return nullptr;
}

namespace {

// What names of one model have in common: "TPU v5 lite" and "tpu_v5-lite" are both "5lite", "gpu-h100" is "h100".
std::string model_of(std::string_view name) {
  std::string r;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c))) r += static_cast<char>(std::tolower(c));
  for (const std::string_view word : {"nvidia", "google", "gpu", "tpu"})
    if (r.starts_with(word)) r.erase(0, word.size());
  if (r.size() > 1 && r[0] == 'v' && std::isdigit(static_cast<unsigned char>(r[1]))) r.erase(0, 1);
  return r;
}

std::string digits(std::string_view name) {
  std::string r;
  for (const char c : name)
    if (std::isdigit(static_cast<unsigned char>(c))) r += c;
  return r;
}

}  // namespace

std::string_view nearest_chip(std::string_view name) {
  const std::string model = model_of(name);
  if (model.empty() || model.size() > 64) return {};
  for (const auto same : {+[](const std::string&a, const std::string&b) { return a == b; },
                          +[](const std::string&a, const std::string&b) { return a.starts_with(b); },
                          +[](const std::string&a, const std::string&b) { return b.starts_with(a); }})
    for (const bool kind : {false, true})
      for (const Profile& p : profiles())
        if (same(model, model_of(kind ? p.device_kind : p.name))) return p.name;
  for (const Profile& p : profiles())
    if (digits(p.name) == digits(name) && ir::edit_distance(name, p.name, 2) == 1) return p.name;
  return {};
}

}  // namespace pallasim::hw
