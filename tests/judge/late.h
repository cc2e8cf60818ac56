// Programs of clusters from which something is taken that hardware needs: what they leave depends on when bytes move,
// and checked runs name both lines.
#pragma once
#include <functional>
#include <string>

namespace pallasim::judge {

// The line of the text that begins behind `at`, and where it ends.
std::string line_at(const std::string& text, size_t at);
// Puts ` @n` at the end of the operation that begins at `at`, which may go on on the next line.
void locate(std::string* text, size_t at, int n);
// The text with the lines late.py:10 and late.py:11 that @0 and @1 stand for.
void add_lines(std::string* text);

struct Found {
  int programs = 0, shown = 0, reported = 0;
};

// Of `programs` generated programs those that `late` changes (to a text that is not empty): how many some schedule
// shows another value of, and how many are reported with `code` and both lines.
Found look_for(const std::function<std::string(std::string)>& late, const char* code, uint64_t programs);
// All are reported, and at least `percent` of them shown.
void expect_found(const Found&, int percent);

}  // namespace pallasim::judge
