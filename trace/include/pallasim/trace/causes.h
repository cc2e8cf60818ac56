// One cause, one report: the findings of a launch in the order in which they are worth reading.
#pragma once
#include <vector>

#include "pallasim/ir/diagnostic.h"
#include "pallasim/ir/module.h"

namespace pallasim::trace {

// Warnings before notes, reasons before what follows from them. A false `parallel` claim (PS-PAR) at the line that
// reads memory which nobody wrote (PS-UNINIT-001) is no report of its own, nor is such a read at one side of a race
// (PS-RACE), nor a race at the line of a claim: it becomes a line of its reason's report, so that nothing is hidden.
// Findings without a location stay as they are.
std::vector<ir::Diagnostic> by_cause(std::vector<ir::Diagnostic> findings);

// A finding about a launch as a whole (memory, unwritten outputs, what its compiler refuses) has the line that launches
// it, where the module's attribute `call` says which location that is.
void place(ir::Diagnostic&, const ir::Module&);

}  // namespace pallasim::trace
