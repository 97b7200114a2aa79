// The option --exchange of `kiln train`: how the ranks combine their gradients.
#include <string>

#include "base/text.h"
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {

ExchangePlan exchange_value(const Option& option, const std::string& text,
                            const std::string& where) {
  const std::size_t colon = text.find(':');
  const KnownExchange* kind = find_exchange(choice_value(option, text.substr(0, colon), where));
  if (colon == std::string::npos) return {kind, kind->num_servers};
  if (kind->num_servers == 0)
    throw Error(ErrorCode::kParameterParsing, where + " is '" + excerpt(text) + "', but " +
                                                  std::string(kind->name) +
                                                  " has no number: leave it out.");
  return {kind, static_cast<int>(integer_value(option, text.substr(colon + 1), where))};
}

std::vector<TrainOption> exchange_options() {
  Option option = catalogue_choice("exchange", kKnownExchanges,
                                   "How processes combine their gradients.", kRanks);
  option.kind = ValueKind::kCountedChoice;
  option.value_name += "[:N]";
  option.minimum = 1;
  option.maximum = 1000;
  return {{Effect::kResult, option}};
}

void settle_exchange(Binder& binder, const TrainConfig& config) {
  const RanksConfig& ranks = config.ranks;
  const KnownExchange& kind = *ranks.exchange.kind;
  if (config.data.has_own_images() && kind.refuses("shard-by"))
    binder.fault("train-data-path", ErrorCode::kParameterParsing,
                 "--train-data-path with {rank} cannot be used with --exchange " +
                     std::string(kind.name) +
                     ", whose servers would not train on their images: leave one of the two out.");
  for (const UnfitOption& unfit : kind.unfit) {
    if (!binder.is_set(unfit.name, std::string(unfit.value))) continue;
    binder.fault(unfit.name, ErrorCode::kParameterParsing,
                 formatted("--%s%s%s cannot be used with --exchange %s, %s: leave one of the two "
                           "out.",
                           unfit.name, unfit.value.empty() ? "" : " ", unfit.value.data(),
                           kind.name.data(), unfit.reason.data()));
  }
  if (const int started = ranks.launch.value_or(0); started > 0)
    binder.check("exchange", [&] { ranks.exchange.require_ranks(started); });
}

}  // namespace kiln
