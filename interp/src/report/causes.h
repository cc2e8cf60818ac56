// One cause, one report: what a launch found, in the order in which it is worth reading.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "pallasim/interp/launch.h"
#include "pallasim/ir/diagnostic.h"

namespace pallasim::interp {

// What findings may share (ir::Diagnostic::about).
std::string about_ref(std::string_view name);
std::string about_semaphores(int block);
std::string about_barriers(int block);
std::string about_axis(size_t axis);                                          // of the grid
inline constexpr std::string_view kWrongCount = "barriers of a wrong count";  // of a deadlock: races follow from that

// "a", "a and b", "a, b and c", "a, b, c and 3 more".
std::string listed(const std::vector<std::string>&, size_t most = 6);
// "file:line" of a site, as reports name a second place within a line.
std::string where(const ir::Site&);

// Warnings before notes, reasons before what follows from them. What follows from another finding, or from the error
// that stopped the launch, is no report of its own: it becomes a line of its reason's, so that nothing is hidden. So
// does what differs from another in the thread or the device alone.
std::vector<ir::Diagnostic> by_cause(std::vector<ir::Diagnostic> findings, ir::Diagnostic* stop = nullptr);

// The end of a launch: every finding, and what stopped it, has a line and lies with its cause.
void conclude(const ir::Module&, const ir::LocTable&, Outcome*);

}  // namespace pallasim::interp
