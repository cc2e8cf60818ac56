// Golden tests of the command line. A case is a file:
//
//   $ pallasim run tests/pass/iota.psir
//   <standard output>
//   --- stderr            (if there is any)
//   <standard error>
//   --- exit 1            (if it is not 0)
//
// and may hold several commands. tests/cli/*.golden are such files; tests/fail/run/NAME.psir with NAME.expected is one
// whose command is `pallasim run` (or the command that NAME.expected begins with); tests/fail/rules has one case per
// rule of a chip, and tests/debug sessions of `pallasim debug`, with their commands in NAME.gdb. Commands run from the
// repository's root; $TMP is a fresh folder, $PALLASIM the binary. PALLASIM_REBASE=1 writes what came instead of
// comparing.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace pallasim::cli {
namespace {
namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

void replace_all(std::string* text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size())
    text->replace(at, from.size(), to);
}

std::string quoted(const std::string& s) {
  std::string r = "'";
  for (char c : s) r += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return r + "'";
}

// What one command did, in the form of a case file. `line` may be a shell pipeline; its first word `pallasim` is the
// binary under test.
std::string transcript(const std::string& line, const fs::path& tmp) {
  const fs::path out = tmp / ".stdout", err = tmp / ".stderr";
  const std::string shell = "cd " + quoted(PALLASIM_SOURCE_DIR) + " && export TMP=" + quoted(tmp.string()) +
                            " PALLASIM=" + quoted(PALLASIM_BINARY) + "; pallasim() { " + quoted(PALLASIM_BINARY) +
                            " \"$@\"; }; { " + line + "; } >" + quoted(out.string()) + " 2>" + quoted(err.string()) +
                            " </dev/null";
  const int status = std::system(shell.c_str());
  std::string text = read(out), errors = read(err);
  std::string r = "$ " + line + "\n" + text;
  if (!text.empty() && text.back() != '\n') r += "\n--- no newline\n";
  if (!errors.empty()) r += "--- stderr\n" + errors;
  if (WIFSIGNALED(status)) r += "--- signal " + std::to_string(WTERMSIG(status)) + "\n";
  else if (WEXITSTATUS(status) != 0) r += "--- exit " + std::to_string(WEXITSTATUS(status)) + "\n";
  replace_all(&r, tmp.string(), "$TMP");
  return r;
}

class Golden : public testing::Test {
 public:
  Golden(fs::path expected, std::string default_command)
      : expected_(std::move(expected)), default_command_(std::move(default_command)) {}

  void TestBody() override {
    const std::string want = fs::exists(expected_) ? read(expected_) : "";
    std::vector<std::string> commands;
    std::stringstream lines(want);
    for (std::string line; std::getline(lines, line);)
      if (line.rfind("$ ", 0) == 0) commands.push_back(line.substr(2));
    if (commands.empty()) commands.push_back(default_command_);
    ASSERT_FALSE(commands[0].empty()) << expected_ << " has no command";

    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    const fs::path tmp = fs::path(testing::TempDir()) /
                         ("pallasim-golden-" + std::string(info->name()) + "-" + std::to_string(getpid()));
    fs::remove_all(tmp);
    fs::create_directories(tmp);
    std::string got;
    for (const std::string& command : commands) got += transcript(command, tmp);
    fs::remove_all(tmp);

    if (std::getenv("PALLASIM_REBASE")) {
      if (got != want) std::ofstream(expected_, std::ios::binary) << got;
      return;
    }
    EXPECT_EQ(got, want) << expected_ << "\nPALLASIM_REBASE=1 writes what came";
    // A crash or an internal error is never what a case is about.
    EXPECT_EQ(got.find("--- signal"), std::string::npos);
    EXPECT_EQ(got.find("PS-BUG-"), std::string::npos);
  }

 private:
  fs::path expected_;
  std::string default_command_;
};

void register_case(const char* suite, const fs::path& expected, const std::string& command) {
  std::string name = expected.stem().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  testing::RegisterTest(suite, name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [=]() -> Golden* { return new Golden(expected, command); });
}

void register_all() {
  const fs::path root = PALLASIM_SOURCE_DIR;
  std::vector<fs::path> files;
  for (const auto& e : fs::directory_iterator(root / "tests" / "cli")) files.push_back(e.path());
  for (const auto& e : fs::directory_iterator(root / "tests" / "debug")) files.push_back(e.path());
  for (const char* folder : {"run", "rules"})
    for (const auto& e : fs::directory_iterator(root / "tests" / "fail" / folder)) files.push_back(e.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& f : files) {
    if (f.extension() == ".golden") register_case(f.parent_path().filename() == "debug" ? "Debug" : "Cli", f, "");
    if (f.extension() != ".psir" || f.parent_path().filename() == "debug") continue;
    fs::path expected = f;
    expected.replace_extension(".expected");
    register_case("FailRun", expected, "pallasim run " + fs::relative(f, root).string());
  }
}

}  // namespace
}  // namespace pallasim::cli

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  pallasim::cli::register_all();
  return RUN_ALL_TESTS();
}
