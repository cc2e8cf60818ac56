// A capsule: a recorded program as a zip of IR texts, arrays and a manifest (docs/capsule.md).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pallasim/capsule/archive.h"
#include "pallasim/capsule/values.h"
#include "pallasim/ir/dtype.h"

namespace pallasim::capsule {

inline constexpr int kCapsuleVersion = 1;

struct CapsuleArray {
  std::string name;  // the operand's
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> dims;
  std::string file;   // member with its elements; empty for results of a launch that failed
  int64_t bytes = 0;  // of the elements in memory
};

// A warning or a note of a recorded launch: what it is known by when the launch is repeated. Words may change.
struct CapsuleFinding {
  std::string code, file;
  int64_t line = 0;
  auto operator<=>(const CapsuleFinding&) const = default;
};

// What a recorded launch would take on a chip, as it was predicted then.
struct CapsuleTime {
  std::string chip;
  double seconds = 0;
};

struct CapsuleLaunch {
  std::string kernel, module, options;
  int64_t device = 0;
  std::vector<CapsuleArray> arguments, results;
  std::string error;                                    // code of the diagnostic that ended the recorded launch
  std::optional<std::vector<CapsuleFinding>> findings;  // nothing: not recorded
  std::optional<CapsuleTime> predicted;
};

// Reads and checks the manifest; arrays and modules are read when they are asked for.
class Capsule {
 public:
  // Throws PS-CAP-0xx. `bytes` must outlive the capsule.
  Capsule(std::string_view bytes, const std::string& file_name, int64_t max_bytes);

  const std::vector<CapsuleLaunch>& launches() const { return launches_; }
  const std::string& recorded_by() const { return recorded_by_; }  // "pallasim 0.1.0, JAX 0.10.2"
  int64_t omitted() const { return omitted_; }                     // later launches that the recording left out

  std::string module_text(const CapsuleLaunch&) const;
  // Throws PS-CAP-006 when the member is not the array that the manifest describes. `budget` pays for it (PS-SIZE-001).
  Array array(const CapsuleArray&, int64_t* budget) const;

 private:
  void read_manifest();

  std::string file_name_;
  ZipReader zip_;
  int64_t max_bytes_;
  std::vector<CapsuleLaunch> launches_;
  std::string recorded_by_;
  int64_t omitted_ = 0;
};

}  // namespace pallasim::capsule
