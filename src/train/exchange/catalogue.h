// What is known of the exchanges without building one: their names, what each means for the ranks
// of a run, and the options that it cannot be used with. Also used by the command line, so there is
// no LibTorch here.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace kiln {

// An option of `kiln train` that an exchange or a task cannot be used with.
struct UnfitOption {
  const char* name;
  std::string_view value;  // that cannot be used; empty: any but the default
  // Of an exchange, after "cannot be used with --exchange NAME, ".
  std::string_view reason = {};
};

// A row of the table.
struct KnownExchange {
  std::string_view name;
  std::string_view description;  // for --help, without a dot at its end
  int num_servers;               // unless the option has another number; 0: it has no servers
  bool sums_ranks;  // the gradients of all ranks make one update; otherwise each rank's its own
  bool works_on_gpus;
  int max_lag;                          // steps that a rank may be ahead of the slowest one
  std::string_view why_not_repeatable;  // why two runs differ; empty: they do not
  std::span<const UnfitOption> unfit;

  bool refuses(std::string_view option) const {
    return std::ranges::find(unfit, option, &UnfitOption::name) != unfit.end();
  }
};

inline constexpr int kMaxLagOfWorker = 4;  // as in the description below

inline constexpr auto kUnfitForServers = std::to_array<UnfitOption>({
    {"device", "cuda", "which works over MPI on CPUs"},
    {"sync-batch-norm", "", "whose workers do not wait for each other"},
    {"freeze", "backbone", "which needs a complete network to train"},
    {"auto", "True", "which does not fit the last layer alone"},
    {"ema", "", "whose workers see different weights in each step"},
    {"precision", "fp16", "which has no loss scale for float16"},
    {"shard-by", "", "whose servers would not train on the images of their hosts"},
    {"lr-scaling", "linear", "where each update uses the images of one worker"},
    {"lr-scaling", "sqrt", "where each update uses the images of one worker"},
});

// The first one is the default.
inline constexpr auto kKnownExchanges = std::to_array<KnownExchange>({
    {"all-reduce", "all of them take each step together", 0, true, true, 0, "", {}},
    {"parameter-server",
     "the last process, or the last N, hold the parameters; each of the others sends them its "
     "gradients and continues with new weights, at most 4 steps ahead of the slowest. On CPUs only",
     1, false, false, kMaxLagOfWorker, "a parameter server applies gradients in order of arrival",
     kUnfitForServers},
});

// The exchange of a run.
struct ExchangePlan {
  const KnownExchange* kind = &kKnownExchanges.front();
  int num_servers = 0;  // the last ranks, which do not train

  bool operator==(const ExchangePlan&) const = default;
  int num_training_ranks(int num_ranks) const { return num_ranks - num_servers; }
  int num_summed_ranks(int num_ranks) const { return kind->sums_ranks ? num_ranks : 1; }
  // A run that resumes needs as many ranks as before.
  bool keeps_ranks() const { return num_servers > 0; }

  // Throws Error kUserError if no rank is left to train.
  void require_ranks(int num_ranks) const {
    if (num_training_ranks(num_ranks) >= 1) return;
    throw Error(
        ErrorCode::kUserError,
        formatted("--exchange %s:%d needs at least %d ranks, one of them a worker, but "
                  "this job has %d: use more --ranks, or --exchange all-reduce.",
                  std::string(kind->name).c_str(), num_servers, num_servers + 1, num_ranks));
  }
};

}  // namespace kiln
