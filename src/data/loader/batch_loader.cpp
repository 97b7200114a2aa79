#include "data/loader/batch_loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <utility>

#include "base/error.h"
#include "data/image/image.h"
#include "data/loader/folder_watch.h"
#include "data/transform/image_pipeline.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

// One image's slot in a batch: written by the thread that claimed it, read once the batch is
// complete.
struct SampleSlot {
  bool is_usable = false;
  std::string fault;
};

struct Slot {
  HostBatch batch;
  std::vector<SampleSlot> places;
  int remaining = 0;  // images not yet done
};

// A file read before a decoder needs it.
struct ReadAhead {
  bool ready = false;
  std::string bytes;
  std::exception_ptr fault;
};

std::ptrdiff_t memory_of(const ReadAhead& ahead) {
  return static_cast<std::ptrdiff_t>(ahead.bytes.capacity());
}

class Timer {
 public:
  explicit Timer(std::atomic<std::int64_t>& sum) : sum_(sum) {}
  ~Timer() { sum_ += (Clock::now() - begin_).count(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  std::atomic<std::int64_t>& sum_;  // in clock ticks
  const Clock::time_point begin_ = Clock::now();
};

double seconds_of(std::int64_t ticks) {
  return std::chrono::duration<double>(Clock::duration(ticks)).count();
}

TransformSpec decoded_form(const TransformSpec& plan, const ImageCache* cache) {
  return cache != nullptr && cache->kind() == CacheKind::kDecoded ? kept_form(plan) : plan;
}

}  // namespace

class BatchLoader::State final : public LoaderThreads::BatchSource {
 public:
  State(Dataset& set, LoaderThreads& pool, Plan plan, ImageCache* cache);
  ~State() override;

  std::size_t num_batches() const { return num_batches_; }
  const HostBatch* next();
  std::vector<BadImage> take_faults() { return std::exchange(faults_, {}); }
  bool was_cut_short() const { return cut_short_; }
  double waited_s() const { return waited_s_; }
  LoaderTimes times() const {
    return {seconds_of(read_ticks_),
            bytes_read_,
            {decode_seconds_, resample_seconds_, augment_seconds_},
            seconds_of(scale_ticks_)};
  }

 private:
  bool claim_image(std::size_t* position) override;
  void load(std::size_t position, LoaderThreads::Decoder& decoder) override;
  void loaded(std::size_t position, std::exception_ptr failure) override;
  bool claim_read(std::size_t* position) override;
  void read(std::size_t position) override;

  bool is_over() const { return failure_ != nullptr || next_position_ >= plan_.order.size(); }
  Slot& slot_of(std::size_t position) { return slots_[position / batch_size_ % slots_.size()]; }
  void prepare(Slot& slot, std::size_t batch);
  bool take_decoded(std::uint32_t sample, std::uint8_t* target) const;
  std::string decode(std::size_t position, LoaderThreads::Decoder& decoder, std::uint8_t* target);
  void scale(const std::vector<std::uint8_t>& pixels, std::uint8_t* target);
  std::string_view bytes_of(std::size_t position, LoaderThreads::Decoder& decoder);
  bool take_read_ahead(std::size_t position, std::string& bytes);
  void note(const PipelineTimes& times);
  const HostBatch* hand_out(std::size_t batch);

  Dataset& set_;
  LoaderThreads& pool_;
  FolderWatch& watch_;
  const Plan plan_;
  ImageCache* const cache_;
  const bool caches_pixels_;
  const std::size_t batch_size_, num_batches_;
  const std::size_t pixel_bytes_;               // of one image
  const std::size_t batch_bytes_, slot_bytes_;  // as returned: bytes or floats
  const TransformSpec decoded_plan_;            // what the cache stores

  // Guarded by the pool's mutex.
  std::condition_variable batch_done_, read_done_;
  std::vector<Slot> slots_;
  std::size_t next_position_ = 0;  // in the order; the next to be claimed
  std::size_t next_read_ = 0;      // the same, for readers
  std::size_t released_ = 0;       // batches that the consumer is done with
  std::map<std::size_t, ReadAhead> ahead_;
  std::exception_ptr failure_;

