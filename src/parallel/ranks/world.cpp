#include "parallel/ranks/world.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/system.h"

namespace kiln {
namespace {

// What a collective may still use when its caller has left.
struct Memory {
  std::string mine, all;
};

// "EXIT_CODE MESSAGE".
std::string told_of(const std::exception_ptr& failure) {
  const auto told = [](const Error& error) {
    return std::to_string(exit_code(error.code())) + " " + error.message();
  };
  try {
    std::rethrow_exception(explained(failure));
  } catch (const Error& error) {
    return told(error);
  } catch (const Problems& problems) {
    return told(problems.errors().front());
  } catch (const FailedElsewhere&) {
    throw;
  } catch (const std::exception& other) {
    return std::string("70 ") + other.what();
  }
}

}  // namespace

World::World() : hosts_{host_name()} {}

void World::init(StallLimits limits, int expected_size, Log& log) {
  const LaunchEnvironment launcher = detect_launch_environment();
  log_ = &log;
  if (launcher.mpi) {
    require_shared_memory(launcher.local_size);
    // Single-copy transfers between processes need a capability that containers lack; there, MPI
    // would warn on every message.
    ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    mpi_ =
        std::make_unique<MpiThread>(limits, [&log](const std::string& text) { log.warning(text); });
    ranks_ = mpi_->ranks();
    hosts_ = gather(hosts_.front());
    mpi_->set_host_names(hosts_);
  }
  check_size(expected_size, launcher);
}

void World::check_size(int expected_size, const LaunchEnvironment& launcher) const {
  const std::string found =
      "This job has " + std::to_string(size()) + (size() == 1 ? " rank" : " ranks") + ", but ";
  if (expected_size > 0 && size() != expected_size)
    throw Error(ErrorCode::kUserError,
                found + "--expect-ranks is " + std::to_string(expected_size) +
                    ": was it started by mpirun, kiln launch or srun --mpi=pmix?");
  if (launcher.expected_size > 0 && size() != launcher.expected_size)
    throw Error(ErrorCode::kUserError, found + launcher.expectation);
}

std::string World::name_of(int rank) const {
  return "rank " + std::to_string(rank) + " on host " + hosts_[static_cast<std::size_t>(rank)];
}

void World::enter(const std::string& phase, bool patient) {
  phase_ = phase;
  if (!mpi_) return;
  mpi_->set_phase(phase, patient);
  if (rank() > 0) log_->info("phase: " + phase);
  if (std::getenv("KILN_LAUNCHED") != nullptr)
    log_->echo(name_of(rank()) + ": phase: " + phase, /*is_error=*/false);
}

void World::at(const std::string& detail) {
  if (mpi_) mpi_->set_phase(phase_ + ", " + detail, /*patient=*/false);
}

void World::wait_for(const Collective& collective) {
  mpi_->wait(mpi_->start(collective));
  ++num_rounds_;
}

std::string World::gather_bytes(const void* mine, std::size_t count) {
  const auto memory = std::make_shared<Memory>();
  memory->mine.assign(static_cast<const char*>(mine), count);
  if (!mpi_ || count == 0) return memory->mine;
  memory->all.resize(count * static_cast<std::size_t>(size()));
  wait_for({CollectiveKind::kGather, "exchange of settings", memory->mine.data(), count,
            ElementType::kByte, memory->all.data(), memory});
  return std::move(memory->all);
}

std::vector<std::string> World::gather(const std::string& mine) {
  const std::vector<std::size_t> lengths = gather(mine.size());
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = mine;
  padded.resize(longest);
  const std::string all = gather_bytes(padded.data(), longest);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank)
    texts.push_back(all.substr(rank * longest, lengths[rank]));
  return texts;
}

std::vector<std::string> World::gather_on_rank_0(const std::string& mine) {
  if (size() == 1) return {mine};
  const std::vector<std::size_t> lengths = gather(mine.size());
  const std::size_t longest = *std::max_element(lengths.begin() + 1, lengths.end());
  const auto memory = std::make_shared<Memory>();
  memory->mine = mine;
  memory->mine.resize(longest);
  if (leads()) memory->all.resize(longest * lengths.size());
  if (longest > 0)
    wait_for({CollectiveKind::kGatherOnRank0, "exchange of settings", memory->mine.data(), longest,
              ElementType::kByte, leads() ? memory->all.data() : nullptr, memory});
  if (!leads()) return {};
  std::vector<std::string> texts = {mine};
  for (std::size_t rank = 1; rank < lengths.size(); ++rank)
    texts.push_back(memory->all.substr(rank * longest, lengths[rank]));
  return texts;
}

