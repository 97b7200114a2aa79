// The learning rate of an epoch: linear warm-up from 1e-4, then a polynomial of power 2 down to
// 1e-7.
//
//   e < W:  rate = 1e-4 + (L - 1e-4) * e / W
//   e >= W: rate = (L - 1e-7) * (1 - (e - W) / (E - W))^2 + 1e-7        e from 0
#pragma once

namespace kiln {

struct Schedule {
  int epochs = 1;         // E
  int warmup_epochs = 0;  // W; W >= E never reaches the peak
  double peak = 0.001;    // L

  double rate(int epoch) const;  // epoch from 0 to epochs - 1
  bool rises_below_start() const {
    return peak < kFloor || (warmup_epochs > 0 && peak < kWarmupStart);
  }

  static constexpr double kWarmupStart = 1e-4;
  static constexpr double kFloor = 1e-7;
};

}  // namespace kiln
