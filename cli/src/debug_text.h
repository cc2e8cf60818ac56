// What a debugger shows, as text.
#pragma once
#include <string>

#include "pallasim/interp/debug.h"

namespace pallasim::cli {

std::string trimmed(const std::string&);                // without blanks around it
std::string debug_type(const interp::DebugValue&);      // "f32[8,128]", "" for a scalar that is a number
std::string debug_summary(const interp::DebugValue&);   // one line: type, statistics, or the scalar itself
std::string debug_elements(const interp::DebugValue&);  // a corner of the array, in lines; a scalar
std::string debug_element(const interp::DebugValue&, size_t i);
std::string debug_point(const std::vector<int64_t>&);  // "(0, 1)"
// A source line: of the file if it is there and is the one that was captured, else as the capsule quotes it.
std::string debug_source(const interp::Debugger&, const std::string& file, int line);

}  // namespace pallasim::cli
