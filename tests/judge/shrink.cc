#include "judge.h"
namespace pallasim::judge {
Case shrink(const Case& c, const Verdict&) { return c; }
}  // namespace pallasim::judge
