#include "train/exchange/exchange.h"

#include <array>
#include <string_view>

#include "base/error.h"

namespace kiln {

std::unique_ptr<Exchange> make_parameter_server(const ExchangePlan& plan, TrainState& state,
                                                World& world, Communicator& communicator);

namespace {

struct ExchangeMaker {
  std::string_view name;
  std::unique_ptr<Exchange> (*make)(const ExchangePlan&, TrainState&, World&, Communicator&);
};

constexpr std::array kExchanges = {
    ExchangeMaker{"all-reduce", [](const ExchangePlan&, TrainState& state, World&,
                                   Communicator&) { return make_all_reduce(state); }},
    ExchangeMaker{"parameter-server", make_parameter_server},
};

}  // namespace

std::unique_ptr<Exchange> make_exchange(const ExchangePlan& plan, TrainState& state, World& world,
                                        Communicator& communicator) {
  for (const ExchangeMaker& maker : kExchanges)
    if (maker.name == plan.name) return maker.make(plan, state, world, communicator);
  throw InternalError("no exchange is called " + plan.name);
}

}  // namespace kiln
