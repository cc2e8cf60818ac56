// The launches of a file, one at a time: that of a kernel with operands from the command line, or those of a capsule.
#pragma once
#include <functional>
#include <string>

#include "commands.h"

namespace pallasim::cli {

// That of a kernel's text, with operands from the command line, alike on all of its devices.
Launch kernel_launch(const RunOptions&, const std::string& text, const interp::Options&);

// `adapt`: the options of a launch, which are those of the recording and what the command line says.
void each_launch(const RunOptions&, const std::function<interp::Options(interp::Options)>& adapt,
                 const std::function<void(Launch&)>&);

// A launch of a capsule that a command line asks for: its place in the list. Throws PS-CLI-001.
void require_launch(const RunOptions&, const Capsule&);

}  // namespace pallasim::cli
