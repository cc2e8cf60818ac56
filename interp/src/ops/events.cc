#include "events.h"

namespace pallasim::interp {

Events& Events::nobody() {
  static Events none;
  return none;
}

}  // namespace pallasim::interp
