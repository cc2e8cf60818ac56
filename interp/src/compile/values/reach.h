// What a body knows of other bodies' threads, and may do with what these have for themselves.
#pragma once
#include <cstdint>
#include <map>

#include "context.h"
#include "value.h"

namespace pallasim::interp {

class Emitter;

// What the threads of other meshes have for themselves, each thread its own.
class Reach {
 public:
  void note(const Val& ref, int body);
  // The body whose threads have what the ref shows, where it is another one; else -1.
  int far_body(const Val& ref) const;

 private:
  std::map<int, int> semaphores_;   // blocks, complemented those of barriers
  std::map<uint32_t, int> memory_;  // buffers
};

// Refuses operations that reach what threads of another mesh have for themselves, but copies and signals that name one
// of these threads, or mean the one at the own coordinates.
void check_reach(const Emitter&, const Op&);

// Whose core `core_index` names: that of the mesh which has the destination, or the semaphore, for itself.
int target_body(Emitter&, const Op&);

}  // namespace pallasim::interp
