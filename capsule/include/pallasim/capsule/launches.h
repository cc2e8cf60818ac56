// Launches with their arrays: how those of a capsule are read, by whoever runs, draws, debugs or explores them.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pallasim/capsule/capsule.h"
#include "pallasim/capsule/values.h"
#include "pallasim/interp/launch.h"

namespace pallasim::capsule {

// An array of a call: dynamic bounds of the grid have no Operand.
struct Argument {
  const ir::Operand* operand = nullptr;
  std::string name;
  Array array;
  std::string origin;  // "random, seed 0", "x.npy"
};
std::vector<interp::Buffer> buffers(std::vector<Argument>&);
// f32[8,128]
std::string type_text(const Array&);

// As one device has it, or all that reach into each other.
struct Launch {
  std::shared_ptr<const interp::Plan> plan;
  interp::Options options;
  std::vector<std::vector<Argument>> in, to;
  std::vector<int64_t> devices;
  size_t number = 1, of = 1;
  int64_t left = 0;  // of the bytes that arrays may take

  interp::CachedPlan cached() const {
    return {plan, std::shared_ptr<const ir::LocTable>(plan, &interp::module_of(*plan).locs)};
  }
  // Calls on the arrays, which stay where they are.
  const std::vector<interp::DeviceCall>& calls();

 private:
  std::vector<std::vector<interp::Buffer>> args_, results_;
  std::vector<interp::DeviceCall> calls_;
};

// Options by name, over those of a recording: a schedule that is asked for replaces the recorded one. Throws
// PS-OPT-001.
using GivenOptions = std::vector<std::pair<std::string, std::string>>;
interp::Options overridden(interp::Options recorded, const GivenOptions&);
// Without the recorded schedule, for who chooses his own.
interp::Options without_schedule(interp::Options recorded);

// Reads the launches of a capsule, which it must not outlive. Those of devices that reach into each other follow each
// other and are one.
class Launches {
 public:
  // Options of a launch, made of those that were recorded.
  using Adapt = std::function<interp::Options(interp::Options recorded)>;
  Launches(const Capsule& c, std::string file_name, int64_t max_bytes, Adapt adapt)
      : capsule_(c), file_name_(std::move(file_name)), max_bytes_(max_bytes), adapt_(std::move(adapt)) {}

  std::span<const CapsuleLaunch> all() const { return capsule_.launches(); }
  // How many recorded launches the one that begins with the i-th is. 1 where no plan can be made: load says why.
  size_t devices(size_t i);
  // Where the launch begins that the i-th is part of.
  size_t first_of(size_t i);
  // The first that failed when it was recorded, else the first.
  size_t failing() const;
  interp::Options options(size_t i) const { return adapt_(interp::parse_options(all()[i].options)); }
  // The kernel's text, and its name in messages.
  std::string text(size_t i) const { return capsule_.module_text(all()[i]); }
  std::string text_name(size_t i) const { return file_name_ + "/" + all()[i].module; }
  // That which begins with the i-th, with its inputs, and memory for its results. Throws what refuses the kernel, and
  // PS-SIZE-001.
  Launch load(size_t i);
  // What was recorded of a result; of a launch that had failed there is nothing. `budget`: bytes that are left.
  Array result(size_t i, size_t which, int64_t budget) const;

 private:
  std::shared_ptr<const interp::Plan> plan(size_t i, const interp::Options&);
  const Capsule& capsule_;
  std::string file_name_;
  int64_t max_bytes_;
  Adapt adapt_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const interp::Plan>> plans_;  // by module and options
};

}  // namespace pallasim::capsule
