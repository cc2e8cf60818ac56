// Accesses that meet, in words.
#pragma once
#include <string>
#include <vector>

#include "../plan/kinds.h"
#include "instances.h"

namespace pallasim::interp {

// "the first is (0, 0), the last (7, 127)": elements of what the kernel knows the bytes as; "" where that is no array.
std::string elements_text(const Plan&, uint32_t buffer, memory::shadow::Range bytes);
// "rows[15]": the element at a place, as the kernel writes it; "" where that is no array with a name.
std::string element_name(const Plan&, uint32_t buffer, int64_t offset);
// Where a copy goes: in words when somebody asks, or at once where a thread may be another program's by then.
struct CopyWay {
  CopyWay(const Execution&, const memory::AsyncOperation&, const memory::Side& receiver);
  std::string text(const Execution&) const;  // "from x_ref of device 0 to o_ref of device 1"
  int32_t step;
  memory::Place src, dst;
  std::string said;
};
// The semaphores and barriers that a step signals or takes from, as Diagnostic::about names them.
std::vector<std::string> about_sync(const Step&);

// A finding, and what it has in common with others of the same cause.
struct Meeting {
  ir::Diagnostic found;
  std::vector<std::string> keys;
};
// One report for those that share a key, directly or by others: the first one, with a line for each place of the
// others.
std::vector<ir::Diagnostic> joined(std::vector<Meeting>);
// Of a race of two writes that left the same bytes whenever they met: a note.
ir::Diagnostic the_same(ir::Diagnostic race);

}  // namespace pallasim::interp
