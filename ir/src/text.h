// Small text helpers of the parser, the printer and the diagnostics.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace pallasim::ir {

// Appends `s` as a JSON string with its quotes; bytes from 0x20 up stay as they are.
void append_json_string(std::string& out, std::string_view s);
std::string quoted(std::string_view s);

// Appends the code point in UTF-8.
void append_utf8(std::string& out, uint32_t code_point);

// Length of the well-formed UTF-8 sequence at the start of `s`, 0 when it is malformed.
int utf8_length(std::string_view s);

// [A-Za-z_][A-Za-z0-9_]*
bool is_name(std::string_view s);

// "1 result", "2 results", "3 entries"
std::string plural(int64_t n, std::string_view noun);

}  // namespace pallasim::ir
