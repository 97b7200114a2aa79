#include "tools/serve/batcher.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/names.h"
#include "base/system.h"
#include "model/operators/autocast.h"

namespace kiln {

class Batcher::Jobs final : public LoaderThreads::BatchSource {
 public:
  explicit Jobs(LoaderThreads& pool) : pool_(pool) { pool_.add(*this); }
  ~Jobs() override { pool_.remove(*this); }
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  // The last steps of a request go before the first ones of others.
  enum class Order { kFirst, kLast };
  void add(Job job, Order order) {
    {
      const std::scoped_lock lock(pool_.mutex());
      waiting_.insert(order == Order::kFirst ? waiting_.begin() : waiting_.end(), std::move(job));
    }
    pool_.wake_decoders();
  }

 private:
  bool claim_image(std::size_t* position) override {
    if (waiting_.empty()) return false;
    *position = next_++;
    claimed_.emplace(*position, std::move(waiting_.front()));
    waiting_.pop_front();
    return true;
  }
  void load(std::size_t position, LoaderThreads::Decoder& decoder) override {
    Job job;
    {
      const std::scoped_lock lock(pool_.mutex());
      job = std::move(claimed_.extract(position).mapped());
    }
    job(decoder);
  }
  void loaded(std::size_t, std::exception_ptr) override {}  // jobs catch what they throw
  bool claim_read(std::size_t*) override { return false; }
  void read(std::size_t) override {}

  LoaderThreads& pool_;
  std::deque<Job> waiting_;
  std::unordered_map<std::size_t, Job> claimed_;
  std::size_t next_ = 0;
};

Batcher::Batcher(const ServeConfig& config, const PredictionJob& job, ServerMetrics& metrics)
    : config_(config),
      job_(job),
      metrics_(metrics),
      pool_({.num_decoders = job.num_decoders()}),
      jobs_(std::make_unique<Jobs>(pool_)),
      model_thread_([this] { answer_batches(); }) {}

Batcher::~Batcher() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  model_thread_.join();
  pool_.remove(*jobs_);  // not reset, since threads that are inside a job add others
  ready_.clear();        // gives back places, which needs the mutex
}

Batcher::Place Batcher::take_place(std::size_t images) {
  {
    const std::scoped_lock lock(mutex_);
    const auto most = static_cast<std::size_t>(config_.max_queue);
    if (images > most - std::min(num_queued_, most)) return nullptr;
    num_queued_ += images;
  }
  return Place(this, [this, images](void*) {
    const std::scoped_lock lock(mutex_);
    num_queued_ -= images;
  });
}

std::size_t Batcher::num_queued() const {
  const std::scoped_lock lock(mutex_);
  return num_queued_;
}

void Batcher::run(std::function<void()> work) {
  jobs_->add([work = std::move(work)](LoaderThreads::Decoder&) { work(); }, Jobs::Order::kLast);
}

void Batcher::ask(std::shared_ptr<ServedModel> model, std::vector<EncodedImage> images, Use use) {
  const auto group = std::make_shared<Group>();
  const std::size_t count = images.size();
  group->model = std::move(model);
  group->images = std::move(images);
  group->answers.resize(count);
  group->num_missing = count;
  group->use = std::move(use);
  {
    const std::scoped_lock lock(mutex_);
    num_decoding_ += count;
  }
  for (std::size_t place = 0; place < count; ++place)
    jobs_->add(
        [this, group, place](LoaderThreads::Decoder& decoder) { prepare(group, place, decoder); },
        Jobs::Order::kFirst);
}

void Batcher::prepare(const std::shared_ptr<Group>& group, std::size_t place,
                      LoaderThreads::Decoder& decoder) {
  ReadyImage ready{group, place, {}, {}};
  bool has_failed = false;
  const Stopwatch watch;
  try {
    ready.image =
        group->model->prepare(group->images[place], decoder, config_.max_megapixels * 1'000'000LL);
  } catch (const std::exception&) {  // no memory
    has_failed = true;
    job_.log.warning("an image was not decoded: " + caught_fault());
  }
  group->answers[place].decode_seconds = watch.seconds();
  group->images[place].owner.reset();
  const bool is_good = ready.image.input != nullptr;
  if (!is_good) group->answers[place].score.fault = ready.image.fault;
  {
    const std::scoped_lock lock(mutex_);
    --num_decoding_;
    ready.since = Clock::now();
    if (is_good) ready_.push_back(std::move(ready));
  }
  changed_.notify_all();
  if (!is_good) finish(group, has_failed);
}

