// docs/steps.md: the kinds of steps, from their table.
#include <fmt/format.h>

#include <cstdio>

#include "../src/plan/kinds.h"

using namespace pallasim::interp;

namespace {

const char* name(Flow f) {
  static constexpr const char* kNames[] = {"next", "next or jump", "jump", "table", "end"};
  return kNames[static_cast<size_t>(f)];
}
const char* name(Definedness d) {
  static constexpr const char* kNames[] = {"-", "movement", "lanewise", "reduction", "contraction", "opaque"};
  return kNames[static_cast<size_t>(d)];
}
const char* name(Visible v) {
  static constexpr const char* kNames[] = {"never", "by its memory", "always"};
  return kNames[static_cast<size_t>(v)];
}
const char* name(Work w) {
  static constexpr const char* kNames[] = {"-", "a scalar", "elements", "bytes", "products", "a message"};
  return kNames[static_cast<size_t>(w)];
}

}  // namespace

int main() {
  fmt::print(
      "# Steps\n\n"
      "What plans are made of, from the rows of interp/src/plan/steps.def; `pallasim info --plan FILE` prints a "
      "kernel's. "
      "For those who work on Pallasim itself.\n\n"
      "* **Goes on**: at the next step, at its jump, at one of a table, or nowhere.\n"
      "* **Undefined elements** travel element by element (movement, lanewise), by rows and columns (contraction), or "
      "make all that\n  is made of them undefined (reduction, opaque).\n"
      "* **Seen by others**: whether another thread can tell when the step runs, so that a schedule has a choice "
      "before it.\n"
      "* **Cost** grows with that.\n\n"
      "| Kind | Given | Goes on | Undefined elements | Seen by others | Waits and signals | Cost |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const KindRow& r : kind_rows())
    fmt::print("| `{}` | {} | {} | {} | {} | {} | {} |\n", r.name,
               std::string_view(r.payload) == "void" ? "-" : fmt::format("`{}`", r.payload), name(r.flow),
               name(r.definedness), name(r.visible),
               r.uses && r.sides ? "starts, signals"
               : r.sides         ? "starts"
               : r.uses          ? "yes"
                                 : "-",
               name(r.work));
  return 0;
}
