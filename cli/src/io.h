// Files, arrays and capsules by their short names.
#pragma once
#include "pallasim/capsule/exit_code.h"
#include "pallasim/capsule/files.h"

namespace pallasim::cli {
using namespace capsule;
}
