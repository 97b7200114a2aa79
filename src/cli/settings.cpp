#include "cli/settings.h"

#include <algorithm>
#include <stdexcept>

#include "base/text.h"
#include "cli/options.h"

namespace kiln {

bool Setting::is_default() const {
  return is_same_setting(*option, text, option->default_text);
}

Settings::Settings(const CommandInfo& command) {
  for (const Option& option : command.options)
    settings_.push_back({.option = &option, .text = option.default_text});
}

const Setting& Settings::of(std::string_view name) const {
  for (const Setting& setting : settings_)
    if (setting.option->name == name) return setting;
  throw std::logic_error("no option --" + std::string(name));
}

Settings Settings::replaced(Setting setting) const {
  Settings all = *this;
  *std::ranges::find(all.settings_, setting.option, &Setting::option) = std::move(setting);
  return all;
}

Settings Settings::with(std::string_view name, std::string text, Origin origin,
                        std::string reason) const {
  const Setting& now = of(name);
  if (now.origin > origin) return *this;
  return replaced({now.option, std::move(text), origin, std::move(reason)});
}

Settings Settings::found(std::string_view name, std::string text, std::string reason) const {
  return replaced({of(name).option, std::move(text), Origin::kAuto, std::move(reason)});
}

OptionTexts Settings::texts() const {
  OptionTexts texts;
  for (const Setting& setting : settings_) texts.emplace_back(setting.option->name, setting.text);
  return texts;
}

Setting found_for_train(std::string_view name, std::string text, std::string reason,
                        Origin origin) {
  const Option* option = find_option(*find_command("train"), name);
  return {option, std::move(text), origin, std::move(reason)};
}

}  // namespace kiln
