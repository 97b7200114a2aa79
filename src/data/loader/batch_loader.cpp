#include "data/loader/batch_loader.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "data/image/image.h"

namespace kiln {
namespace {

constexpr std::size_t kCacheBlock = std::size_t{4} << 20;

// One image's slot in a batch: written by the thread that claimed it, read once the batch is
// complete.
struct SampleSlot {
  bool is_usable = false;
  std::string fault;
  LoaderTimes times;
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

}  // namespace

ImageCache::ImageCache(CacheKind kind, std::size_t num_items, std::size_t limit_bytes)
    : kind_(kind),
      limit_bytes_(limit_bytes),
      entries_(kind == CacheKind::kNone || table_bytes(num_items) > limit_bytes ? 0 : num_items),
      memory_bytes_(table_bytes(entries_.size())) {}

// The last block is for entries that two threads keep at once.
std::size_t ImageCache::bytes_for(std::size_t num_items, std::size_t bytes_each) {
  const std::size_t block = std::max(kCacheBlock, bytes_each);
  const std::size_t in_block = block / std::max<std::size_t>(bytes_each, 1);
  const std::size_t num_blocks = (num_items + in_block - 1) / in_block + 1;
  return table_bytes(num_items) + num_blocks * block;
}

std::string_view ImageCache::find(std::size_t sample) const {
  if (sample >= entries_.size()) return {};
  const char* begin = entries_[sample].begin.load(std::memory_order_acquire);
  return begin == nullptr ? std::string_view() : std::string_view(begin, entries_[sample].size);
}

char* ImageCache::allocate(std::size_t size) {
  if (blocks_.empty() || block_size_ - block_used_ < size) {
    const std::size_t left = limit_bytes_ - memory_bytes_;
    const std::size_t block = std::max(size, std::min(kCacheBlock, left));
    if (block > left) return nullptr;
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block));
    block_size_ = block;
    block_used_ = 0;
    memory_bytes_ += block;
  }
  char* buffer = blocks_.back().get() + block_used_;
  block_used_ += size;
  return buffer;
}

void ImageCache::keep(std::size_t sample, std::string_view what) {
  if (sample >= entries_.size() || what.empty() || entries_[sample].begin.load() != nullptr) return;
  char* buffer = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    buffer = allocate(what.size());
  }
  if (buffer == nullptr) return;
  std::memcpy(buffer, what.data(), what.size());
  const std::scoped_lock lock(mutex_);
  if (entries_[sample].begin.load() != nullptr) return;  // another thread was first
  entries_[sample].size = what.size();
  entries_[sample].begin.store(buffer, std::memory_order_release);
  ++num_kept_;
}

namespace {

class DatasetLoader final : public BatchLoader, public LoaderThreads::BatchSource {
 public:
  DatasetLoader(Dataset& set, LoaderThreads& pool, BatchPlan plan, ImageCache* cache)
      : plan_(std::move(plan)),
        batch_size_(static_cast<std::size_t>(std::max(1, plan_.batch_size))),
        num_batches_((plan_.order.size() + batch_size_ - 1) / batch_size_),
        set_(set),
        pool_(pool),
        watch_(pool.watch_of(set.image_root())),
        cache_(cache),
        cached_(cache == nullptr ? CacheKind::kNone : cache->kind()),
        pixel_bytes_(image_bytes(plan_.pixels)),
        batch_bytes_(plan_.batch_bytes()),
        slot_bytes_(batch_bytes_ / batch_size_),
        decoded_plan_(cached_ == CacheKind::kDecoded ? kept_form(plan_.pixels) : plan_.pixels),
        slots_(std::min(num_batches_, static_cast<std::size_t>(std::max(1, plan_.num_slots)))) {
    set_.samples.keep_hashes();
    pool_.add(*this);
  }

  ~DatasetLoader() override {
    closing_ = true;
    pool_.remove(*this, waited_s_);
    const std::scoped_lock lock(pool_.mutex());
    for (Slot& slot : slots_) slot.batch.release();
    for (Slot& slot : slots_)
      if (slot.batch.pixels) pool_.give_buffer_back(batch_bytes_, std::move(slot.batch.pixels));
    for (auto& [position, ahead] : ahead_) {
      pool_.count_read_ahead(-memory_of(ahead));
      pool_.give_file_buffer_back(std::move(ahead.bytes));
    }
    pool_.wake_readers();
  }

