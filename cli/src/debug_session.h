// `pallasim debug` at a terminal or from a file: gdb's and pdb's words.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "debug_picture.h"
#include "debug_target.h"

namespace pallasim::cli {

class DebugSession {
 public:
  DebugSession(std::unique_ptr<interp::Debugger>, std::function<void(const std::string&)> print,
               Colours colours = Colours::None);
  // Where it stands at the start.
  void greet();
  // One line of commands; an empty one repeats the last. False: the session is over.
  bool command(const std::string& line);
  // Words that may follow what was typed, for completion.
  std::vector<std::string> completions(const std::string& word) const;
  interp::Debugger& debugger() { return *d_; }

 private:
  struct Row {
    const char *names, *arguments, *help;  // names: the first is the whole word
    void (DebugSession::*run)(const std::string& rest);
  };
  static const std::vector<Row>& rows();
  static const Row* find(const std::string& word);
  void say(const std::string& line) { print_(line + "\n"); }
  void show(const interp::DebugStop&);
  void show_place();
  void show_end();
  void show_new_prints();

  void do_break(const std::string&);
  void do_watch(const std::string&);
  void do_rwatch(const std::string&);
  void do_awatch(const std::string&);
  void do_nan(const std::string&);
  void do_undefined(const std::string&);
  void add_watch(const std::string&, interp::Debugger::Watch);
  void do_catch(const std::string&);
  void do_delete(const std::string&);
  void do_info(const std::string&);
  void do_run(const std::string&);
  void do_continue(const std::string&);
  void do_step(const std::string&);
  void do_next(const std::string&);
  void do_stepi(const std::string&);
  void do_finish(const std::string&);
  void do_reverse_step(const std::string&);
  void do_reverse_next(const std::string&);
  void do_reverse_stepi(const std::string&);
  void do_reverse_finish(const std::string&);
  void do_reverse_continue(const std::string&);
  void do_last_write(const std::string&);
  void do_print(const std::string&);
  void do_picture(const std::string&);
  void do_where(const std::string&);
  void do_list(const std::string&);
  void do_thread(const std::string&);
  void do_frame(const std::string&);
  void do_up(const std::string&);
  void do_down(const std::string&);
  void do_help(const std::string&);
  void do_quit(const std::string&);
  void info_threads();
  void info_memory();
  void times(const std::string& rest, const std::function<interp::DebugStop()>& once);

  std::unique_ptr<interp::Debugger> d_;
  std::function<void(const std::string&)> print_;
  Colours colours_;
  std::string last_;
  size_t prints_ = 0;  // that were shown
  int listed_ = 0;     // the line behind the last one that `list` showed
  bool over_ = false;
};

}  // namespace pallasim::cli
