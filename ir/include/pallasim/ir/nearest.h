// What somebody may have meant who wrote a word that is none: one rule for files, command lines and Python.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace pallasim::ir {

// Insertions, deletions, swaps of neighbours and substitutions, at the price given, that make one word of the other.
size_t edit_distance(std::string_view a, std::string_view b, size_t substitution = 1);

// The candidate that fewest changes make of `word`, in capitals or not; empty where more than a third of it changes.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

// "did you mean 'x'?" or empty.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace pallasim::ir