  int num_batches() const override { return static_cast<int>(num_batches_); }

  const HostBatch* next() override {
    if (next_batch_ == num_batches_) return nullptr;
    const Stopwatch watch;
    if (next_batch_ > 0) slots_[(next_batch_ - 1) % slots_.size()].batch.release();
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
    waited_s_ += watch.seconds();
    return hand_out(next_batch_++);
  }

  bool was_cut_short() const override { return cut_short_; }
  std::vector<BadImage> take_faults() override { return std::exchange(faults_, {}); }
  double wait_seconds() const override { return waited_s_; }

  LoaderTimes times() const override {
    const std::scoped_lock lock(pool_.mutex());
    return times_;
  }

 private:
  bool claim_image(std::size_t* position) override {
    if (is_over() || next_position_ / batch_size_ >= released_ + slots_.size()) return false;
    if (next_position_ % batch_size_ == 0) {
      Slot& slot = slot_of(next_position_);
      slot.places.assign(std::min(batch_size_, plan_.order.size() - next_position_), SampleSlot{});
      slot.remaining = static_cast<int>(slot.places.size());
      try {
        if (!slot.batch.pixels) slot.batch.pixels = pool_.take_buffer(batch_bytes_);
      } catch (...) {
        failure_ = std::current_exception();
        batch_done_.notify_one();
        return false;
      }
    }
    *position = next_position_++;
    return true;
  }

  void load(std::size_t position, LoaderThreads::Decoder& decoder) override {
    const std::size_t index = position % batch_size_;
    Slot& slot = slot_of(position);
    SampleSlot& place = slot.places[index];
    std::uint8_t* target = slot.batch.pixels.get() + index * slot_bytes_;
    try {
      if (plan_.scaling) decoder.pixels.resize(pixel_bytes_);
      std::uint8_t* pixels = plan_.scaling ? decoder.pixels.data() : target;
      place.fault = decode(position, decoder, place.times, pixels);
      if (plan_.scaling) {
        const Stopwatch watch;
        normalize_pixels(pixels, pixel_bytes_ / 3, *plan_.scaling,
                         reinterpret_cast<float*>(target));
        place.times.scale_seconds = watch.seconds();
      }
      place.is_usable = true;
    } catch (const ReadCutShort&) {
      cut_short_ = true;
    } catch (const ImageFault& fault) {
      place.fault = fault.what();
    } catch (const std::bad_alloc&) {
      const auto path = set_.image_root() / set_.samples.file_name(plan_.order[position]);
      throw Error(ErrorCode::kModuleOutOfMemory,
                  "Out of memory while loading the image '" + path.string() +
                      "': use fewer --loader-threads, or a machine with more memory.");
    }
  }

  void loaded(std::size_t position, std::exception_ptr failure) override {
    if (failure != nullptr && failure_ == nullptr) failure_ = std::move(failure);
    const LoaderTimes& spent = slot_of(position).places[position % batch_size_].times;
    times_.read_seconds += spent.read_seconds;
    times_.bytes_read += spent.bytes_read;
    times_.pixels.decode += spent.pixels.decode;
    times_.pixels.resample += spent.pixels.resample;
    times_.pixels.augment += spent.pixels.augment;
    times_.scale_seconds += spent.scale_seconds;
    if (--slot_of(position).remaining == 0 || failure_ != nullptr) batch_done_.notify_one();
  }

