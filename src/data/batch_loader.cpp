#include "data/batch_loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "data/decode.h"
#include "data/image_bytes.h"
#include "data/pixels.h"

namespace kiln {
namespace {

// The place of one image in a batch: the worker that claimed it writes it, the reader looks when
// the batch is done.
struct Place {
  bool good = false;
  std::string fault;
};

struct Slot {
  HostBatch batch;
  std::vector<Place> places;
  int remaining = 0;  // images that are not done yet; guarded by the loader's mutex
};

struct Claim {
  Slot* slot = nullptr;
  std::size_t position = 0;  // in the order
  std::size_t place = 0;     // in the batch
};

}  // namespace

struct BatchLoader::State {
  State(const ImageSet& a_set, Plan a_plan);
  ~State();

  std::size_t images_of(std::size_t batch) const;
  std::optional<Claim> claim();
  void fill(const Claim& claim, PixelPath& path, std::string& buffer);
  void work();
  const HostBatch* hand_out(std::size_t batch);

  const ImageSet& set;
  const Plan plan;
  const std::size_t batch_size, image_bytes;
  std::size_t num_batches = 0;
  std::vector<Slot> slots;

  std::mutex mutex;
  std::condition_variable work_or_stop, batch_done;
  std::size_t next_position = 0;  // of the order, to be claimed
  std::size_t released = 0;       // batches that the reader is done with
  bool stopping = false;
  std::exception_ptr failure;

  std::size_t next_batch = 0;  // from here on the reader's own
  std::vector<BadImage> faults;
  double waited_s = 0;

  std::vector<std::jthread> workers;  // last, so that they end first
};

BatchLoader::State::State(const ImageSet& a_set, Plan a_plan)
    : set(a_set),
      plan(std::move(a_plan)),
      batch_size(static_cast<std::size_t>(std::max(1, plan.batch_size))),
      image_bytes(static_cast<std::size_t>(plan.pixels.output.height) *
                  static_cast<std::size_t>(plan.pixels.output.width) * 3) {
  num_batches = plan.order.size() / batch_size;
  if (!plan.drop_last && plan.order.size() % batch_size != 0) ++num_batches;
  slots.resize(std::min(num_batches, static_cast<std::size_t>(std::max(1, plan.num_slots))));
  const std::size_t threads =
      std::min(plan.order.size(), static_cast<std::size_t>(std::max(1, plan.num_threads)));
  if (num_batches == 0) return;
  for (std::size_t i = 0; i < threads; ++i) workers.emplace_back([this] { work(); });
}

BatchLoader::State::~State() {
  {
    const std::scoped_lock lock(mutex);
    stopping = true;
  }
  work_or_stop.notify_all();
}

std::size_t BatchLoader::State::images_of(std::size_t batch) const {
  return std::min(batch_size, plan.order.size() - batch * batch_size);
}

// The next image in order, once its slot is free; nothing when all are claimed or the loader stops.
std::optional<Claim> BatchLoader::State::claim() {
  std::unique_lock lock(mutex);
  const std::size_t end = std::min(plan.order.size(), num_batches * batch_size);
  work_or_stop.wait(lock, [&] {
    return stopping || next_position >= end || next_position / batch_size < released + slots.size();
  });
  if (stopping || next_position >= end) return std::nullopt;
  const std::size_t batch = next_position / batch_size, place = next_position % batch_size;
  Slot& slot = slots[batch % slots.size()];
  if (place == 0) {
    const std::size_t count = images_of(batch);
    slot.batch.pixels.resize(std::max(slot.batch.pixels.size(), count * image_bytes));
    slot.places.assign(count, Place{});
    slot.remaining = static_cast<int>(count);
  }
  return Claim{&slot, next_position++, place};
}

void BatchLoader::State::fill(const Claim& claim, PixelPath& path, std::string& buffer) {
  Place& place = claim.slot->places[claim.place];
  const std::uint32_t item = plan.order[claim.position];
  try {
    read_image_bytes(set, item, buffer);
    place.fault = path.write(buffer, {plan.seed, plan.epoch, item},
                             claim.slot->batch.pixels.data() + claim.place * image_bytes);
    place.good = true;
  } catch (const ImageFault& fault) {
    place.fault = fault.what();
  }
}

void BatchLoader::State::work() {
  try {
    PixelPath path(plan.pixels);
    std::string buffer;
    while (const std::optional<Claim> claimed = claim()) {
      fill(*claimed, path, buffer);
      const std::scoped_lock lock(mutex);
      if (--claimed->slot->remaining == 0) batch_done.notify_one();
    }
  } catch (...) {
    const std::scoped_lock lock(mutex);
    if (failure == nullptr) failure = std::current_exception();
    stopping = true;
    work_or_stop.notify_all();
    batch_done.notify_one();
  }
}

// Closes the gaps that bad images left, and lists the faults.
const HostBatch* BatchLoader::State::hand_out(std::size_t number) {
  Slot& slot = slots[number % slots.size()];
  HostBatch& batch = slot.batch;
  batch.labels.clear();
  batch.items.clear();
  for (std::size_t i = 0; i < slot.places.size(); ++i) {
    Place& place = slot.places[i];
    const std::uint32_t item = plan.order[number * batch_size + i];
    if (!place.fault.empty()) faults.push_back({item, std::move(place.fault), place.good});
    if (!place.good) continue;
    const std::size_t target = batch.items.size();
    if (target != i) {
      std::memcpy(batch.pixels.data() + target * image_bytes, batch.pixels.data() + i * image_bytes,
                  image_bytes);
    }
    batch.labels.push_back(set.items.label(item));
    batch.items.push_back(item);
  }
  batch.count = static_cast<int>(batch.items.size());
  batch.nominal = static_cast<int>(slot.places.size());
  return &batch;
}

BatchLoader::BatchLoader(const ImageSet& set, Plan plan)
    : state_(std::make_unique<State>(set, std::move(plan))) {}

BatchLoader::~BatchLoader() = default;

int BatchLoader::num_batches() const {
  return static_cast<int>(state_->num_batches);
}

const HostBatch* BatchLoader::next() {
  State& state = *state_;
  if (state.next_batch == state.num_batches) return nullptr;
  const auto begin = std::chrono::steady_clock::now();
  {
    std::unique_lock lock(state.mutex);
    if (state.released != state.next_batch) {
      state.released = state.next_batch;
      state.work_or_stop.notify_all();
    }
    const Slot& slot = state.slots[state.next_batch % state.slots.size()];
    state.batch_done.wait(lock, [&] {
      const bool claimed = state.next_position > state.next_batch * state.batch_size;
      return state.failure != nullptr || (claimed && slot.remaining == 0);
    });
    if (state.failure != nullptr) std::rethrow_exception(state.failure);
  }
  state.waited_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return state.hand_out(state.next_batch++);
}

std::vector<BadImage> BatchLoader::take_faults() {
  return std::exchange(state_->faults, {});
}

double BatchLoader::wait_seconds() const {
  return state_->waited_s;
}

}  // namespace kiln
