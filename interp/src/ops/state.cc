#include "state.h"

namespace pallasim::interp {

std::string difference(const State& a, const State& b) {
  if (a == b) return "";
  if (!(a.semaphores == b.semaphores)) return "semaphores";
  if (!(a.barriers == b.barriers)) return "barriers";
  if (!(a.streams == b.streams)) return "streams";
  if (!(a.copies == b.copies) || a.copies_issued != b.copies_issued) return "copies in flight";
  if (!(a.threads == b.threads)) return "threads";
  if (a.aliases != b.aliases) return "names of buffers";
  if (a.elided != b.elided) return "elided copies";
  if (!(a.turn == b.turn)) return "whose turn it is";
  return "counts";
}

}  // namespace pallasim::interp
