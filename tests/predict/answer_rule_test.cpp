#include "predict/answer_rule.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

TEST(SeveralLabels, DecideByCalibratedProbabilitiesWhateverIsWritten) {
  Calibration calibration;
  calibration.labels = {{9, 0.6}, {9, 0.6}, {0.1, 0.6}};
  ModelSpec spec;
  spec.task = TaskKind::kMultiLabel;
  const auto rule = rule_of(spec, calibration);
  const at::Tensor logits = at::tensor({1.0F, 4.0F, 0.1F}).reshape({1, 3});
  for (const bool is_raw : {false, true}) {
    const Score score = rule->answers(
        logits, {.thresholds = rule->thresholds({}, {}), .all_classes = true, .is_raw = is_raw})[0];
    EXPECT_EQ(score.labels, (std::vector{1, 2}));
    ASSERT_EQ(score.best.size(), 2U);
    EXPECT_EQ(score.best[0].id, is_raw ? 1 : 2) << "the likeliest of those that are written";
    EXPECT_EQ(score.best[0].confidence, score.probabilities[is_raw ? 1 : 2]);
  }
}

}  // namespace
}  // namespace kiln
