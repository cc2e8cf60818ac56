// Suggestions for misspelt commands and options, and completion for shells.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace pallasim::cli {

bool is_command(const ::CLI::App&, const std::string& name);

// The command or option that the first unknown one of `words` (the command line without the program) is nearest to;
// empty where none is near.
std::string meant(const ::CLI::App&, const std::vector<std::string>& words);

// What the parser says ("--machine: x is not ...") with the spelling of the option that was given, such as --chip.
std::string as_given(std::string what, const std::vector<std::string>& given);

// A script for bash, zsh or fish that completes commands, options and files.
std::string completion(const ::CLI::App&, const std::string& shell);

}  // namespace pallasim::cli
