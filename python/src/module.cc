// The extension module pallasim._core: text tools, direct launches, handlers for XLA, reports.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "breakpoints.h"
#include "explore.h"
#include "ffi.h"
#include "inspect.h"
#include "launch_call.h"
#include "pallasim/ir/module.h"
#include "predict.h"
#include "progress.h"
#include "recording.h"
#include "replay.h"
#include "reports.h"
#include "sarif.h"
#include "tables.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pallasim::python {
namespace {

// "" when the text parses and verifies, else the report.
std::string check(const std::string& text, const std::string& file) {
  try {
    ir::verify(ir::parse(text, file));
    return {};
  } catch (const ir::DiagnosticError& e) { return e.what(); }
}

std::string fmt_text(const std::string& text, bool literals, bool locations) {
  return ir::print(ir::parse(text), {.literal_comments = literals, .locations = locations});
}

using Described = std::tuple<std::string, std::vector<int64_t>>;  // dtype, dims
std::vector<Described> describe(const std::vector<Program::Shape>& shapes) {
  std::vector<Described> r;
  for (const Program::Shape& s : shapes) r.emplace_back(std::string(ir::name(s.dtype)), s.dims);
  return r;
}

using Array = std::tuple<uintptr_t, std::string, std::vector<int64_t>>;  // address, dtype, dims
std::vector<interp::Buffer> buffers(const std::vector<Array>& arrays) {
  std::vector<interp::Buffer> r;
  for (const auto& [address, dtype, dims] : arrays) {
    interp::Buffer b;
    b.data = reinterpret_cast<void*>(address);
    if (!ir::parse_dtype(dtype, &b.dtype)) throw nb::value_error(("unknown element type " + dtype).c_str());
    b.dims = dims;
    r.push_back(std::move(b));
  }
  return r;
}

void run(const std::string& text, const std::string& options, const std::vector<Array>& args,
         const std::vector<Array>& results, const std::string& settings) {
  const std::vector<interp::Buffer> in = buffers(args), out = buffers(results);
  nb::gil_scoped_release unlocked;
  const interp::DeviceCall call{0, in, out};
  Program::make(text, options, settings)->run(std::span(&call, 1));
}

nb::dict source_dict(const ir::SourceLine& s) {
  nb::dict d;
  d["file"] = s.file;
  d["line"] = s.line;
  d["column"] = s.column;
  d["function"] = s.function;
  d["text"] = s.text;
  return d;
}

nb::dict site_dict(const ir::Site& s) {
  nb::dict d = source_dict(s.source);
  d["what"] = s.what;
  nb::list callers;
  for (const ir::SourceLine& c : s.callers) callers.append(source_dict(c));
  d["callers"] = callers;
  d["scope"] = s.scope;
  return d;
}

nb::dict finding_dict(const ir::Diagnostic& f) {
  nb::dict d;
  d["code"] = f.code.text();
  d["severity"] = ir::name(f.severity);
  d["message"] = f.message;
  d["kernel"] = f.kernel;
  d["chip"] = f.chip;
  d["thread"] = f.thread;
  if (f.has_grid_point) {
    nb::list point;
    for (int64_t i : f.grid_point) point.append(i);
    d["grid_point"] = nb::tuple(point);
  } else {
    d["grid_point"] = nb::none();
  }
  d["site"] = site_dict(f.site);
  nb::list also;
  for (const ir::Site& s : f.also) also.append(site_dict(s));
  d["also"] = also;
  d["numbers"] = f.numbers;
  d["hint"] = f.hint;
  d["report"] = ir::render(f);
  return d;
}

using Line = std::tuple<std::string, int, int, std::string, std::string>;  // file, line, column, function, text
// An error that Python found before there was a module.
nb::dict diagnostic(const std::string& code, const std::string& message, const std::string& kernel, const Line& line,
                    std::vector<std::string> numbers, const std::string& hint, const std::string& chip) {
  const std::optional<ir::Code> known = ir::Code::find(code);
  if (!known) throw nb::value_error(("there is no code " + code).c_str());
  const auto& [file, number, column, function, text] = line;
  ir::Diagnostic d = ir::Diagnostic(*known, message)
                         .of(kernel)
                         .at({.what = {}, .source = {file, number, column, function, text}, .callers = {}, .scope = {}})
                         .with(std::move(numbers))
                         .hinted(hint);
  d.chip = chip;
  return finding_dict(d);
}

nb::list finding_dicts(const std::vector<ir::Diagnostic>& findings) {
  nb::list r;
  for (const ir::Diagnostic& f : findings) r.append(finding_dict(f));
  return r;
}

nb::dict run_dict(const Run& r) {
  nb::dict d;
  d["number"] = r.number;
  d["kernel"] = r.kernel;
  d["chip"] = r.chip;
  d["seconds"] = r.seconds;
  d["planned"] = r.planned;
  d["plan_seconds"] = r.plan_seconds;
  d["time"] = r.time.empty() ? nb::object(nb::none()) : nb::object(nb::str(r.time.c_str()));
  d["token"] = r.token;
  d["steps"] = r.steps;
  d["grid_points"] = r.grid_points;
  d["threads"] = r.threads;
  d["units"] = r.units;
  d["races"] = r.races;
  d["checked"] = r.checked;
  d["failed"] = r.failed;
  d["findings"] = finding_dicts(r.findings);
  nb::list traffic;
  for (const interp::Traffic& t : r.traffic) {
    nb::dict e;
    e["name"] = t.name;
    e["reads"] = t.reads;
    e["writes"] = t.writes;
    e["bytes_read"] = t.bytes_read;
    e["bytes_written"] = t.bytes_written;
    e["space"] = t.space;
    e["fetches"] = t.fetches;
    e["write_backs"] = t.write_backs;
    e["bytes_fetched"] = t.bytes_fetched;
    e["bytes_written_back"] = t.bytes_written_back;
    traffic.append(e);
  }
  d["traffic"] = traffic;
  return d;
}

// Python looks for signals where a function of its own begins, before any statement of it could notice: __exit__ is
// none.
void leave(nb::handle block, nb::handle, nb::handle error, nb::handle) {
  if (PyErr_CheckSignals() == 0) {
    block.attr("_left")(error);
    return;
  }
  nb::python_error interrupt;
  block.attr("_left")(interrupt.value());
  interrupt.restore();
  nb::raise_python_error();
}

nb::object* g_told = nullptr;

// In the launch's thread, which may hold the interpreter's lock or not.
void tell_python(const std::vector<ir::Diagnostic>& findings) {
  nb::gil_scoped_acquire locked;
  try {
    (*g_told)(finding_dicts(findings));
  } catch (nb::python_error& e) { e.discard_as_unraisable("telling what a kernel did wrong"); }
}

nb::tuple host_call(const interp::HostCall& c) {
  nb::list arguments;
  for (const interp::HostCall::Array& a : c.arguments)
    arguments.append(nb::make_tuple(std::string(ir::name(a.dtype)), a.dims, nb::bytes(a.bytes.data(), a.bytes.size())));
  return nb::make_tuple(c.callback, arguments);
}

nb::object* g_stopped = nullptr;

// In the launch's thread, as tell_python.
std::string stop_in_python(int64_t number, const interp::HostCall& call, const ir::Diagnostic& where) {
  nb::gil_scoped_acquire locked;
  try {
    return nb::cast<std::string>((*g_stopped)(number, host_call(call), finding_dict(where)));
  } catch (nb::python_error& e) {
    std::string what = e.what();
    e.discard_as_unraisable("a breakpoint of a kernel");
    return "a breakpoint failed: " + what.substr(0, what.find('\n'));
  }
}

nb::list recorded_arrays(const std::vector<RecordedArray>& arrays, const std::vector<std::string>& names,
                         bool content) {
  nb::list all;
  for (size_t i = 0; i < arrays.size(); ++i) {
    nb::dict a;
    a["name"] = names[i];
    a["dtype"] = std::string(ir::name(arrays[i].dtype));
    a["shape"] = arrays[i].dims;
    if (content) a["bytes"] = nb::bytes(arrays[i].bytes.data(), arrays[i].bytes.size());
    all.append(a);
  }
  return all;
}

// What a finding is known by, and what it said then.
nb::list recorded_findings(const std::vector<ir::Diagnostic>& findings) {
  nb::list all;
  for (const ir::Diagnostic& f : findings) {
    nb::dict d;
    d["code"] = f.code.text();
    d["severity"] = ir::name(f.severity);
    d["message"] = f.message;
    if (!f.site.source.file.empty()) {
      d["file"] = f.site.source.file;
      d["line"] = f.site.source.line;
    }
    all.append(d);
  }
  return all;
}

nb::dict recorded_launch(const RecordedLaunch& l, nb::object text) {
  const ir::Module& m = interp::module_of(*l.plan.plan);
  std::vector<std::string> args, results;
  for (int i = 0; i < m.num_dynamic; ++i) args.push_back("grid bound " + std::to_string(i));
  for (const ir::Operand& o : m.operands) (o.kind == ir::Operand::Kind::Output ? results : args).push_back(o.name);
  nb::dict d;
  d["kernel"] = m.name;
  d["module"] = text;
  d["options"] = l.options;
  d["device"] = l.device;
  d["arguments"] = recorded_arrays(l.args, args, true);
  d["results"] = recorded_arrays(l.results, results, l.error.empty());
  d["error"] = l.error;
  d["report"] = l.report;
  d["findings"] = recorded_findings(l.findings);
  if (l.predicted) {
    nb::dict time;
    time["chip"] = l.predicted->chip;
    time["seconds"] = l.predicted->seconds;
    d["predicted"] = time;
  }
  return d;
}

// (launches, launches left out). Launches of one plan and table of locations share their text.
nb::tuple take_recording(uint64_t number) {
  Recording recording = stop_recording(number);
  std::map<std::pair<const interp::Plan*, const ir::LocTable*>, nb::object> texts;
  nb::list launches;
  for (auto& l : recording.launches) {
    const auto& [plan, locs] = l->plan;
    nb::object& text = texts[{plan.get(), locs.get()}];
    if (!text.is_valid()) text = nb::cast(ir::print(interp::module_of(*plan), {.table = locs.get()}));
    launches.append(recorded_launch(*l, text));
    l.reset();  // Python has its arrays now
  }
  return nb::make_tuple(launches, recording.omitted);
}

nb::capsule capsule(void* p) { return nb::capsule(p, "xla._CUSTOM_CALL_TARGET"); }

void define_text(nb::module_& m) {
  m.def("check", &check, "text"_a, "file"_a = "<text>",
        "The report of the first violation of a module's text, or an empty string.");
  m.def("fmt", &fmt_text, "text"_a, "literals"_a = false, "locations"_a = true,
        "The canonical form of a module's text.");
  m.def(
      "compile",
      [](const std::string& text, const std::string& options) {
        nb::gil_scoped_release unlocked;
        Program::make(text, options);
      },
      "text"_a, "options"_a = "", "Compiles into the process-wide cache; raises DiagnosticError.");
  m.def(
      "signature",
      [](const std::string& text, const std::string& options) {
        auto p = Program::make(text, options);
        return std::make_pair(describe(p->args()), describe(p->results()));
      },
      "text"_a, "options"_a = "", "(dtype, dims) of operands and of results.");
  m.def(
      "dump",
      [](const std::string& text, const std::string& options) {
        return interp::dump(Program::make(text, options)->cached());
      },
      "text"_a, "options"_a = "", "The steps of the plan.");
  m.def("run", &run, "text"_a, "options"_a, "args"_a, "results"_a, "settings"_a = "",
        "Runs a module on (address, dtype, dims) buffers.");
}

void define_findings(nb::module_& m) {
  m.def(
      "diagnostic", &diagnostic, "code"_a, "message"_a, "kernel"_a, "line"_a, "numbers"_a, "hint"_a, "chip"_a = "",
      "The finding of an error at a line (file, line, column, function, text); raises ValueError for an unknown code.");
  m.def(
      "findings", [] { return finding_dicts(take_findings()); }, "Findings since the last call, oldest first.");
  const auto found = [](const std::optional<ir::Diagnostic>& d) -> nb::object {
    if (!d) return nb::none();
    return finding_dict(*d);
  };
  m.def(
      "failure", [found](int64_t number) { return found(failure(number)); }, "number"_a,
      "The error of a call that failed, by the number in its text; None for one of long ago.");
  m.def(
      "interrupted_failure", [found] { return found(interrupted_failure()); },
      "The latest error that the latest request to stop caused, for the first who asks; else None.");
  m.def(
      "tell_with",
      [](nb::object tell) {
        static nb::object& told = *new nb::object;
        {
          nb::gil_scoped_release unlocked;
          tell_with(nullptr);
        }
        told = tell;
        g_told = &told;
        if (!tell.is_none()) tell_with(&tell_python);
      },
      "tell"_a.none(),
      "Calls tell([finding, …]) for the findings of launches from now on; None: they go to standard error.");
  m.def(
      "stop_with",
      [](nb::object stop) {
        static nb::object& stopped = *new nb::object;
        stopped = stop;
        g_stopped = &stopped;
        stop_with(&stop_in_python);
      },
      "stop"_a,
      "Launches call stop(number, (callback, [(dtype, dims, bytes), …]), where) at breakpoints; it returns why they "
      "are "
      "to end there, \"\" to go on.");
}

void define_runs(nb::module_& m) {
  m.def("watch_progress", &watch_progress, "on"_a, "Launches are watched from now on, or not.");
  m.def("progress_of_oldest", &progress_of_oldest, "least_seconds"_a,
        "How far the oldest launch is that has run for so many seconds, empty for none.");
  m.def("show_progress", &show_progress, "least_seconds"_a,
        "The same, written over the line of the terminal that standard error is.");
  m.def("leave", &leave, "block"_a, "kind"_a.none(), "error"_a.none(), "traceback"_a.none(),
        "What __exit__ of an emulate block is: block._left(error), with the KeyboardInterrupt of a Ctrl-C that Python "
        "has not "
        "seen yet instead of the error that the stopped launch ended with, which is then raised.");
  m.def("running_launches", &running_launches, "Kernels that run now.");
  m.def("launch_count", &launch_count, "Kernels that ran in this process.");
  m.def(
      "take_kernel_times",
      [] {
        nb::dict all;
        for (const auto& [kernel, t] : take_kernel_times())
          all[kernel.c_str()] = nb::make_tuple(t.launches, t.checked, t.seconds);
        return all;
      },
      "Kernel -> (launches, those of them that were checked, seconds), of launches that ended since the last call.");
  m.def(
      "take_grid_points",
      [](int64_t recording) {
        nb::list points;
        for (const interp::GridPoint& p : take_grid_points(recording)) points.append(nb::make_tuple(p.ids, p.core));
        return points;
      },
      "recording"_a,
      "Coordinates and core of each grid point of the oldest run with that number that was not taken yet.");
  m.def(
      "take_calls",
      [](int64_t recording) {
        nb::list calls;
        for (const interp::HostCall& c : take_calls(recording)) calls.append(host_call(c));
        return calls;
      },
      "recording"_a,
      "(callback, [(dtype, dims, bytes), …]) per debug_callback of the oldest run with that number that was not "
      "taken yet.");
  m.def(
      "last_run", [] { return run_dict(last_run()); }, "Schedule token and counts of the latest launch that ended.");
  m.def(
      "runs",
      [] {
        nb::list all;
        for (const Run& r : runs()) all.append(run_dict(r));
        return all;
      },
      "The latest launches that ended, oldest first.");
}

void define_recordings(nb::module_& m) {
  m.def("start_recording", &start_recording, "max_bytes"_a,
        "Records every launch from now on; the number of the recording.");
  m.def("stop_recording", &take_recording, "number"_a,
        "What was recorded, as dictionaries in launch order, and how many launches were left out.");
}

void define_handlers(nb::module_& m) {
  m.def(
      "ffi_handlers",
      [] {
        nb::dict d;
        d["instantiate"] = capsule(instantiate_handler());
        d["execute"] = capsule(execute_handler());
        return d;
      },
      "Handlers of the custom call, by stage.");
  m.def(
      "ffi_state_type",
      [] {
        nb::dict d;
        d["type_id"] = nb::capsule(state_type_id());
        d["type_info"] = nb::capsule(state_type_info());
        return d;
      },
      "Registration of the handlers' state.");
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "Pallasim's C++ side: IR text, launches, XLA handlers.";

  static nb::object& error = *new nb::object(nb::exception<ir::DiagnosticError>(m, "DiagnosticError"));
  (void)error;
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const ir::DiagnosticError& e) {
      if (!dynamic_cast<const Failure*>(&e)) note_finding(e.diagnostic());
      nb::object value = error(e.what());
      value.attr("finding") = finding_dict(e.diagnostic());
      PyErr_SetObject(error.ptr(), value.ptr());
    }
  });

  define_text(m);
  define_findings(m);
  define_runs(m);
  define_recordings(m);
  define_explore(m, {&finding_dict, &site_dict});
  define_predict(m);
  define_replay(m, {&finding_dict, &site_dict});
  define_handlers(m);
  define_inspection(m);
  define_tables(m);
  define_sarif(m);
}

}  // namespace pallasim::python
