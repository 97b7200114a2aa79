#include "data/stream/stream_loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "data/dataset/dataset.h"

namespace kiln {
namespace {

constexpr std::uint64_t kShuffleDraws = 0x73747265616d;  // distinct from other keys
constexpr std::size_t kMaxNamed = 5;
constexpr auto kBetweenLooks = std::chrono::milliseconds(50);  // between checks for stop signals

// An image of a stream.
struct Arrival {
  StreamRecord record;
  std::uint32_t number = 0;  // in the epoch, in order of arrival
  int label = 0;
};

// Shuffles a stream: each image that leaves is drawn from those in the buffer, by the key and the
// order of arrival alone. Holds at most `most` images, fewer if they average more than 1 MiB.
class ShuffleBuffer {
 public:
  // With `most` 1 the order does not change.
  ShuffleBuffer(std::size_t most, const RandomSequence& key) : most_(most), random_(key) {}

  static std::size_t max_bytes(std::size_t most) { return most << 20; }

  bool empty() const { return images_.empty(); }
  bool is_full() const { return images_.size() >= most_ || bytes_ >= max_bytes(most_); }
  void push(Arrival image) {
    bytes_ += image.record.bytes.size();
    images_.push_back(std::move(image));
  }
  // The buffer must not be empty.
  Arrival pop() {
    std::swap(images_[random_.below(images_.size())], images_.back());
    Arrival image = std::move(images_.back());
    images_.pop_back();
    bytes_ -= image.record.bytes.size();
    return image;
  }

 private:
  const std::size_t most_;
  RandomSequence random_;
  std::vector<Arrival> images_;
  std::size_t bytes_ = 0;
};

// Returns a limit with which all images fit, whatever is lost at the ends of the cache's blocks.
std::size_t cache_bytes(const std::vector<Arrival>& images) {
  std::size_t largest = 1;
  for (const Arrival& image : images) largest = std::max(largest, image.record.bytes.size());
  return ImageCache::bytes_for(images.size(), largest);
}

// The images of one step, in the cache of a BatchLoader until they are turned into batches. Random
// augmentation is keyed by the epoch, the step and the image's place in the step.
class StepImages {
 public:
  // The pool must outlive this object. `step` counts from 0 within the epoch.
  StepImages(const StreamPlan& plan, LoaderThreads& pool, int epoch, std::int64_t step,
             const std::vector<Arrival>& images)
      : cache_(CacheKind::kBytes, images.size(), cache_bytes(images)) {
    set_.root = plan.path;
    for (const Arrival& image : images) {
      const StreamRecord& record = image.record;
      const bool has_image = record.fault.empty() && !record.bytes.empty();
      cache_.keep(numbers_.size(), has_image ? record.bytes : "-");  // "-" is not an image
      bytes_ += record.bytes.size();
      set_.samples.add(record.name, image.label);
      numbers_.push_back(image.number);
      faults_.push_back(record.fault);
    }
    BatchPlan batches{
        .order = std::vector<std::uint32_t>(images.size()),
        .repeats = std::vector<std::uint32_t>(images.size(), static_cast<std::uint32_t>(step)),
        .batch_size = plan.batch_size,
        .pixels = plan.pixels,
        .scaling = plan.scaling,
        .seed = plan.seed,
        .epoch = static_cast<std::uint64_t>(epoch),
        .num_slots = plan.batches_per_step};
    std::iota(batches.order.begin(), batches.order.end(), 0U);
    loader_ = load_batches(set_, pool, std::move(batches), &cache_);
  }

  BatchLoader& loader() { return *loader_; }
  std::size_t bytes() const { return bytes_; }
  std::vector<BadImage> take_faults() {
    std::vector<BadImage> faults = loader_->take_faults();
    for (BadImage& fault : faults) {
      fault.name = set_.samples.file_name(fault.sample);
      if (!faults_[fault.sample].empty()) fault.fault = faults_[fault.sample];
      fault.sample = numbers_[fault.sample];
    }
    return faults;
  }