void Batcher::finish(const std::shared_ptr<Group>& group, bool has_failed) {
  {
    const std::scoped_lock lock(mutex_);
    group->has_failed = group->has_failed || has_failed;
    if (--group->num_missing > 0) return;
  }
  const auto pass_on = [group](LoaderThreads::Decoder&) {
    if (group->has_failed) group->answers.clear();
    for (std::size_t i = 0; i < group->answers.size(); ++i)
      group->answers[i].score.path = std::move(group->images[i].name);
    group->use(std::move(group->answers));
  };
  jobs_->add(pass_on, Jobs::Order::kFirst);
}

std::vector<Batcher::ReadyImage> Batcher::next_batch(std::unique_lock<std::mutex>& lock,
                                                     bool was_gathered) {
  auto most = static_cast<std::size_t>(job_.config.batch_size);
  if (!job_.device.is_cuda) {
    most = std::min(most, (ready_.size() + 1) / 2);
  } else if (was_gathered) {
    changed_.wait_until(
        lock, ready_.front().since + std::chrono::milliseconds(config_.max_delay_ms),
        [&] { return is_stopping_ || ready_.size() >= most || num_decoding_ == 0; });
  }
  std::vector<ReadyImage> batch;
  while (!ready_.empty() && batch.size() < most &&
         (batch.empty() || batch[0].group->model == ready_.front().group->model)) {
    batch.push_back(std::move(ready_.front()));
    ready_.pop_front();
  }
  return batch;
}

void Batcher::answer_batches() {
  at::init_num_threads();  // as many as PredictionJob has set on its own thread
  std::optional<KeptCasts> kept_casts;
  const ServedModel* model = nullptr;  // whose casts they are
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    const bool was_gathered = !ready_.empty();  // while the last batch was answered
    changed_.wait(lock, [this] { return is_stopping_ || !ready_.empty(); });
    if (is_stopping_) return;
    std::vector<ReadyImage> batch = next_batch(lock, was_gathered);
    lock.unlock();
    if (const auto* asked = batch[0].group->model.get(); std::exchange(model, asked) != asked)
      kept_casts.emplace();
    answer(batch);
    batch.clear();
    lock.lock();
  }
}

void Batcher::answer(std::vector<ReadyImage>& batch) {
  bool has_failed = false;
  try {
    std::vector<const PreparedImage*> images;
    for (const ReadyImage& ready : batch) images.push_back(&ready.image);
    const Stopwatch watch;
    std::vector<ServedAnswer> answers = batch[0].group->model->answer(images);
    const double seconds = watch.seconds();
    metrics_.observe("kiln_batch_images", static_cast<double>(batch.size()));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Score& score = answers[i].score;
      metrics_.count("kiln_answers_total");
      if (score.is_unsure) metrics_.count("kiln_unsure_answers_total");
      if (score.is_unlike) metrics_.count("kiln_unlike_images_total");
      if (!score.is_unsure && !score.best.empty())
        for (const int id : score.labels.value_or(std::vector{score.best[0].id}))
          metrics_.count("kiln_class_answers_total",
                         metric_label("class", as_utf8(batch[i].group->model->labels().at(id))));
      ServedAnswer& answer = batch[i].group->answers[batch[i].place];
      answers[i].decode_seconds = answer.decode_seconds;
      answers[i].forward_seconds = seconds;
      answer = std::move(answers[i]);
    }
  } catch (const std::exception&) {
    has_failed = true;
    job_.log.warning("a batch was not answered: " + caught_fault());
  }
  for (const ReadyImage& ready : batch) finish(ready.group, has_failed);
}

}  // namespace kiln