void World::take_largest(std::vector<std::uint64_t>& values) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  for (std::size_t at = 0; mpi_ && at < values.size(); at += kPiece) {
    const std::span piece(values.data() + at, std::min(kPiece, values.size() - at));
    const auto memory = std::make_shared<std::vector<std::uint64_t>>(piece.begin(), piece.end());
    wait_for({CollectiveKind::kMaximum, "exchange of image hashes", memory->data(), memory->size(),
              ElementType::kInt64, nullptr, memory});
    std::ranges::copy(*memory, piece.begin());
  }
}

void World::broadcast_bytes(void* value, std::size_t count) {
  if (!mpi_) return;
  const auto bytes = std::make_shared<std::string>(static_cast<const char*>(value), count);
  wait_for({CollectiveKind::kBroadcast, "broadcast from rank 0", bytes->data(), count,
            ElementType::kByte, nullptr, bytes});
  std::memcpy(value, bytes->data(), count);
}

std::string World::broadcast(const std::string& of_rank_0) {
  std::string text = of_rank_0;
  text.resize(broadcast(text.size()));
  constexpr std::size_t kPiece = std::size_t{1} << 30;  // MPI counts are int
  for (std::size_t at = 0; at < text.size(); at += kPiece)
    broadcast_bytes(text.data() + at, std::min(kPiece, text.size() - at));
  return text;
}

World::SumUnderWay World::start_sum(const std::vector<double>& values) {
  SumUnderWay sum{MpiThread::kDone, std::make_shared<std::vector<double>>(values)};
  if (mpi_)
    sum.ticket =
        mpi_->start({CollectiveKind::kAllReduce, "all-reduce of counts", sum.values->data(),
                     sum.values->size(), ElementType::kFloat64, nullptr, sum.values});
  return sum;
}

std::vector<double> World::finish(const SumUnderWay& sum) {
  if (mpi_) {
    mpi_->wait(sum.ticket);
    ++num_rounds_;
  }
  return *sum.values;
}

void World::barrier() {
  if (mpi_) wait_for({.name = "barrier"});
}

void World::agree(const std::function<void()>& work) {
  std::exception_ptr mine;
  std::string told;
  try {
    work();
  } catch (...) {
    mine = std::current_exception();
    if (size() == 1) throw;
    told = told_of(mine);
  }
  if (sum({told.empty() ? 0.0 : 1.0}).front() == 0) return;
  const std::vector<std::string> all = gather(told);
  const auto failed = std::ranges::find_if(all, [](const auto& text) { return !text.empty(); });
  agreed_failure_ = true;
  const auto rank = static_cast<int>(failed - all.begin());
  if (rank == this->rank()) std::rethrow_exception(mine);
  throw FailedElsewhere(name_of(rank), failed->substr(failed->find(' ') + 1),
                        std::atoi(failed->c_str()));
}

bool World::announce_failure(const std::string& text, int exit_code) {
  if (!mpi_ || agreed_failure_) return true;
  reports_ = mpi_->announce_failure(text, exit_code);
  return reports_;
}

int World::leave(int exit_code) {
  if (!mpi_) return exit_code;
  if (exit_code != 0 && exit_code < 128 && !agreed_failure_) {
    // Gives the others a moment to write their logs before the launcher kills them. Ranks that do
    // not report the failure wait longer, so that the launcher names the rank that does.
    std::this_thread::sleep_for(std::chrono::seconds(reports_ ? 1 : 4));
    mpi_->abort(exit_code);
  }
  try {
    enter("leaving", true);
    barrier();
  } catch (const std::exception&) {  // a rank is missing: the job must end with a failure
    mpi_->abort(exit_code == 0 ? 3 : exit_code);
  }
  mpi_.reset();
  return exit_code;
}

}  // namespace kiln
