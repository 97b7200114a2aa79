// Every option with a range: below, at and above its limits, and text that is not a number.
#include <gtest/gtest.h>

#include "cli/options.h"
#include "cli/parse.h"

namespace kiln {
namespace {

struct Bounds {
  const char* flag;
  const char* below;
  ErrorCode below_code;
  const char* lowest;
  const char* highest;
  const char* above;
  ErrorCode above_code;
};

void PrintTo(const Bounds& bounds, std::ostream* out) {
  *out << bounds.flag;
}

class TrainRanges : public testing::TestWithParam<Bounds> {};

TEST_P(TrainRanges, BelowAtAndAbove) {
  const Bounds& bounds = GetParam();
  ErrorCode code{};
  const std::string low = fault(train({bounds.flag, bounds.below}), &code);
  EXPECT_TRUE(low.starts_with(std::string(bounds.flag) + " is " + bounds.below + ", but must be "));
  EXPECT_EQ(code, bounds.below_code);
  EXPECT_EQ(exit_code(code), 1);
  EXPECT_EQ(fault(train({bounds.flag, bounds.lowest})), "no fault");
  EXPECT_EQ(fault(train({bounds.flag, bounds.highest})), "no fault");
  const std::string high = fault(train({bounds.flag, bounds.above}), &code);
  EXPECT_TRUE(high.starts_with(std::string(bounds.flag) + " is " + bounds.above)) << high;
  EXPECT_EQ(code, bounds.above_code);
  EXPECT_EQ(exit_code(code), 1);
}

TEST_P(TrainRanges, RefusesOtherText) {
  for (const char* text : {"two", "1,5", "0x10", " 5", "5 ", "--", "1e", "5%5", "½"}) {
    ErrorCode code{};
    const std::string message = fault(train({std::string(GetParam().flag) + "=" + text}), &code);
    EXPECT_NE(message.find(std::string(GetParam().flag) + " is '" + text + "', but must be "),
              std::string::npos)
        << message;
    EXPECT_EQ(code, ErrorCode::kParameterParsing);
  }
}

constexpr ErrorCode kAbove0 = ErrorCode::kGreaterThan;
constexpr ErrorCode kFrom0 = ErrorCode::kGreaterThanOrEqualTo;
constexpr ErrorCode kAtMost = ErrorCode::kLessThanOrEqualTo;
constexpr ErrorCode kWithin = ErrorCode::kNotInRangeValue;

INSTANTIATE_TEST_SUITE_P(
    All, TrainRanges,
    testing::Values(
        Bounds{"--epochs", "0", kAbove0, "1", "1000000", "1000001", kAtMost},
        Bounds{"--epochs", "-3", kAbove0, "1", "+7", "2147483648", kAtMost},
        Bounds{"--epochs", "-99999999999999999999", kAbove0, "1", "7", "99999999999999999999",
               kAtMost},
        Bounds{"--batch-size", "0", kAbove0, "1", "1000000", "1000001", kAtMost},
        Bounds{"--num-warmup-steps", "-1", kFrom0, "0", "1000000", "1000001", kAtMost},
        Bounds{"--learning-rate", "0", kAbove0, "1e-300", "1000", "1000.001", kAtMost},
        Bounds{"--learning-rate", "-0.1", kAbove0, ".5", "1E3", "1e999", kAtMost},
        Bounds{"--learning-rate", "1e-999", kAbove0, "5.", "+0.1", "1e20", kAtMost},
        Bounds{"--random-seed", "-9223372036854775809", kWithin, "-9223372036854775808",
               "9223372036854775807", "9223372036854775808", kWithin},
        Bounds{"--patience", "0", kAbove0, "1", "1000000", "1000001", kAtMost},
        Bounds{"--print-freq", "0", kAbove0, "1", "1000000000", "1000000001", kAtMost},
        Bounds{"--image-size", "15", kWithin, "16", "2048", "2049", kWithin},
        Bounds{"--eval-resize", "15", kWithin, "16", "4096", "4097", kWithin},
        Bounds{"--eval-crop", "15", kWithin, "16", "2048", "2049", kWithin},
        Bounds{"--max-bad-images", "-1", kFrom0, "0", "1000000000", "1000000001", kAtMost},
        Bounds{"--max-bad-images", "-1%", kFrom0, "0%", "100%", "100.1%", kAtMost},
        Bounds{"--loader-threads", "0", kAbove0, "auto", "256", "257", kAtMost},
        Bounds{"--threads", "0", kAbove0, "1", "1024", "1025", kAtMost},
        Bounds{"--ranks", "0", kAbove0, "auto", "4096", "4097", kAtMost},
        Bounds{"--lr-scaling", "0", kAbove0, "sqrt", "1e9", "1.1e9", kAtMost},
        Bounds{"--accumulate", "0", kAbove0, "1", "1000000", "1000001", kAtMost},
        Bounds{"--collective-timeout", "0", kAbove0, "1", "86400", "86401", kAtMost},
        Bounds{"--steps-per-epoch", "0", kAbove0, "1", "1000000000", "1000000001", kAtMost},
        Bounds{"--shuffle-buffer", "0", kAbove0, "1", "1000000", "1000001", kAtMost},
        Bounds{"--price-per-hour", "0", kAbove0, "0.01", "1000000", "1000000.01", kAtMost},
        Bounds{"--expect-ranks", "0", kAbove0, "1", "1000000", "1000001", kAtMost}));

TEST(Ranges, EveryNumericTrainOptionIsTested) {
  // The list above names them, checkpoint_test.cpp --checkpoint-every, fine_tuning_test.cpp
  // --folds,
  // --layer-decay and --head-learning-rate, length_test.cpp --steps and --time-limit,
  // recipe_test.cpp those of the recipe, exchange_test.cpp --exchange; a new option must be added
  // there.
  int numeric = 0;
  for (const Option& option : find_command("train")->options) {
    numeric += option.maximum != 0 ? 1 : 0;
  }
  EXPECT_EQ(numeric, 35);
}

TEST(Ranges, MessagesNameOptionValueAndRange) {
  EXPECT_EQ(fault(train({"--epochs", "0"})),
            "--epochs is 0, but must be greater than 0 (range 1 to 1000000).");
  EXPECT_EQ(fault(train({"--epochs", "1000001"})),
            "--epochs is 1000001, but must be at most 1000000 (range 1 to 1000000).");
  EXPECT_EQ(fault(train({"--image-size", "8"})),
            "--image-size is 8, but must be auto, or 16 to 2048, or two of them as HxW.");
}

TEST(Ranges, ImagesHaveAHeightAndAWidth) {
  const auto size_of = [](const char* text) {
    return parse_as<TrainConfig>(train({"--image-size", text})).data.image_size;
  };
  EXPECT_EQ(size_of("320x240"), (ImageSize{320, 240}));
  EXPECT_EQ(size_of("96"), (ImageSize{96, 96}));
  EXPECT_EQ(size_of("Auto"), ImageSize());
  for (const char* text :
       {"320x", "x240", "320x8", "8x320", "autox32", "32xauto", "32x32x32", "320*240", "4096x32"})
    EXPECT_TRUE(fault(train({"--image-size", text})).starts_with("--image-size is ")) << text;
  EXPECT_NE(fault(train({"--image-size=96x128", "--eval-resize=100"})), "no fault");
  EXPECT_EQ(fault(train({"--image-size=96x128", "--eval-resize=128"})), "no fault");
}

TEST(Ranges, WholeNumbersHaveNoFraction) {
  for (const char* flag :
       {"--epochs", "--batch-size", "--random-seed", "--patience", "--print-freq", "--image-size",
        "--max-bad-images", "--loader-threads", "--threads"}) {
    ErrorCode code{};
    fault(train({flag, "2.0"}), &code);
    EXPECT_EQ(code, ErrorCode::kParameterParsing) << flag;
  }
}

TEST(Ranges, TheLearningRateIsFinite) {
  ErrorCode code{};
  for (const char* text : {"nan", "NaN", "-nan"}) {
    EXPECT_NE(fault(train({"--learning-rate", text}), &code), "no fault");
    EXPECT_EQ(code, ErrorCode::kNaN);
  }
  for (const char* text : {"inf", "-inf", "+Infinity"}) {
    EXPECT_NE(fault(train({"--learning-rate", text}), &code), "no fault");
    EXPECT_EQ(code, ErrorCode::kInfinity);
  }
}

TEST(Ranges, ChoicesAreListed) {
  ErrorCode code{};
  EXPECT_EQ(fault(train({"--device", "gpu"}), &code),
            "--device is 'gpu', but must be auto, cuda or cpu.");
  EXPECT_EQ(code, ErrorCode::kParameterParsing);
  EXPECT_EQ(fault(train({"--normalization", "imagnet"})),
            "--normalization is 'imagnet', but must be auto, half or imagenet.");
  EXPECT_NE(fault(train({"--save", "first"})).find("must be best or last"), std::string::npos);
  EXPECT_NE(fault(train({"--on-bad-image", "stop"})).find("must be skip or fail"),
            std::string::npos);
}

TEST(Ranges, DemoData) {
  const auto demo = [](const Words& more) {
    Words words = {"demo-data", "--output-path", "d"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  ErrorCode code{};
  fault(demo({"--classes", "0"}), &code);
  EXPECT_EQ(code, ErrorCode::kGreaterThan);
  fault(demo({"--size", "4"}), &code);
  EXPECT_EQ(code, ErrorCode::kNotInRangeValue);
  EXPECT_NE(fault(demo({"--images", "5"})).find("3 classes need at least 6"), std::string::npos);
  EXPECT_EQ(fault(demo({"--images", "6"})), "no fault");
}

TEST(Allowance, ByDefaultIsThreeOrOnePercentButLessThanHalf) {
  const Allowance usual = parse_as<TrainConfig>(train()).data.max_bad_images;
  EXPECT_EQ(usual, parse_as<TrainConfig>(train({"--max-bad-images=auto"})).data.max_bad_images);
  EXPECT_EQ(usual, parse_as<ScoreConfig>({"score", "--trained-model-path=m", "--data-path=d"})
                       .prediction.max_bad_images);
  const std::pair<std::int64_t, std::int64_t> cases[] = {{0, 0},   {1, 0},   {2, 0},      {3, 1},
                                                         {4, 1},   {6, 2},   {7, 3},      {300, 3},
                                                         {399, 3}, {400, 4}, {12345, 123}};
  for (const auto& [total, allowed] : cases) EXPECT_EQ(usual.of(total), allowed) << total;
}

TEST(Allowance, SharesAreRoundedDownButNotToZero) {
  const auto of = [](const char* text, std::int64_t total) {
    return parse_as<TrainConfig>(train({"--max-bad-images", text})).data.max_bad_images.of(total);
  };
  EXPECT_EQ(of("1%", 44), 1);
  EXPECT_EQ(of("1%", 99), 1);
  EXPECT_EQ(of("0%", 99), 0);
  EXPECT_EQ(of("0", 99), 0);
  EXPECT_EQ(of("1%", 100), 1);
  EXPECT_EQ(of("1%", 199), 1);
  EXPECT_EQ(of("0.5%", 1000), 5);
  EXPECT_EQ(of("29%", 100), 29);
  EXPECT_EQ(of("100%", 12345), 12345);
  EXPECT_EQ(of("7", 3), 7);
  for (const char* text : {"2", "50%"}) EXPECT_EQ(of(text, 4), 2) << "what is given is meant";
  for (int percent = 0; percent <= 100; ++percent) {
    EXPECT_EQ(of((std::to_string(percent) + "%").c_str(), 100), percent);
  }
}

}  // namespace
}  // namespace kiln
