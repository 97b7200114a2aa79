// A Communicator for tensors on GPUs, over NCCL in libkiln_cuda.so.
//
// Sums run on a side stream and the host does not wait for them. A thread of the communicator
// watches what was started: at the deadline, when NCCL reports a fault, or when the caller's peers
// of the other ranks ends the wait, it aborts NCCL, so that whatever waits for the GPU comes free.
// From then on every call throws what happened: Error kTimeoutOccured naming the collective and
// the seconds, or what `waiting` threw. What the GPU computed since is worthless: synchronize and
// make one more call before results are kept.
//
// To be destroyed before main() ends, while CUDA is up and before MPI is finished: it waits for the
// other ranks, some seconds at most. Destroyed by an exception on its way, it leaves NCCL as it is:
// the others may still read this rank's memory, and the process is about to end. Calls come from
// one thread at a time, any thread.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cuda/module.h"
#include "parallel/gradients/communicator.h"

namespace kiln {

// What the ranks know of each other beside NCCL, asked from the watching thread. All may be empty.
struct NcclWatch {
  // A collective starts, in the caller's thread: its place among all collectives of this rank.
  std::function<std::uint64_t()> started;
  // Several times a second while a collective waits: may warn, and keeps the deadline in place of
  // the plan's. What it throws ends the wait: Error kTimeoutOccured, FailedElsewhere.
  std::function<void(const std::string& collective, std::uint64_t place, double waited_s)> waiting;
  // The failure was not thrown to a caller within `grace_s`, because the thread that computes is
  // stuck: the last chance to report it and to end the process.
  std::function<void(const std::exception_ptr& failure)> stuck;
  double grace_s = 15;
};

struct NcclPlan {
  int size = 1;
  double deadline_s = 300;
  NcclWatch watch = {};  // each lane has a copy
  // This rank's seat beside the others, which all call it, for the communicator and for each lane.
  std::function<std::unique_ptr<NcclGroup>()> join_group = {};
  const char* sum_name = "gradient sum";  // in messages
};

// For rank 0: what all ranks need to find each other. Throws Error kFailedToCompleteOperation where
// the module is missing or NCCL is older than 2.18, which has no non-blocking communicators.
std::string make_nccl_id();

// Begins to join the other ranks; `seat.id` is rank 0's make_nccl_id(), `seat.device` the one that
// choose_device gave. Throws as make_nccl_id().
std::unique_ptr<NcclGroup> join_nccl_group(const NcclSeat& seat);

// Joins the other ranks, which all call this; returns when NCCL is set up, within the deadline.
// Throws as join_nccl_group() and as above.
std::unique_ptr<Communicator> make_nccl_communicator(const NcclPlan& plan);

// Sums of two lanes may then be on the GPU together: NCCL keeps them in the order of their starts,
// without which ranks that run them in different orders could wait for each other for ever. For
// NCCL 2.26 and newer. Sets an environment variable: to be called as send_nccl_log_to().
void keep_nccl_lanes_in_order();

// Sends NCCL's own log to `folder`/70_nccl_log_<rank>.txt, which it returns: as much as NCCL_DEBUG
// asks for, else how it starts and which network it takes. Nothing where NCCL_DEBUG_FILE is set or
// the folder cannot be written. Sets environment variables, so to be called before make_nccl_id()
// and while no other thread uses LibTorch or CUDA.
std::optional<std::filesystem::path> send_nccl_log_to(const std::filesystem::path& folder,
                                                      int rank);

// The network that NCCL took between hosts as its log tells it: "Socket", "IB", or a plug-in's
// name; empty where the log does not.
std::string network_in_nccl_log(const std::filesystem::path& log);

}  // namespace kiln