 private:
  Dataset set_;
  std::vector<std::uint32_t> numbers_;  // numbers of the images, in order of arrival
  std::vector<std::string> faults_;     // faults known before decoding
  std::size_t bytes_ = 0;
  ImageCache cache_;
  std::unique_ptr<BatchLoader> loader_;  // last, since it uses the others
};

// What the reading thread hands over, in order: a step, the end of an epoch, or a failure.
struct Item {
  int epoch = 0;
  std::unique_ptr<StepImages> images = {};  // of a step; otherwise nullptr
  std::int64_t steps = 0, arrived = 0;      // at an epoch's end: its steps and arrived images
  std::size_t left_over = 0;                // images at its end that do not fill a step
  std::uint64_t beginning = 0;              // Batches::beginning() of the epoch
  std::vector<std::string> notes = {};      // at the first epoch's end: what the stream left out
  std::exception_ptr failure = nullptr;
};

}  // namespace

void StreamSilence::judge(const std::string& name) {
  if (const std::uint64_t now = watch_.received; now != std::exchange(received_, now))
    without_data_ = {};
  if (const std::uint64_t now = watch_.images; now != std::exchange(images_, now)) {
    without_image_ = {};
    next_warning_ = limits_.warning_seconds;
  }
  const double seconds = without_image_.seconds();
  const bool is_over = seconds >= limits_.deadline_seconds;
  if (!is_over && seconds < next_warning_) return;
  const WriterState state = watch_.state;
  const bool sends_data = without_data_.seconds() <= seconds / 2;
  const std::string text = name +
                           (state == WriterState::kAbsent      ? " does not exist"
                            : state == WriterState::kUnwritten ? " is a pipe without a writer"
                            : sends_data                       ? " has sent data but no image"
                                                               : " has sent no data") +
                           formatted(" for %.0f s", sends_data ? seconds : without_data_.seconds());
  if (is_over)
    throw Error(ErrorCode::kInvalidDataset,
                text + (sends_data ? ". Check" : ". Start") +
                    " the program that writes it, or wait longer with --collective-timeout.");
  next_warning_ += limits_.warning_seconds;
  warn_(text + "; training is waiting for it");
}

ClassIds::ClassIds(const std::vector<std::string>& classes, int first, Numbers numbers,
                   std::string stream)
    : first_(first), numbers_(numbers), stream_(std::move(stream)) {
  for (std::size_t id = 0; id < classes.size(); ++id) {
    ids_.emplace(classes[id], static_cast<int>(id));
    if (is_class_number(classes[id]) &&
        class_number(classes[id]) - first != static_cast<std::int64_t>(id))
      has_confusing_names_ = true;
  }
}

int ClassIds::of(const RawLabel& label, const std::string& image) const {
  if (label == RawLabel{})
    throw Error(ErrorCode::kNotLabeledDataset,
                stream_ + ": the image '" + image +
                    "' has no label. Give a tar with a .cls file next to each image or a folder "
                    "for each class, or records with a label.");
  if (const auto named = ids_.find(label.name); named != ids_.end()) return named->second;
  const auto named = ids_.find(label.text);
  const bool is_line =
      numbers_ != Numbers::kNames && (label.is_number || numbers_ == Numbers::kLines);
  if (named != ids_.end() && !is_line) return named->second;
  std::int64_t number = -1;
  if (is_line || (numbers_ != Numbers::kNames && !has_confusing_names_))
    number = class_number(label.text);
  if (number >= first_ && static_cast<std::size_t>(number - first_) < ids_.size())
    return static_cast<int>(number - first_);
  const std::string& shown = label.name.empty() ? label.text : label.name;
  throw Error(ErrorCode::kInvalidDataset,
              stream_ + ": the image '" + image + "' has the label '" + excerpt(shown) +
                  "', which is not one of the " + std::to_string(ids_.size()) +
                  " classes, whose numbers count from " + std::to_string(first_) +
                  ". Give a --classes file that lists it, or another --first-label, or remove the "
                  "image.");
}

class StreamLoader::State {
 public:
  State(StreamPlan plan, LoaderThreads& pool, int first_epoch, int steps_done)
      : plan_(std::move(plan)),
        pool_(pool),
        first_epoch_(first_epoch),
        steps_done_(steps_done),
        source_(plan_.path, plan_.records, watch_),
        ids_(plan_.classes, plan_.records.first_label.value_or(0), plan_.numbers,
             plan_.name + " '" + plan_.path + "'"),
        has_come_(plan_.classes.size()),
        reader_([this] { read(); }) {}
  ~State() {
    watch_.closing = true;
    const std::scoped_lock lock(mutex_);
    went_.notify_all();
  }

