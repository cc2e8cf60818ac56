// Files, standard input, and text that a terminal may show.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pallasim/ir/diagnostic.h"
#include "pallasim/ir/escape.h"

namespace pallasim::capsule {

[[noreturn]] void fail(ir::Code code, std::string message, std::vector<std::string> numbers = {},
                       std::string hint = {});

// The whole file, "-" being standard input. Throws PS-IO-001 (cannot be read) and PS-IO-003 (longer than `limit`, or
// for what begins as a zip archive than `zip_limit`, if that is more).
std::string read_input(const std::string& path, int64_t limit, int64_t zip_limit = 0);
// Throws PS-IO-002. A file that exists is replaced at once or not at all.
void write_file(const std::string& path, std::string_view bytes);
void make_directory(const std::string& path);

using ir::escaped;
// A file name made of an operand's name: no separators, no leading dot.
std::string safe_file_name(std::string_view name);
std::string human_bytes(int64_t bytes);

}  // namespace pallasim::capsule
