// Turns the images of a stream into batches. One thread reads ahead and shuffles; LoaderThreads
// decode.
//
// An epoch consists of the images for `steps_per_epoch` steps, in the order of a ShuffleBuffer, or
// of those that arrive before the stream ends; of these, only full steps are used. If epochs do not
// have their own streams, each one continues after the last image of the previous one.
//
// Memory is bounded: the shuffle buffer; shuffled images that are waiting to be used, up to
// kAheadBytes or two steps; and the batches and decoders of a BatchLoader.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/system.h"
#include "data/dataset/dataset.h"
#include "data/loader/batch_loader.h"
#include "data/loader/loader_threads.h"
#include "data/stream/record_stream.h"
#include "data/transform/image_pipeline.h"
#include "record/vocabulary.h"

namespace kiln {

struct SilenceLimits {
  double warning_seconds = 60, deadline_seconds = 300;
};

// Warns of a stream that has sent no image while it was waited for, and gives up in the end. Use
// from one thread, other than the one that reads.
class StreamSilence {
 public:
  using Warn = std::function<void(const std::string&)>;

  // Starts the wait. All arguments must outlive this object.
  StreamSilence(const StreamWatch& watch, const SilenceLimits& limits, const Warn& warn)
      : watch_(watch), limits_(limits), warn_(warn), next_warning_(limits.warning_seconds) {}

  // Call it from time to time while waiting. Warns after every `warning_seconds` without an image,
  // even if other data arrives, since a stream may send that forever; throws Error kInvalidDataset
  // at the deadline. `name` is the name of the stream: "Training dataset '-'".
  void judge(const std::string& name);

 private:
  const StreamWatch& watch_;
  const SilenceLimits& limits_;
  const Warn& warn_;
  std::uint64_t received_ = watch_.received, images_ = watch_.images;
  Stopwatch without_data_, without_image_;
  double next_warning_;
};

// Maps the labels of a stream to classes that are known in advance.
class ClassIds {
 public:
  // What numbers are: the names of classes, as those of validation images without given names;
  // lines of the classes; or lines in records, but in texts only where no class has such a name.
  enum class Numbers { kNames, kLines, kLinesInRecords };

  // `first` is the number of the first class. `stream` is its name in errors: "Training dataset
  // '-'".
  ClassIds(const std::vector<std::string>& classes, int first, Numbers numbers, std::string stream);

  // Throws Error kNotLabeledDataset if there is no label, kInvalidDataset if there is no such
  // class.
  int of(const RawLabel& label, const std::string& image) const;

 private:
  std::unordered_map<std::string, int> ids_;
  int first_;
  Numbers numbers_;
  bool has_confusing_names_ = false;
  std::string stream_;
};

struct StreamPlan {
  std::string path;  // is_stream_path()
  std::string name;  // in errors: "Training dataset"
  std::vector<std::string> classes;
  ClassIds::Numbers numbers = ClassIds::Numbers::kLinesInRecords;
  RecordOptions records = {};  // for TFRecord and RecordIO; an empty first_label means 0
  std::int64_t steps_per_epoch = 1;
  int batch_size = 1, batches_per_step = 1;
  std::size_t shuffle_buffer = 1;  // images
  // This rank keeps one of every `keep_one_of` images that arrive, number `keep_which`.
  int keep_one_of = 1, keep_which = 0;
  TransformSpec pixels;
  std::optional<Normalization> scaling = {};  // as in BatchPlan
  std::uint64_t seed = 0;
  int num_slots = 4;  // batches that may be decoded ahead
  SilenceLimits silence = {};
  StreamSilence::Warn warn = {};

  std::size_t step_images() const {
    return static_cast<std::size_t>(batch_size) * static_cast<std::size_t>(batches_per_step);
  }
};

class StreamLoader {
 public:
  static constexpr std::size_t kAheadBytes = std::size_t{64} << 20;

  // Starts reading with epoch `first_epoch`, and skips its first `steps_done` steps, whose images
  // are not decoded. The pool must outlive the loader.
  StreamLoader(StreamPlan plan, LoaderThreads& pool, int first_epoch, int steps_done);
  ~StreamLoader();

  // Request the epochs in order, starting with the first one, and destroy each before requesting
  // the next. Images that an epoch has not used are skipped. Its methods throw Error
  // kInvalidDataset if the stream is damaged, ends before its first step, or sends nothing for too
  // long, and the errors of ClassIds::of().
  std::unique_ptr<Batches> epoch(int epoch);

  // Upper bound on memory, excluding that of the pool.
  static std::size_t max_memory_bytes(const StreamPlan& plan);

 private:
  class State;
  class Epoch;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