  const StreamPlan& plan() const { return plan_; }
  // Steps of this epoch that were done before the run was resumed.
  int steps_done(int epoch) const { return epoch == first_epoch_ ? steps_done_ : 0; }
  // The name in errors: "Training dataset '/data/train_3'".
  std::string name(int epoch) const {
    return plan_.name + " '" + stream_path(plan_.path, epoch - first_epoch_) + "'";
  }

  // Waits for the next item of this epoch; nullptr on a stop signal. Rethrows a failure of the
  // reading thread. Valid until the next call of await() or take().
  const Item* await(int epoch) {
    StreamSilence silence(watch_, plan_.silence, plan_.warn);
    std::vector<std::unique_ptr<StepImages>> passed_over;  // destroyed after the lock is released
    std::unique_lock lock(mutex_);
    while (true) {
      while (!items_.empty() && items_.front().epoch < epoch && !items_.front().failure) {
        if (items_.front().images) ahead_bytes_ -= items_.front().images->bytes();
        passed_over.push_back(std::move(items_.front().images));
        items_.pop_front();
        went_.notify_one();
      }
      if (!items_.empty()) break;
      if (stop_signal() != 0) return nullptr;
      came_.wait_for(lock, kBetweenLooks);
      silence.judge(name(epoch));
    }
    if (items_.front().failure) std::rethrow_exception(items_.front().failure);
    return &items_.front();
  }

  std::unique_ptr<StepImages> take() {
    const std::scoped_lock lock(mutex_);
    std::unique_ptr<StepImages> images = std::move(items_.front().images);
    items_.pop_front();
    ahead_bytes_ -= images->bytes();
    went_.notify_one();
    return images;
  }

 private:
  // Runs in the reading thread, as what follows does.
  void read() {
    int epoch = first_epoch_;
    try {
      for (; !watch_.closing; ++epoch) read_epoch(epoch);
    } catch (const StreamClosed&) {
    } catch (const std::runtime_error& fault) {  // StreamFault, ArchiveFault, RecordFault
      hand_over({.epoch = epoch,
                 .failure = std::make_exception_ptr(error_of_stream(name(epoch), fault))});
    } catch (...) {
      hand_over({.epoch = epoch, .failure = std::current_exception()});
    }
  }

  void read_epoch(int epoch) {
    bool goes_on = source_.begin_epoch(epoch - first_epoch_);
    Item end{.epoch = epoch};
    // What a pipe's writer left over after an epoch with all its steps does not count as an epoch
    // if it does not fill a step: the epoch then begins with the pipe's next writer.
    while (!read_images(end) && goes_on && end.steps == 0 && source_.reopen()) goes_on = false;
    end.left_over = step_.size();
    if (epoch == first_epoch_) {
      end.notes = source_.left_out().notes();
      // A set says this before the first step; a stream shows it only now.
      std::vector<std::string> missing;
      for (std::size_t id = 0; id < has_come_.size(); ++id)
        if (!has_come_[id]) missing.push_back(plan_.classes[id]);
      if (!missing.empty())
        end.notes.push_back(
            formatted("the first epoch had no image of %zu of the %zu classes: ", missing.size(),
                      has_come_.size()) +
            quoted_names(missing, kMaxNamed) +
            ". They are not learned from such epochs: shuffle the images before they are written, "
            "as `kiln pack --shuffle` does, or give more --steps-per-epoch");
    }
    hand_over(std::move(end));
  }

