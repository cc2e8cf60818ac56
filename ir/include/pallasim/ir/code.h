// Codes of diagnostics: the rows of diagnostics.def.
#pragma once
#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

namespace pallasim::ir {

enum class Severity : uint8_t { Error, Warning, Note };
std::string_view name(Severity);  // "error"

// Who has to change something.
enum class Blame : uint8_t { Kernel, Chip, Input, CommandLine, Unsupported, Interrupt, Pallasim };

enum class CodeFamily : uint8_t {  // kOOB; <cmath> has a macro of the name NAN
#define PALLASIM_FAMILY(family, blame) k##family,
#include "pallasim/ir/diagnostics.def"
};

struct CodeRow {
  std::string_view text;  // PS-OOB-001
  CodeFamily family;
  Severity severity;  // of reports, unless who makes one decides
  std::string_view title;
};
inline constexpr CodeRow kCodes[] = {
#define PALLASIM_DIAGNOSTIC(family, number, severity, title) \
  {"PS-" #family "-" #number, CodeFamily::k##family, Severity::severity, title},
#include "pallasim/ir/diagnostics.def"
};
inline constexpr Blame kBlames[] = {
#define PALLASIM_FAMILY(family, blame) Blame::blame,
#include "pallasim/ir/diagnostics.def"
};

// One of them. A code stands in the source as its text, "PS-OOB-001"; one that the table lacks does not compile.
class Code {
 public:
  consteval Code(const char* text) : row_(require(text)) {}  // NOLINT(google-explicit-constructor)
  static std::optional<Code> find(std::string_view text);    // for text of users and files

  constexpr std::string_view text() const { return row().text; }
  constexpr std::string_view title() const { return row().title; }
  constexpr CodeFamily family() const { return row().family; }
  constexpr Severity severity() const { return row().severity; }
  constexpr Blame blame() const { return kBlames[static_cast<size_t>(row().family)]; }
  // Text of a module that could not be read, as opposed to one that is wrong.
  constexpr bool of_unread_text() const { return row().family == CodeFamily::kIR && row().text < "PS-IR-100"; }
  constexpr bool is(Code c) const { return row_ == c.row_; }

  operator std::string_view() const { return text(); }  // NOLINT(google-explicit-constructor)
  template <std::same_as<Code> C>
  friend constexpr bool operator==(C a, C b) {
    return a.row_ == b.row_;
  }
  friend constexpr bool operator==(Code a, std::string_view b) { return a.text() == b; }

 private:
  constexpr explicit Code(size_t row) : row_(static_cast<uint16_t>(row)) {}
  static constexpr size_t find_row(std::string_view text) {
    for (size_t i = 0; i < std::size(kCodes); ++i)
      if (kCodes[i].text == text) return i;
    return std::size(kCodes);
  }
  static consteval uint16_t require(std::string_view text) {
    const size_t row = find_row(text);
    if (row == std::size(kCodes)) throw "diagnostics.def has no such code";
    return static_cast<uint16_t>(row);
  }
  constexpr const CodeRow& row() const { return kCodes[row_]; }
  uint16_t row_;
};

}  // namespace pallasim::ir
