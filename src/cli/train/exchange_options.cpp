// The options of `kiln train` for how the ranks combine their gradients.
#include <array>
#include <string>

#include "base/text.h"
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

constexpr std::int64_t kMostServers = 1000, kMostStaleness = 1000;

// An option that cannot be used with a parameter server, and why.
struct Beside {
  const char *option, *shown;
  bool is_given;
  const char* reason;
};

void refuse(Binder& binder, const Beside& beside) {
  if (!beside.is_given) return;
  binder.fault(beside.option, ErrorCode::kParameterParsing,
               std::string(beside.shown) + " cannot be used with --exchange parameter-server, " +
                   beside.reason + ": leave one of the two out.");
}

void check_beside(Binder& binder, const TrainConfig& config) {
  const OptimizationConfig& optimization = config.optimization;
  const RanksConfig& ranks = config.ranks;
  const bool of_each_rank = config.data.has_own_images();
  const std::array all = {
      Beside{"device", "--device cuda", ranks.device == DeviceChoice::kCuda,
             "which works over MPI on CPUs"},
      Beside{"sync-batch-norm", "--sync-batch-norm", ranks.sync_batch_norm,
             "whose workers do not wait for each other"},
      Beside{"freeze", "--freeze backbone", optimization.freeze == Freeze::kBackbone,
             "which needs a complete network to train"},
      Beside{"auto", "--auto True", optimization.automatic.choice == AutoChoice::kYes,
             "which does not fit the last layer alone"},
      Beside{"ema", "--ema", optimization.recipe.ema > 0,
             "whose workers see different weights in each step"},
      Beside{"precision", "--precision fp16", optimization.precision == Precision::kFp16,
             "which has no loss scale for float16"},
      Beside{"train-data-path", "--train-data-path with {rank}", of_each_rank,
             "whose servers would not train on their images"},
      Beside{"shard-by", "--shard-by", config.data.has_train_shard && !of_each_rank,
             "whose servers would not train on the images of their hosts"},
      Beside{
          "lr-scaling", "--lr-scaling linear or sqrt",
          binder.given("lr-scaling") && optimization.lr_scaling.rule != RateScaling::Rule::kFactor,
          "where each update uses the images of one worker"},
      Beside{"gradient-dtype", "--gradient-dtype bf16", ranks.bfloat16_gradients,
             "which does no all-reduce"},
  };
  for (const Beside& beside : all) refuse(binder, beside);
}

void check_ranks(Binder& binder, const RanksConfig& ranks) {
  const int servers = ranks.exchange.num_servers;
  const int started = ranks.launch.value_or(0);
  if (started == 0 || servers < 1 || servers < started) return;
  binder.fault("servers", ErrorCode::kParameterParsing,
               formatted("--servers is %d, but --ranks is %d, which leaves no worker: use more "
                         "ranks or fewer servers.",
                         servers, started));
}

}  // namespace

std::vector<TrainOption> exchange_options() {
  return {
      {Effect::kResult,
       choice("exchange", {"all-reduce", "parameter-server"}, kRanks,
              "How processes combine their gradients. all-reduce: all of them take each step "
              "together. parameter-server: the last --servers processes hold the parameters; each "
              "of the others sends them its gradients and continues with new weights, without "
              "waiting for the rest. On CPUs only.")},
      {Effect::kResult, integer("servers", "1", 1, kMostServers, "processes", kRanks,
                                "Number of parameter servers: processes that each hold an equal "
                                "share of the parameters and do not train on images.")},
      {Effect::kBits, integer("staleness", "4", 0, kMostStaleness, "steps", kRanks,
                              "Steps that a worker of --exchange parameter-server may be ahead of "
                              "the slowest. 0: all start each step together.")},
  };
}

ExchangeConfig bind_exchange(Binder& binder) {
  ExchangeConfig config;
  config.name = binder.choice("exchange");
  config.num_servers = binder.small_integer("servers");
  config.staleness = binder.small_integer("staleness");
  return config;
}

void settle_exchange(Binder& binder, const TrainConfig& config) {
  if (config.ranks.exchange.has_servers()) {
    check_beside(binder, config);
    return check_ranks(binder, config.ranks);
  }
  for (const char* name : {"servers", "staleness"})
    if (binder.given(name))
      binder.fault(name, ErrorCode::kParameterParsing,
                   "--" + std::string(name) +
                       " is for a parameter server, but --exchange is all-reduce: add --exchange "
                       "parameter-server, or leave it out.");
}

}  // namespace kiln