  // Reads the images of an epoch. False if the stream ended before the epoch had all of them.
  bool read_images(Item& end) {
    const auto most =
        plan_.steps_per_epoch * static_cast<std::int64_t>(plan_.step_images()) * plan_.keep_one_of;
    ShuffleBuffer buffer(plan_.shuffle_buffer,
                         {plan_.seed, static_cast<std::uint64_t>(end.epoch), kShuffleDraws});
    // The rank that keeps the first of every keep_one_of images has its first step then.
    const auto beginning =
        static_cast<std::int64_t>(plan_.step_images() - 1) * plan_.keep_one_of + 1;
    ContentHash hash(0);
    step_.clear();
    end.steps = end.arrived = 0;
    while (end.arrived < most) {
      Arrival image;
      if (!source_.next(image.record)) break;
      const std::int64_t number = end.arrived++;
      if (number < beginning) {
        const RawLabel& label = image.record.label;
        hash.add(label.is_number || label.text.empty() ? label.name : label.text);
        hash.add(label.is_number ? label.text : "-1");
        hash.add(image.record.bytes);
        if (number + 1 == beginning) end.beginning = hash.value();
      }
      const StreamRecord& record = image.record;
      if (record.fault.empty()) {
        image.label = ids_.of(record.label, record.name);
        has_come_[static_cast<std::size_t>(image.label)] = true;
      }
      if (number % plan_.keep_one_of != plan_.keep_which) continue;
      image.number = static_cast<std::uint32_t>(number);
      buffer.push(std::move(image));
      if (buffer.is_full()) mixed(buffer.pop(), end);
    }
    while (!buffer.empty()) mixed(buffer.pop(), end);
    return end.arrived == most;
  }

  // Adds a shuffled image to the step, and hands the step over once it is full. Steps that were
  // done before are skipped without being decoded.
  void mixed(Arrival image, Item& end) {
    step_.push_back(std::move(image));
    if (step_.size() < plan_.step_images()) return;
    const std::vector<Arrival> images = std::exchange(step_, {});
    const std::int64_t step = end.steps++;
    if (step < steps_done(end.epoch)) return;
    hand_over({.epoch = end.epoch,
               .images = std::make_unique<StepImages>(plan_, pool_, end.epoch, step, images),
               .beginning = end.beginning});
  }

  void hand_over(Item item) {
    std::unique_lock lock(mutex_);
    went_.wait(lock, [&] { return has_room() || watch_.closing; });
    if (watch_.closing) return;
    if (item.images) ahead_bytes_ += item.images->bytes();
    items_.push_back(std::move(item));
    came_.notify_one();
  }

  // There is always room for two steps, so that one is decoded while the other is trained on, and
  // for more as far as the limits allow, to keep all threads busy.
  bool has_room() const {
    const auto most = static_cast<std::size_t>(plan_.num_slots / plan_.batches_per_step);
    return items_.size() < 2 || (items_.size() < most && ahead_bytes_ < StreamLoader::kAheadBytes);
  }

  const StreamPlan plan_;
  LoaderThreads& pool_;
  const int first_epoch_, steps_done_;
  StreamWatch watch_;

  std::mutex mutex_;
  std::condition_variable came_, went_;
  std::deque<Item> items_;
  std::size_t ahead_bytes_ = 0;

  // Used only by the reading thread.
  StreamSource source_;
  const ClassIds ids_;
  std::vector<bool> has_come_;  // by class: an image of it
  std::vector<Arrival> step_;   // the step that is being filled
  std::jthread reader_;         // last, so that it stops first
};

class StreamLoader::Epoch final : public Batches {
 public:
  Epoch(State& stream, int epoch) : stream_(stream), epoch_(epoch) {}

