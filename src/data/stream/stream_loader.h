// Images of a stream -> batches. A thread reads ahead and mixes; LoaderThreads decode.
//
// An epoch has the images of `steps_per_epoch` steps, in the order of a ShuffleBuffer, or those
// that come before the stream's end; of these, whole steps. Where epochs have no stream of their
// own, the next one begins behind the last image of the one before.
//
// Memory is bounded: the shuffle buffer, kAheadBytes of images that are mixed and not yet trained
// on or those of two steps, and the batches and decoders of a BatchLoader.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/record_options.h"
#include "data/loader/batches.h"
#include "data/loader/loader_threads.h"
#include "data/stream/stream_silence.h"
#include "data/transform/image_pipeline.h"

namespace kiln {

class StreamLoader {
 public:
  struct Plan {
    std::string path;  // is_stream_path()
    std::string name;  // in errors: "Training dataset"
    std::vector<std::string> classes;
    RecordOptions records = {};  // for TFRecord and RecordIO; first_label empty: 0
    std::int64_t steps_per_epoch = 1;
    int batch_size = 1, batches_per_step = 1;
    std::size_t shuffle_buffer = 1;  // images
    // Of every `keep_one_of` images that come, this rank takes one.
    int keep_one_of = 1, keep_which = 0;
    TransformSpec pixels;
    // Instead of it where epochs differ; called by the reading thread.
    std::function<TransformSpec(int epoch)> pixels_of = {};
    std::optional<Normalization> scaling;  // as in BatchLoader::Plan
    std::uint64_t seed = 0;
    int num_slots = 4;  // batches that may be decoded ahead
    StreamSilence::Limits silence = {};
    StreamSilence::Warn warn;

    std::size_t step_images() const;
  };
  static constexpr std::size_t kAheadBytes = std::size_t{64} << 20;

  // Reads from the first epoch on, without its first `steps_done` steps, whose images are not
  // decoded. The pool must outlive it.
  StreamLoader(Plan plan, LoaderThreads& pool, int first_epoch, int steps_done);
  ~StreamLoader();

  // The epochs after each other, from the first one on; it must end before the next one is asked
  // for. What it has not taken is left over. Its errors are Error kInvalidDataset: the stream is
  // damaged, ends before its first step, or sends nothing for too long; or of ClassIds::of().
  std::unique_ptr<Batches> epoch(int epoch);

  // Upper bound of all but the pool's.
  static std::size_t most_memory_bytes(const Plan& plan);

 private:
  class State;
  class Epoch;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
