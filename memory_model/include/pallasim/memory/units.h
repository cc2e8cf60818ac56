// The units of a machine: how many there are of each below the other, whose thread is whose, and what users call them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace pallasim::memory {

enum class Level : uint8_t { Device, Cluster, Pair, Core, Thread, Warp };

// One mesh of every device: clusters of cores of threads of warps. A TensorCore and a Triton program are cores with one
// thread, a SparseCore has its subcores as threads, a CTA its warpgroups. Extents are at least 1. Cores that are no
// pairs are units of that level by themselves.
struct Mesh {
  std::vector<int64_t> clusters;  // extents of the grid of clusters; empty: there is one, which has no name
  std::vector<int64_t> cores{1};  // extents of the cores of one cluster
  int64_t paired = 1;             // neighbouring cores of a cluster that act as one: 2 where its CTAs come in pairs
  int64_t threads = 1;            // of one core
  int64_t warps = 1;              // of one thread
  std::string core,
      thread = "thread";  // as users say: "SparseCore", "subcore"; core "": threads are counted through the mesh
  std::vector<std::string>
      core_axes;             // "x": a core of a cluster is told by its place on these axes; empty: by a number
  std::string first_thread;  // thread 0 of a core, where it is of another sort: "scalar subcore"
  bool operator==(const Mesh&) const = default;
};

// Several meshes lie side by side on each device. Units of a level are counted device by device, within it mesh by
// mesh, within it in row-major order: so the threads below one unit follow each other. Arguments are in range.
class Units {
 public:
  // One mesh of plain threads.
  explicit Units(int64_t threads_per_device = 1, int64_t devices = 1);
  explicit Units(std::vector<Mesh> meshes, int64_t devices = 1);

  const std::vector<Mesh>& meshes() const { return meshes_; }
  int64_t devices() const { return devices_; }
  int64_t count(Level l) const { return devices_ * per_device(l); }
  int64_t per_device(Level l) const { return per_device_[static_cast<size_t>(l)]; }
  // On one device.
  int64_t per_mesh(Level l, int mesh) const { return sizes_[static_cast<size_t>(mesh)].count[static_cast<size_t>(l)]; }
  // The first unit of a mesh on a device.
  int64_t first(Level l, int mesh, int64_t device) const {
    return device * per_device(l) + sizes_[static_cast<size_t>(mesh)].before[static_cast<size_t>(l)];
  }

  // The unit that the thread belongs to; at Level::Warp its first warp.
  int64_t unit_of(Level, int64_t thread) const;
  struct Threads {
    int64_t first, count;
    bool operator==(const Threads&) const = default;
  };
  // The threads below a unit; of a warp: the one above.
  Threads threads_of(Level, int64_t unit) const;
  int mesh_of(Level, int64_t unit) const;  // not of a device
  int64_t device_of(Level l, int64_t unit) const { return devices_ == 1 ? 0 : unit / per_device(l); }

  // "thread 3", "device 1", "thread 3 of device 1", "subcore 3 of SparseCore 1", "cluster (2,0), CTA x=1, warpgroup 1",
  // and of that one "…, warp 2".
  std::string name(Level, int64_t unit) const;
  // What follows the name of an object that the unit owns: " of thread 1 on device 1", " of device 1", or nothing where
  // there is but one owner.
  std::string of(Level, int64_t unit) const;

  bool operator==(const Units&) const = default;

 private:
  static constexpr size_t kLevels = static_cast<size_t>(Level::Warp) + 1;
  struct Sizes {  // of a mesh on one device: its units by level, and those of the meshes before it
    int64_t count[kLevels], before[kLevels];
    bool operator==(const Sizes&) const = default;
  };

  std::vector<Mesh> meshes_;
  int64_t devices_;
  std::vector<Sizes> sizes_;
  int64_t per_device_[kLevels] = {};
};

}  // namespace pallasim::memory
