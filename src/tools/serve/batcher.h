// Gathers the images of all requests into batches. Loader threads read requests and decode images,
// one thread asks the model, and the queue is bounded.
//
// An idle model gets an image at once. Images are gathered only while it is busy. Then a GPU gets
// all that are ready, at most a batch, and waits for those that are being decoded as long as no
// image is delayed by more than --max-delay-ms. On CPUs an image takes nearly as long in a batch as
// alone, and whoever comes next waits for all of it: half of those that are ready are next, which
// halves the latency that one in a hundred exceeds.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cli/run_config.h"
#include "data/loader/loader_threads.h"
#include "predict/job.h"
#include "tools/serve/metrics.h"
#include "tools/serve/served_model.h"

namespace kiln {

class Batcher {
 public:
  // A place for images in the queue, which is free again when the last copy ends.
  using Place = std::shared_ptr<void>;

  // Gets the answers in the order of the images, on a loader thread; none if the model failed or
  // memory was short, which the log tells.
  using Use = std::function<void(std::vector<ServedAnswer>)>;

  // The arguments must outlive it.
  Batcher(const ServeConfig& config, const PredictionJob& job, ServerMetrics& metrics);
  ~Batcher();  // drops what is not answered

  // nullptr if the queue has no room for so many images.
  Place take_place(std::size_t images);
  // Runs `work` on a loader thread.
  void run(std::function<void()> work);
  // Answers at least one image, for which there is a place.
  void ask(std::shared_ptr<ServedModel> model, std::vector<EncodedImage> images, Use use);

  std::size_t num_queued() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Job = std::function<void(LoaderThreads::Decoder&)>;

  // The images of a request. Each answer is written by one thread.
  struct Group {
    std::shared_ptr<ServedModel> model;
    std::vector<EncodedImage> images;
    std::vector<ServedAnswer> answers;
    std::size_t num_missing = 0;  // guarded by mutex_
    bool has_failed = false;      // likewise
    Use use;
  };

  struct ReadyImage {
    std::shared_ptr<Group> group;
    std::size_t place = 0;
    PreparedImage image;
    Clock::time_point since;
  };

  // The jobs of the loader threads, in the order of their numbers.
  class Jobs;

  void prepare(const std::shared_ptr<Group>& group, std::size_t place,
               LoaderThreads::Decoder& decoder);
  void finish(const std::shared_ptr<Group>& group, bool has_failed);  // one of its images
  void answer_batches();
  std::vector<ReadyImage> next_batch(std::unique_lock<std::mutex>& lock, bool was_gathered);
  void answer(std::vector<ReadyImage>& batch);

  const ServeConfig& config_;
  const PredictionJob& job_;
  ServerMetrics& metrics_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ReadyImage> ready_;
  std::size_t num_decoding_ = 0, num_queued_ = 0;
  bool is_stopping_ = false;

  LoaderThreads pool_;
  std::unique_ptr<Jobs> jobs_;
  std::thread model_thread_;
};

}  // namespace kiln
