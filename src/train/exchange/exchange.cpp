#include "train/exchange/exchange.h"

#include "base/error.h"

namespace kiln {

std::unique_ptr<Exchange> make_parameter_server(int num_servers, const OptimizerPlan& optimizer,
                                                TrainState& state, World& world,
                                                Communicator& communicator);

void check_exchange(const ExchangePlan& plan, int num_ranks, const Device& device) {
  if (device.is_cuda && !plan.kind->works_on_gpus)
    throw Error(ErrorCode::kUserError, "--exchange " + std::string(plan.kind->name) +
                                           " works over MPI on CPUs, but the device is " +
                                           device.description +
                                           ": add --device cpu, or use --exchange all-reduce.");
  plan.require_ranks(num_ranks);
}

std::unique_ptr<Exchange> make_exchange(const ExchangePlan& plan, const OptimizerPlan& optimizer,
                                        TrainState& state, World& world,
                                        Communicator& communicator) {
  if (plan.num_servers == 0) return make_all_reduce(state);
  return make_parameter_server(plan.num_servers, optimizer, state, world, communicator);
}

}  // namespace kiln
