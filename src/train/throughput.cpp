#include "train/throughput.h"

#include <chrono>
#include <utility>

namespace kiln {
namespace {

double seconds_between(Throughput::Time begin, Throughput::Time end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

void Throughput::forwarded(int images, Time now) {
  epoch_.images += images;
  images_ += images;
  ++batches_;
  if (is_queued_) return;
  const int counted = count(now);
  epoch_.weighted_seconds += rates_.batch_seconds * counted;
  epoch_.weighted_rate += rates_.batch_images_per_second * counted;
  if (epoch_.images == 0) return;  // only bad images so far
  rates_.epoch_seconds = epoch_.weighted_seconds / epoch_.images;
  rates_.epoch_images_per_second = epoch_.weighted_rate / epoch_.images;
}

void Throughput::waited(Time now) {
  if (!is_queued_ || batches_ == 0) return;
  count(now);
  const double elapsed = seconds_before_ + seconds_between(begin_, now);
  rates_.epoch_seconds = elapsed / (epoch_.steps * batches_per_step_);
  rates_.epoch_images_per_second = epoch_.images / elapsed;
  epoch_.weighted_seconds = rates_.epoch_seconds * epoch_.images;
  epoch_.weighted_rate = rates_.epoch_images_per_second * epoch_.images;
}

int Throughput::count(Time now) {
  const double seconds = seconds_between(counted_, now);
  rates_.batch_seconds = seconds / batches_;
  rates_.batch_images_per_second = images_ / seconds;
  counted_ = now;
  batches_ = 0;
  return std::exchange(images_, 0);
}

}  // namespace kiln
