// Options of a run: the rows of options.def.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pallasim/hw/chips.h"
#include "pallasim/memory/async.h"
#include "pallasim/memory/uninitialized.h"

namespace pallasim::hw {
struct MachineModel;
}

namespace pallasim::interp {

// What values options have, besides numbers, flags and texts.
struct OptionTypes {
  using Chip = const hw::Profile*;  // of hw::profiles()
  // Per grid axis a permutation of its coordinates, empty for ascending ones; no entry at all: every axis ascends. The
  // grid then runs in one piece, in the order of the permuted axes.
  using GridOrder = std::vector<std::vector<int32_t>>;
#define PALLASIM_CHOICE(type, values, ...) enum class type : uint8_t { __VA_ARGS__ };
#define PALLASIM_CHOICE_OF(type, values, enumeration) using type = enumeration;
#include "pallasim/interp/options.def"
  bool operator==(const OptionTypes&) const = default;
};

// What shapes a plan: those that have equal ones share it. What each one means stands in its row.
struct PlanOptions : OptionTypes {
#define PALLASIM_FIELD_Plan(type, field, value) type field = value;
#define PALLASIM_FIELD_Run(type, field, value)
#define PALLASIM_OPTION(type, field, value, key, ...) PALLASIM_FIELD_##key(type, field, value)
#include "pallasim/interp/options.def"
#undef PALLASIM_FIELD_Plan
#undef PALLASIM_FIELD_Run

  // Not null: the machine that the kernel runs on instead of the one that its module names. It outlives the plans. For
  // machines that no module can name, which is why it is no row.
  const hw::MachineModel* model = nullptr;
  // For debuggers: each operation is a stop of its own, and what it makes lies in memory of its own from then on. No
  // row: debug.h sets it.
  bool keeps_values = false;
  // Names of passes (passes.h) that are left out, for those who look for what one of them does.
  std::vector<std::string> without;

  // Whether steps may stand for several operations in ways that nobody who watches accesses could follow.
  bool rewrites() const { return fuse && !keeps_values && !checked && !verify_split; }
  bool operator==(const PlanOptions&) const = default;
};

// How a plan is run.
struct RunOptions : OptionTypes {
#define PALLASIM_FIELD_Plan(type, field, value)
#define PALLASIM_FIELD_Run(type, field, value) type field = value;
#define PALLASIM_OPTION(type, field, value, key, ...) PALLASIM_FIELD_##key(type, field, value)
#include "pallasim/interp/options.def"
#undef PALLASIM_FIELD_Plan
#undef PALLASIM_FIELD_Run

  // How threads follow each other: as a token says, at random, or each until it blocks.
  enum class Policy : uint8_t { RunToBlock, Random, Replay };
  Policy policy() const {
    if (!replay.empty()) return Policy::Replay;
    return random_seed ? Policy::Random : Policy::RunToBlock;
  }
  bool operator==(const RunOptions&) const = default;
};

struct Options : PlanOptions, RunOptions {
  bool operator==(const Options&) const = default;
};

// A row, for those who ask people for options.
struct OptionRow {
  enum class Kind : uint8_t { Flag, Choice, Number, MaybeNumber, Text, Chip, Order };
  std::string_view name;
  std::vector<std::string_view> spellings;  // further ones
  Kind kind;
  std::vector<std::string_view> values;  // of a choice
  std::string default_text;              // empty: none
  int64_t least, most;                   // of numbers
  bool in_plan;
  std::string_view placeholder, group, help, doc;
};
std::span<const OptionRow> option_rows();
// What values it has: "true or false", "an integer from 0 to 1024".
std::string allowed(const OptionRow&);
// Which of its values somebody meant by a text that is none, empty where nobody knows.
std::string nearest_value(const OptionRow&, std::string_view text);
// By name or spelling; null for none.
const OptionRow* find_option(std::string_view name);

// Throws DiagnosticError (PS-OPT-001) for a name that no row has, or a value that it cannot have.
void set_option(Options&, std::string_view name, std::string_view value);
std::string option_text(const Options&, const OptionRow&);

// "detect_races=true;random_seed=7", of those that are not their defaults: what capsules and executables keep.
std::string to_text(const Options&);
// Reads that, and the spellings of older versions. Throws as set_option does.
Options parse_options(std::string_view text);
// Equal for options that may share a plan.
std::string plan_key(const PlanOptions&);

}  // namespace pallasim::interp