  std::atomic<std::int64_t> read_ticks_ = 0, scale_ticks_ = 0;
  std::atomic<double> decode_seconds_ = 0, resample_seconds_ = 0, augment_seconds_ = 0;
  std::atomic<std::uint64_t> bytes_read_ = 0;
  std::atomic<bool> closing_ = false, cut_short_ = false;

  // Used only by the consumer's thread.
  std::size_t next_batch_ = 0;
  std::vector<BadImage> faults_;
  double waited_s_ = 0;
};

BatchLoader::State::State(Dataset& set, LoaderThreads& pool, Plan plan, ImageCache* cache)
    : set_(set),
      pool_(pool),
      watch_(pool.watch_of(set.root)),
      plan_(std::move(plan)),
      cache_(cache),
      caches_pixels_(cache != nullptr && cache->kind() == CacheKind::kDecoded),
      batch_size_(static_cast<std::size_t>(std::max(1, plan_.batch_size))),
      num_batches_((plan_.order.size() + batch_size_ - 1) / batch_size_),
      pixel_bytes_(image_bytes(plan_.pixels)),
      batch_bytes_(plan_.batch_bytes()),
      slot_bytes_(batch_bytes_ / batch_size_),
      decoded_plan_(decoded_form(plan_.pixels, cache)),
      slots_(std::min(num_batches_, static_cast<std::size_t>(std::max(1, plan_.num_slots)))) {
  set_.samples.keep_hashes();
  pool_.add(*this);
}

BatchLoader::State::~State() {
  closing_ = true;
  pool_.remove(*this, waited_s_);
  const std::scoped_lock lock(pool_.mutex());
  for (Slot& slot : slots_)
    if (slot.batch.pixels) pool_.give_buffer_back(batch_bytes_, std::move(slot.batch.pixels));
  for (auto& [position, ahead] : ahead_) {
    pool_.count_read_ahead(-memory_of(ahead));
    pool_.give_file_buffer_back(std::move(ahead.bytes));
  }
  pool_.wake_readers();
}

bool BatchLoader::State::claim_image(std::size_t* position) {
  const std::size_t batch = next_position_ / batch_size_;
  if (is_over() || batch >= released_ + slots_.size()) return false;
  if (next_position_ % batch_size_ == 0) prepare(slot_of(next_position_), batch);
  if (failure_ != nullptr) return false;
  *position = next_position_++;
  return true;
}

void BatchLoader::State::prepare(Slot& slot, std::size_t batch) {
  const std::size_t count = std::min(batch_size_, plan_.order.size() - batch * batch_size_);
  slot.places.assign(count, SampleSlot{});
  slot.remaining = static_cast<int>(count);
  try {
    if (!slot.batch.pixels) slot.batch.pixels = pool_.take_buffer(batch_bytes_);
  } catch (...) {
    failure_ = std::current_exception();
    batch_done_.notify_one();
  }
}

void BatchLoader::State::load(std::size_t position, LoaderThreads::Decoder& decoder) {
  const std::size_t index = position % batch_size_;
  Slot& slot = slot_of(position);
  SampleSlot& place = slot.places[index];
  std::uint8_t* target = slot.batch.pixels.get() + index * slot_bytes_;
  try {
    if (plan_.scaling) {
      decoder.pixels.resize(pixel_bytes_);
      place.fault = decode(position, decoder, decoder.pixels.data());
      scale(decoder.pixels, target);
    } else {
      place.fault = decode(position, decoder, target);
    }
    place.is_usable = true;
  } catch (const ReadCutShort&) {
    cut_short_ = true;
  } catch (const ImageFault& fault) {
    place.fault = fault.what();
  } catch (const std::bad_alloc&) {
    const auto path = set_.root / set_.samples.file_name(plan_.order[position]);
    throw Error(ErrorCode::kModuleOutOfMemory,
                "Out of memory while loading the image '" + path.string() +
                    "': use fewer --loader-threads, or a machine with more memory.");
  }
}

// Returns the damage, if any. Throws ImageFault.
std::string BatchLoader::State::decode(std::size_t position, LoaderThreads::Decoder& decoder,
                                       std::uint8_t* target) {
  const std::uint32_t sample = plan_.order[position];
  const DrawKey key{plan_.seed, plan_.epoch, sample,
                    plan_.repeats.empty() ? 0 : plan_.repeats[position]};
  const std::string_view kept = caches_pixels_ ? cache_->find(sample) : std::string_view();
  std::string damage;
  if (!kept.empty()) {
    std::memcpy(target, kept.data(), kept.size());
  } else {
    const std::string_view bytes = bytes_of(position, decoder);
    damage = decoder.path.write(bytes, decoded_plan_, key, target);
    note(decoder.path.times());
    set_.samples.note_content(sample, bytes);
    if (caches_pixels_ && damage.empty())
      cache_->keep(sample, {reinterpret_cast<const char*>(target), pixel_bytes_});
  }
  if (caches_pixels_) decoder.path.augment(plan_.pixels, key, target);
  return damage;
}

void BatchLoader::State::scale(const std::vector<std::uint8_t>& pixels, std::uint8_t* target) {
  const Timer timer(scale_ticks_);
  normalize_pixels(pixels.data(), pixels.size() / 3, *plan_.scaling,
                   reinterpret_cast<float*>(target));
}

void BatchLoader::State::note(const PipelineTimes& times) {
  decode_seconds_ += times.decode;
  resample_seconds_ += times.resample;
  augment_seconds_ += times.augment;
}

// Returns the file's contents from the cache, the read-ahead, or the file. Throws ImageFault.
std::string_view BatchLoader::State::bytes_of(std::size_t position,
                                              LoaderThreads::Decoder& decoder) {
  const std::uint32_t sample = plan_.order[position];
  const bool caches_bytes = cache_ != nullptr && cache_->kind() == CacheKind::kBytes;
  if (caches_bytes)
    if (const std::string_view kept = cache_->find(sample); !kept.empty()) return kept;
  std::string& bytes = decoder.bytes;
  if (!take_read_ahead(position, bytes)) {
    const Clock::duration took = watch_.read(set_, sample, bytes, closing_);
    read_ticks_ += took.count();
    pool_.note_read(seconds_of(took.count()), bytes.size());
  }
  bytes_read_ += bytes.size();
  if (caches_bytes) cache_->keep(sample, bytes);
  return bytes;
}

// Takes a file that was read ahead, and waits for it if a reader has started on it. False if none
// has. Rethrows the reader's exception.
bool BatchLoader::State::take_read_ahead(std::size_t position, std::string& bytes) {
  std::unique_lock lock(pool_.mutex());
  const auto found = ahead_.find(position);
  if (found == ahead_.end()) return false;
  read_done_.wait(lock, [&] { return found->second.ready; });
  ReadAhead taken = std::move(found->second);
  ahead_.erase(found);
  pool_.count_read_ahead(-memory_of(taken));
  bytes.swap(taken.bytes);
  pool_.give_file_buffer_back(std::move(taken.bytes));
  lock.unlock();
  pool_.wake_readers();
  if (taken.fault) std::rethrow_exception(taken.fault);
  return true;
}

void BatchLoader::State::loaded(std::size_t position, std::exception_ptr failure) {
  if (failure != nullptr && failure_ == nullptr) failure_ = std::move(failure);
  if (--slot_of(position).remaining == 0 || failure_ != nullptr) batch_done_.notify_one();
}

bool BatchLoader::State::claim_read(std::size_t* position) {
  const auto distance = static_cast<std::size_t>(pool_.read_ahead());
  next_read_ = std::max(next_read_, next_position_);
  while (cache_ != nullptr && next_read_ < plan_.order.size() &&
         !cache_->find(plan_.order[next_read_]).empty())
    ++next_read_;
  if (is_over() || next_read_ >= std::min(plan_.order.size(), next_position_ + distance) ||
      !pool_.may_read_ahead(*this))
    return false;
  *position = next_read_++;
  ReadAhead& ahead = ahead_[*position];
  ahead.bytes = pool_.take_file_buffer();
  pool_.count_read_ahead(memory_of(ahead));
  return true;
}

// The file is read without the mutex: no other thread accesses a ReadAhead that is not ready.
void BatchLoader::State::read(std::size_t position) {
  std::unique_lock lock(pool_.mutex());
  ReadAhead& ahead = ahead_.at(position);
  lock.unlock();
  const std::ptrdiff_t before = memory_of(ahead);
  try {
    read_ticks_ += watch_.read(set_, plan_.order[position], ahead.bytes, closing_).count();
  } catch (...) {
    ahead.fault = std::current_exception();
  }
  lock.lock();
  pool_.count_read_ahead(memory_of(ahead) - before);
  ahead.ready = true;
  read_done_.notify_all();
}

const HostBatch* BatchLoader::State::next() {
  if (next_batch_ == num_batches_) return nullptr;
  const Clock::time_point begin = Clock::now();
  {
    std::unique_lock lock(pool_.mutex());
    if (std::exchange(released_, next_batch_) != next_batch_) pool_.wake_decoders();
    const Slot& slot = slots_[next_batch_ % slots_.size()];
    batch_done_.wait(lock, [&] {
      const bool claimed = next_position_ > next_batch_ * batch_size_;
      return failure_ != nullptr || (claimed && slot.remaining == 0);
    });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }
  waited_s_ += std::chrono::duration<double>(Clock::now() - begin).count();
  return hand_out(next_batch_++);
}

// Closes the gaps left by bad images, and records the faults.
const HostBatch* BatchLoader::State::hand_out(std::size_t number) {
  Slot& slot = slots_[number % slots_.size()];
  HostBatch& batch = slot.batch;
  batch.labels.clear();
  batch.samples.clear();
  batch.places.clear();
  for (std::size_t i = 0; i < slot.places.size(); ++i) {
    SampleSlot& place = slot.places[i];
    const std::uint32_t sample = plan_.order[number * batch_size_ + i];
    if (!place.fault.empty())
      faults_.push_back(
          {.sample = sample, .fault = std::move(place.fault), .damaged = place.is_usable});
    if (!place.is_usable) continue;
    const std::size_t target = batch.samples.size();
    if (target != i)
      std::memcpy(batch.pixels.get() + target * slot_bytes_, batch.pixels.get() + i * slot_bytes_,
                  slot_bytes_);
    batch.labels.push_back(set_.samples.label(sample));
    batch.samples.push_back(sample);
    batch.places.push_back(static_cast<std::uint32_t>(i));
  }
  batch.count = static_cast<int>(batch.samples.size());
  batch.nominal = static_cast<int>(slot.places.size());
  return &batch;
}

std::size_t BatchLoader::Plan::batch_bytes() const {
  return static_cast<std::size_t>(std::max(1, batch_size)) * image_bytes(pixels) *
         (scaling ? sizeof(float) : 1);
}

BatchLoader::BatchLoader(Dataset& set, LoaderThreads& pool, Plan plan, ImageCache* cache)
    : state_(std::make_unique<State>(set, pool, std::move(plan), cache)) {}

BatchLoader::~BatchLoader() = default;
BatchLoader::BatchLoader(BatchLoader&&) noexcept = default;

int BatchLoader::num_batches() const {
  return static_cast<int>(state_->num_batches());
}

const HostBatch* BatchLoader::next() {
  return state_->next();
}

bool BatchLoader::was_cut_short() const {
  return state_->was_cut_short();
}

std::vector<BadImage> BatchLoader::take_faults() {
  return state_->take_faults();
}

double BatchLoader::wait_seconds() const {
  return state_->waited_s();
}

LoaderTimes BatchLoader::times() const {
  return state_->times();
}

}  // namespace kiln