  bool await_step() override {
    if (is_over_) return false;
    const Stopwatch watch;
    const Item* item = stream_.await(epoch_);
    waited_s_ += watch.seconds();
    if (item != nullptr) beginning_ = item->beginning;
    if (item != nullptr && !item->images) end(*item);
    return item != nullptr && item->images != nullptr;
  }

  const HostBatch* next() override {
    while (true) {
      if (images_) {
        if (const HostBatch* batch = images_->loader().next()) return batch;
        for (BadImage& fault : images_->take_faults()) faults_.push_back(std::move(fault));
        waited_s_ += images_->loader().wait_seconds();
        images_.reset();
      }
      if (!await_step()) return nullptr;
      images_ = stream_.take();
      ++steps_;
    }
  }

  std::uint64_t beginning() const override { return beginning_; }

  void end_here() override {
    if (!std::exchange(is_over_, true))
      stream_.plan().warn(
          formatted("%s: epoch %d ends after %lld of %lld steps, since the stream of another rank "
                    "ended; the rest of this one is left over",
                    stream_.name(epoch_).c_str(), epoch_, stream_.steps_done(epoch_) + steps_,
                    static_cast<long long>(stream_.plan().steps_per_epoch)));
  }

  bool was_cut_short() const override { return false; }

  std::vector<BadImage> take_faults() override {
    if (images_)
      for (BadImage& fault : images_->take_faults()) faults_.push_back(std::move(fault));
    return std::exchange(faults_, {});
  }

  double wait_seconds() const override {
    return waited_s_ + (images_ ? images_->loader().wait_seconds() : 0);
  }

 private:
  void end(const Item& item) {
    is_over_ = true;
    const StreamPlan& plan = stream_.plan();
    const std::string name = stream_.name(epoch_);
    for (const std::string& note : item.notes) plan.warn(name + ": " + note);
    if (item.steps == 0)
      throw Error(
          ErrorCode::kInvalidDataset,
          name + formatted(
                     ": the stream ended after %lld images of epoch %d, but a step needs %zu. Give "
                     "more images or fewer --epochs, or write to the pipe again for each epoch.",
                     static_cast<long long>(item.arrived), epoch_,
                     plan.step_images() * static_cast<std::size_t>(plan.keep_one_of)));
    if (item.steps < stream_.steps_done(epoch_))
      throw Error(ErrorCode::kInvalidDataset,
                  name + formatted(": the stream ended after %lld steps of epoch %d, before the "
                                   "position of the checkpoint: it is a different stream. Give the "
                                   "original one, or use --resume never.",
                                   static_cast<long long>(item.steps), epoch_));
    if (item.steps < plan.steps_per_epoch)
      plan.warn(name + formatted(": the stream ended after %lld of %lld steps of epoch %d; %zu "
                                 "images are left over",
                                 static_cast<long long>(item.steps),
                                 static_cast<long long>(plan.steps_per_epoch), epoch_,
                                 item.left_over));
  }

  State& stream_;
  const int epoch_;
  std::unique_ptr<StepImages> images_;  // of the current step
  long long steps_ = 0;
  bool is_over_ = false;
  std::uint64_t beginning_ = 0;
  std::vector<BadImage> faults_;
  double waited_s_ = 0;
};

StreamLoader::StreamLoader(StreamPlan plan, LoaderThreads& pool, int first_epoch, int steps_done)
    : state_(std::make_unique<State>(std::move(plan), pool, first_epoch, steps_done)) {}

StreamLoader::~StreamLoader() = default;

std::unique_ptr<Batches> StreamLoader::epoch(int epoch) {
  return std::make_unique<Epoch>(*state_, epoch);
}

std::size_t StreamLoader::max_memory_bytes(const StreamPlan& plan) {
  constexpr std::size_t kSteps = 4;  // one in training, two ahead, one waiting for room
  return ShuffleBuffer::max_bytes(plan.shuffle_buffer) + kAheadBytes +
         kSteps * plan.step_images() * image_bytes(plan.pixels) * sizeof(float);
}

}  // namespace kiln
