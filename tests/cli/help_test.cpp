#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/log.h"
#include "cli/options.h"
#include "cli/parse.h"

namespace kiln {
namespace {

std::string help(const Words& words) {
  return parse_as<HelpRequest>(words).text;
}

// Replaces line breaks and runs of spaces by one space.
std::string unwrapped(const std::string& text) {
  std::istringstream in(text);
  std::string word;
  std::string out;
  while (in >> word) out += word + " ";
  return out;
}

// All of the help of a command, whose name may have two words.
std::string help_of(const CommandInfo& command) {
  std::istringstream in(command.name);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  words.insert(words.end(), {"--help", "all"});
  return help(words);
}

TEST(Help, ListsExactlyTheCommandsThatExist) {
  const std::string text = help({"--help"});
  for (const CommandInfo& command : command_table()) {
    EXPECT_NE(text.find("\n  " + command.name + " "), std::string::npos);
  }
  EXPECT_EQ(help({"help"}), text);
  EXPECT_EQ(help({"-h"}), text);
}

TEST(Help, NamesEveryOptionWithDefaultRangeAndUnit) {
  for (const CommandInfo& command : command_table()) {
    const std::string text = unwrapped(help_of(command));
    for (const Option& option : command.options) {
      const std::size_t begin = text.find("--" + option.name + " ");
      ASSERT_NE(begin, std::string::npos) << command.name << " " << option.name;
      EXPECT_NE(text.find(option.group + ":"), std::string::npos);
      const std::size_t help = text.find(option.help, begin);
      ASSERT_NE(help, std::string::npos) << option.name << ": a word is broken";
      const std::size_t end = text.find("]", text.find("[", help + option.help.size()));
      const std::string entry = text.substr(begin, end - begin + 1);
      if (option.required) {
        EXPECT_NE(entry.find("[required"), std::string::npos) << entry;
      }
      if (!option.default_text.empty()) {
        EXPECT_NE(entry.find("default " + option.default_text), std::string::npos) << entry;
      }
      if (option.maximum != 0) {
        EXPECT_NE(entry.find(range_text(option)), std::string::npos);
      }
      if (!option.unit.empty()) {
        EXPECT_NE(entry.find("unit: " + option.unit), std::string::npos);
      }
    }
  }
}

TEST(Help, BeginsWithAFirstScreenWhereThereAreManyOptions) {
  for (const CommandInfo& command : command_table()) {
    const auto num_first = std::ranges::count_if(command.options, &Option::is_on_first_screen);
    EXPECT_EQ(num_first > 0, command.name == "train") << command.name;
  }
  const std::string first = help({"train", "--help"}), all = help({"train", "--help", "all"});
  EXPECT_LE(std::ranges::count(first, '\n'), 76) << "more than a screen";
  EXPECT_NE(first.find("\n  kiln train photos "), std::string::npos);
  EXPECT_NE(first.find("--help all"), std::string::npos);
  EXPECT_EQ(all.find("--help all"), std::string::npos);
  for (const Option& option : find_command("train")->options) {
    const std::string name = "\n  --" + option.name + " ";
    EXPECT_EQ(first.find(name) != std::string::npos, option.is_on_first_screen) << option.name;
    EXPECT_NE(all.find(name), std::string::npos) << option.name;
  }
  for (const char* name : {"data-path", "model-name", "weights", "auto", "recipe", "time-limit"})
    EXPECT_TRUE(find_option(*find_command("train"), name)->is_on_first_screen) << name;
  EXPECT_EQ(help({"train", "--help=all"}), all);
  EXPECT_EQ(help({"help", "train", "all"}), all);
  EXPECT_EQ(help({"pack", "--help"}), help({"pack", "--help", "all"}));
}

TEST(Help, FindsOptionsByNameAndByWordsOfTheirHelp) {
  EXPECT_NE(help({"help", "--time-limit"}).find("kiln train:\n  --time-limit TIME "),
            std::string::npos);
  EXPECT_NE(help({"help", "lr"}).find("--learning-rate "), std::string::npos);
  const std::vector<std::pair<Words, const char*>> found = {
      {{"checkpoint"}, "--checkpoint-path "},
      {{"cuda"}, "--device "},
      {{"resnet50"}, "--model-name "},
      {{"class weights"}, "--class-weights "},
      {{"class", "weight"}, "--class-weights "},
      {{"onnx"}, "kiln export:"},
      {{"heatmap"}, "--explain "},
      {{"heat-map"}, "--explain "},
      {{"zip"}, "archive"},
      {{"webp"}, "WebP"},
      {{"heic"}, "HEIC"},
      {{"transfer"}, "--weights "},
      {{"imbalance"}, "--class-weights "},
      {{"predict"}, "kiln score"},
      {{"TRIVIALAUGMENT"}, "--augment "}};
  for (const auto& [asked, answer] : found) {
    Words words = {"help"};
    words.insert(words.end(), asked.begin(), asked.end());
    EXPECT_NE(help(words).find(answer), std::string::npos) << asked[0];
  }
  EXPECT_NE(fault({"help", "f7"}).find("'f7' was not found"), std::string::npos);
  EXPECT_EQ(help({"help", "src-path"}).find("--tgt"), std::string::npos);
  EXPECT_NE(help({"help", "fine-tune the entire"}).find("--auto"), std::string::npos);
  EXPECT_NE(fault({"help", "-"}), "no fault");
}

TEST(Help, FitsInTheTerminal) {
  std::string all = help({"--help"});
  for (const CommandInfo& command : command_table()) all += help_of(command);
  std::istringstream in(all);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("  --")) {  // a name and its values stay together
      EXPECT_LE(line.size(), static_cast<std::size_t>(std::clamp(live_columns(), 60, 100))) << line;
    }
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST(Help, TakesPrecedenceOverFaults) {
  EXPECT_EQ(help({"train", "--epochs", "0", "--help"}), help({"help", "train"}));
  EXPECT_EQ(help({"help", "transform", "init"}), help({"transform", "init", "--help"}));
  EXPECT_EQ(fault({"transform"}),
            "'transform' is not a command of kiln. Did you mean 'transform init'?");
  EXPECT_EQ(fault({"train", "--help", "epochs"}),
            "--help may be followed only by 'all', not by 'epochs'.");
  EXPECT_EQ(fault({"launch", "--help", "train"}),
            "--help may be followed only by 'all', not by 'train'.");
  EXPECT_NE(fault({"help", "trian"}).find("was not found"), std::string::npos);
  EXPECT_TRUE(fault({"help", "trian"}).ends_with("Did you mean 'train'?"));
}

TEST(Help, TheTableIsWellFormed) {
  for (const CommandInfo& command : command_table()) {
    for (const Option& option : command.options) {
      EXPECT_TRUE(option.help.ends_with('.')) << option.name;
      EXPECT_FALSE(option.group.empty()) << option.name;
      EXPECT_EQ(find_option(command, option.name), &option) << "two options of one name";
      EXPECT_LE(option.minimum, option.maximum);
    }
  }
}

}  // namespace
}  // namespace kiln
