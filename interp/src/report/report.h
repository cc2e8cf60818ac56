// Findings in words: what reports of several kinds share.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "../ops/execution.h"

namespace pallasim::interp {

// The diagnostic of a step of a thread: kernel, line, thread, grid point.
ir::Diagnostic diagnostic_at(const Thread&, ir::LocId, ir::Code, std::string message);
ir::Diagnostic diagnostic_at(const Thread&, const Step*, ir::Code, std::string message);
// Throws it.
[[noreturn]] void fail(const Thread&, ir::LocId, ir::Code, std::string message, std::vector<std::string> numbers = {},
                       std::string hint = {});
[[noreturn]] void fail(const Thread&, const Step*, ir::Code, std::string message, std::vector<std::string> numbers = {},
                       std::string hint = {});
// PS-SIZE-001: what a checked run remembers of `what` exceeds Options::max_memory.
[[noreturn]] void too_much_remembered(const Execution&, const std::string& what, int64_t bytes);
// "thread 3"; of several devices "device 1" or "thread 3 of device 1".
std::string name_of(const Thread&);
// "CTA x=1": the core that the thread belongs to.
std::string core_name(const Thread&);
std::string core_name(const Thread&, int64_t program);  // when it was of that program
// "trip 3 of the loop at k.py:12": of the counted loops around a step, the outermost first, in which the thread is now;
// "" where there is none.
std::string trip_of(const Thread&, const Step&);
// The counted loops around a step, the innermost first.
std::vector<const Step*> loops_around(const Plan&, const Step&);
// "(2, 3)": where the element lies in an array, row-major.
std::string index_text(int64_t element, const std::vector<int64_t>& dims);
// "thread 1 waits for go to reach 1, it is 0 (k.py:7)", of a thread that is blocked.
std::string waits_for(const Execution&, const Thread&);
// Whether a launch came to its end: there is a thread, and all are done.
bool all_ended(const Execution&);
// "file:line" of a location.
std::string where(const Execution&, ir::LocId);
// "bars[3] of thread 1": a semaphore or a barrier, as users know its owner; `block` receives its block, -1 none.
std::string object_name(const Execution&, Wait::Kind, int64_t id, int* block = nullptr);
// "1 of 2 arrived, 512 bytes are due".
std::string barrier_state(const memory::Barrier&);
// "bars[0] was made for 1 arrival (k.py:30); 2 threads arrived, 5 times in all (k.py:41)".
std::string barrier_made(const Execution&, int64_t barrier);
// ": 2 per SM, limited by warps (32 of 64 warps)": what keeps further programs out; "" where nobody knows.
std::string limited_by(const Execution&);
// Programs of all devices, and those that have not begun.
inline int64_t programs_of(const Execution& ex) { return ex.points * ex.devices; }
inline int64_t unstarted_programs(const Execution& ex) {
  int64_t n = 0;
  for (const int64_t next : ex.next_points) n += ex.points - next;
  return n;
}
// Of a launch that made an infinity: NaNs that infinities became are no findings of their own.
void drop_followers(std::vector<ir::Diagnostic>* findings);
// Who signals the semaphores of these blocks, a line each.
std::vector<std::string> signallers(const Execution&, const std::set<int>& blocks);

}  // namespace pallasim::interp