  bool claim_read(std::size_t* position) override {
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
  void read(std::size_t position) override {
    std::unique_lock lock(pool_.mutex());
    ReadAhead& ahead = ahead_.at(position);
    lock.unlock();
    const std::ptrdiff_t before = memory_of(ahead);
    double seconds = 0;
    try {
      seconds = watch_.read(set_, plan_.order[position], ahead.bytes, closing_);
    } catch (...) {
      ahead.fault = std::current_exception();
    }
    lock.lock();
    times_.read_seconds += seconds;
    pool_.count_read_ahead(memory_of(ahead) - before);
    ahead.ready = true;
    read_done_.notify_all();
  }

  bool is_over() const { return failure_ != nullptr || next_position_ >= plan_.order.size(); }
  Slot& slot_of(std::size_t position) { return slots_[position / batch_size_ % slots_.size()]; }

  // Returns the damage, if any. Throws ImageFault.
  std::string decode(std::size_t position, LoaderThreads::Decoder& decoder, LoaderTimes& times,
                     std::uint8_t* target) {
    const std::uint32_t sample = plan_.order[position];
    const DrawKey key{plan_.seed, plan_.epoch, sample,
                      plan_.repeats.empty() ? 0 : plan_.repeats[position]};
    const bool caches_pixels = cached_ == CacheKind::kDecoded;
    const std::string_view kept = caches_pixels ? cache_->find(sample) : std::string_view();
    std::string damage;
    if (!kept.empty()) {
      std::memcpy(target, kept.data(), kept.size());
    } else {
      const std::string_view bytes = bytes_of(position, decoder, times);
      damage = decoder.path.write(bytes, decoded_plan_, key, target);
      times.pixels = decoder.path.times();
      set_.samples.set_content(sample, bytes);
      if (caches_pixels && damage.empty())
        cache_->keep(sample, {reinterpret_cast<const char*>(target), pixel_bytes_});
    }
    if (caches_pixels) decoder.path.augment(plan_.pixels, key, target);
    return damage;
  }

  // Returns the file's contents from the cache, the read-ahead, or the file. Throws ImageFault.
  std::string_view bytes_of(std::size_t position, LoaderThreads::Decoder& decoder,
                            LoaderTimes& times) {
    const std::uint32_t sample = plan_.order[position];
    if (cached_ == CacheKind::kBytes)
      if (const std::string_view kept = cache_->find(sample); !kept.empty()) return kept;
    std::string& bytes = decoder.bytes;
    if (!take_read_ahead(position, bytes)) {
      times.read_seconds = watch_.read(set_, sample, bytes, closing_);
      pool_.add_read(times.read_seconds, bytes.size());
    }
    times.bytes_read = bytes.size();
    if (cached_ == CacheKind::kBytes) cache_->keep(sample, bytes);
    return bytes;
  }

  // Takes a file that was read ahead, and waits for it if a reader has started on it. False if none
  // has. Rethrows the reader's exception.
  bool take_read_ahead(std::size_t position, std::string& bytes) {
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

  // Closes the gaps left by bad images, and records the faults.
  const HostBatch* hand_out(std::size_t number) {
    Slot& slot = slots_[number % slots_.size()];
    HostBatch& batch = slot.batch;
    batch.labels.clear();
    batch.samples.clear();
    batch.places.clear();
    batch.weights.clear();
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
      if (set_.samples.has_weights()) batch.weights.push_back(set_.samples.weight(sample));
      batch.places.push_back(static_cast<std::uint32_t>(i));
    }
    batch.count = static_cast<int>(batch.samples.size());
    batch.nominal = static_cast<int>(slot.places.size());
    return &batch;
  }

  const BatchPlan plan_;
  const std::size_t batch_size_, num_batches_;
  Dataset& set_;
  LoaderThreads& pool_;
  FolderWatch& watch_;
  ImageCache* const cache_;
  const CacheKind cached_;
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
  LoaderTimes times_;

  std::atomic<bool> closing_ = false, cut_short_ = false;
  // Used only by the consumer's thread.
  std::size_t next_batch_ = 0;
  std::vector<BadImage> faults_;
  double waited_s_ = 0;
};

}  // namespace

std::size_t BatchPlan::batch_bytes() const {
  return std::max(1, batch_size) * image_bytes(pixels) * (scaling ? sizeof(float) : 1);
}

std::unique_ptr<BatchLoader> load_batches(Dataset& set, LoaderThreads& pool, BatchPlan plan,
                                          ImageCache* cache) {
  return std::make_unique<DatasetLoader>(set, pool, std::move(plan), cache);
}

}  // namespace kiln
