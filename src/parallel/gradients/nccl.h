// A Communicator for tensors on GPUs, over NCCL in libkiln_cuda.so. Sums run on a side stream and
// the host does not wait for them. A watchdog thread monitors the collectives in flight: at the
// deadline, when NCCL reports a fault, or when `waiting` throws, it aborts NCCL, which unblocks
// everything that waits for the GPU. From then on every call throws the cause: Error
// kTimeoutOccured naming the collective and the seconds waited, or what `waiting` threw. Results
// computed on the GPU since then are invalid: synchronize and make one more call before keeping
// results. Destroy the communicator before main() returns, while CUDA is up and before MPI is
// finalized: the destructor waits at most 15 seconds for the other ranks. If destroyed during stack
// unwinding, it does not tear down NCCL: other ranks may still read this rank's memory, and the
// process is about to exit. Any thread may call, but only one at a time.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "modules/cuda/module.h"
#include "parallel/gradients/communicator.h"

namespace kiln {

// Callbacks by which the watchdog thread learns about the other ranks independently of NCCL. Each
// may be empty.
struct NcclWatch {
  // Called on the caller's thread when a collective starts. Returns its index among all collectives
  // of this rank.
  std::function<std::uint64_t()> started;
  // Called several times a second while a collective waits. May warn, and enforces the deadline in
  // place of NcclPlan's. An exception (Error kTimeoutOccured, FailedElsewhere) ends the wait.
  std::function<void(const std::string& collective, std::uint64_t place, double waited_s)> waiting;
  // Called if no caller has received the failure within `grace_s` seconds, because the compute
  // thread is stuck: the last chance to report it and end the process.
  std::function<void(const std::exception_ptr& failure)> stuck;
  double grace_s = 15;
};

struct NcclPlan {
  int size = 1;
  double deadline_s = 300;
  NcclWatch watch = {};  // each lane has its own copy
  // Joins this rank to the others. A collective, called once for the communicator and once for each
  // further lane.
  std::function<std::unique_ptr<NcclGroup>()> join_group = {};
  const char* sum_name = "gradient all-reduce";  // in messages
  int count_one_of = 1;                          // collectives (NcclGroup::count())
};

// On rank 0: creates the id with which all ranks find each other. Throws Error
// kFailedToCompleteOperation if the module is missing or NCCL is older than 2.18, which has no
// non-blocking communicators.
std::string make_nccl_id();

// Starts joining the other ranks; `seat.id` is rank 0's make_nccl_id(), `seat.device` comes from
// choose_device. Throws like make_nccl_id().
std::unique_ptr<NcclGroup> join_nccl_group(const NcclSeat& seat);

// A collective; returns when NCCL is set up, within the deadline. Throws like join_nccl_group() and
// as described at the top of this file.
std::unique_ptr<Communicator> make_nccl_communicator(const NcclPlan& plan);

// Makes NCCL run the sums of two lanes in launch order. Otherwise ranks that run them in different
// orders could deadlock. For NCCL 2.26 and newer. Sets an environment variable; same restrictions
// as send_nccl_log_to().
void keep_nccl_lanes_in_order();

// Lets ranks share a GPU: NCCL takes each rank for a separate host, and they communicate over the
// network. Sets an environment variable; same restrictions as send_nccl_log_to().
void keep_nccl_ranks_apart(int rank);

// Redirects NCCL's log to `folder`/70_nccl_log_<rank>.txt and returns that path. NCCL_DEBUG sets
// the verbosity; by default the log covers initialization and network selection. Does nothing if
// NCCL_DEBUG_FILE is set or the folder is not writable. Sets environment variables, so call it
// before make_nccl_id() and while no other thread uses LibTorch or CUDA.
std::optional<std::filesystem::path> send_nccl_log_to(const std::filesystem::path& folder,
                                                      int rank);

// The network that NCCL uses between hosts according to its log: "Socket", "IB", or a plug-in's
// name; empty if not logged.
std::string network_in_nccl_log(const std::filesystem::path& log);

}  // namespace kiln
