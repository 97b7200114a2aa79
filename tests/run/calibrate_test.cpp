// Calibration as training does it: from the logits of its validation images to the temperature and
// to what is answered at which confidence, beside counting one by one.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "record/evaluation.h"
#include "run/judge.h"

namespace kiln {
namespace {

constexpr int kNumClasses = 6;
constexpr double kWanted[] = {0.9, 0.95, 0.98, 0.99, 0.999};

// Labels are drawn from the softmax of logits, which are then multiplied by `temperature`.
HostLogits drawn_logits(int count, double temperature) {
  RandomSequence random({5, static_cast<std::uint64_t>(count)});
  HostLogits drawn{at::empty({count, kNumClasses}), {}};
  auto* logit = drawn.logits.data_ptr<float>();
  for (int i = 0; i < count; ++i) {
    double weights[kNumClasses], sum = 0;
    for (double& weight : weights) {
      const double value = 16 * random.uniform();
      *logit++ = static_cast<float>(value * temperature);
      weight = std::exp(value);
      sum += weight;
    }
    double left = random.uniform() * sum;
    int label = 0;
    while (label + 1 < kNumClasses && (left -= weights[label]) > 0) ++label;
    drawn.labels.push_back(label);
  }
  return drawn;
}

// What is answered from `threshold` on, by a softmax in double precision.
AnswerRate counted_rate(const HostLogits& images, double temperature, double threshold) {
  const at::Tensor probabilities = (images.logits.to(at::kDouble) / temperature).softmax(1);
  const auto [confidence, guess] = probabilities.max(1);
  AnswerRate rate{.threshold = threshold,
                  .images = static_cast<std::int64_t>(images.labels.size())};
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    if (confidence.const_data_ptr<double>()[i] < threshold) continue;
    ++rate.answered;
    rate.right += guess.const_data_ptr<std::int64_t>()[i] == images.labels[i] ? 1 : 0;
  }
  return rate;
}

TEST(Calibrate, FindsTheTemperatureAndWhatIsAnsweredAtIt) {
  World world;
  const HostLogits images = drawn_logits(3000, 2.0);
  const Calibration calibration = calibrate(world, images);
  EXPECT_NEAR(calibration.temperature / 2, 1, 0.1);
  std::int64_t num_images = 0;
  for (const AnswerBin& bin : calibration.answers) {
    EXPECT_GT(bin.images, 0) << "empty bins are left out";
    num_images += bin.images;
  }
  EXPECT_EQ(num_images, 3000);
  for (const double wanted : kWanted) {
    const auto rate = answer_rate_for(calibration.answers, wanted);
    ASSERT_TRUE(rate.has_value()) << wanted;
    EXPECT_GE(rate->accuracy(), wanted);
    // A confidence on a bound may be rounded to its other side.
    const AnswerRate counted = counted_rate(images, calibration.temperature, rate->threshold);
    EXPECT_NEAR(static_cast<double>(rate->answered), static_cast<double>(counted.answered), 3);
    EXPECT_NEAR(static_cast<double>(rate->right), static_cast<double>(counted.right), 3);
  }
}

TEST(Calibrate, PromisesNothingOfFewImages) {
  World world;
  const Calibration few = calibrate(world, drawn_logits(299, 1.0));
  for (const double wanted : kWanted) {
    const auto rate = answer_rate_for(few.answers, wanted);
    ASSERT_TRUE(rate.has_value()) << wanted;
    EXPECT_FALSE(rate->can_be_promised()) << wanted;
  }
  const auto rate = answer_rate_for(calibrate(world, drawn_logits(3000, 1.0)).answers, 0.9);
  ASSERT_TRUE(rate.has_value());
  EXPECT_TRUE(rate->can_be_promised());
}

TEST(Calibrate, OfNoImagesIsUnknown) {
  World world;
  EXPECT_EQ(calibrate(world, {}), Calibration{});
}

}  // namespace
}  // namespace kiln
