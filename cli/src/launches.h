// The launches of a file, one at a time: that of a kernel with operands from the command line, or those of a capsule.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "values.h"

namespace pallasim::cli {

// As one device or several have it.
struct FileLaunch {
  std::shared_ptr<const interp::Plan> plan;
  interp::Options options;
  std::vector<std::vector<Argument>> in, to;
  std::vector<int64_t> devices;
  size_t number = 1, of = 1;

  interp::CachedPlan cached() const {
    return {plan, std::shared_ptr<const ir::LocTable>(plan, &interp::module_of(*plan).locs)};
  }
  // Calls on the arrays, which stay where they are.
  const std::vector<interp::DeviceCall>& calls();

 private:
  std::vector<std::vector<interp::Buffer>> args_, results_;
  std::vector<interp::DeviceCall> calls_;
};

// That of a kernel's text, with operands from the command line, alike on all of its devices.
FileLaunch kernel_launch(const RunOptions&, const std::string& text, const interp::Options&);

// `adapt`: the options of a launch, which are those of the recording and what the command line says.
void each_launch(const RunOptions&, const std::function<interp::Options(interp::Options)>& adapt,
                 const std::function<void(FileLaunch&)>&);

}  // namespace pallasim::cli
