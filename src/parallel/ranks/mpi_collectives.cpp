#include "parallel/ranks/mpi_collectives.h"

#include <algorithm>
#include <utility>

namespace kiln {
namespace {

constexpr std::size_t kSegment = 512 << 10;  // bytes; adding one overlaps receiving the next
constexpr int kTag = 2;

std::size_t bytes_of(Element element) {
  switch (element) {
    case Element::kFloat32:
      return sizeof(float);
    case Element::kFloat64:
      return sizeof(double);
    case Element::kInt64:
      return sizeof(std::int64_t);
    case Element::kBFloat16:
      return sizeof(std::uint16_t);
    case Element::kByte:
      return 1;
  }
  return 1;
}

template <typename Value>
void add_values(char* sums, const char* more, std::size_t bytes) {
  auto* to = reinterpret_cast<Value*>(sums);
  const auto* from = reinterpret_cast<const Value*>(more);
  for (std::size_t i = 0; i < bytes / sizeof(Value); ++i) to[i] += from[i];
}

}  // namespace

RingAllReduce::RingAllReduce(MPI_Comm communicator, const Collective& what)
    : communicator_(communicator), what_(what), element_bytes_(bytes_of(what.element)) {
  MPI_Comm_rank(communicator_, &rank_);
  MPI_Comm_size(communicator_, &size_);
  const auto ranks = static_cast<std::size_t>(size_);
  chunk_bytes_ = (what.count + ranks - 1) / ranks * element_bytes_;
  incoming_.resize(chunk_bytes_);
}

RingAllReduce::Part RingAllReduce::chunk(int index) const {
  const std::size_t all = what_.count * element_bytes_;
  const std::size_t begin = std::min(all, static_cast<std::size_t>(index) * chunk_bytes_);
  return {static_cast<char*>(what_.data) + begin, std::min(chunk_bytes_, all - begin)};
}

void RingAllReduce::post_step() {
  const bool summing = step_ < size_ - 1;
  const int round = summing ? step_ : step_ - (size_ - 1);
  const int first = summing ? rank_ : rank_ + 1;  // the chunk sent in the first round
  const Part outgoing = chunk((first - round + size_) % size_);
  const Part arriving = chunk((first - round - 1 + size_) % size_);
  const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  segments_.clear();
  receives_.clear();
  sends_.clear();
  arrived_ = 0;
  for (std::size_t at = 0; at < arriving.bytes; at += kSegment) {
    segments_.push_back({arriving.begin + at, std::min(kSegment, arriving.bytes - at)});
    MPI_Irecv(summing ? incoming_.data() + at : arriving.begin + at,
              static_cast<int>(segments_.back().bytes), MPI_BYTE, previous, kTag, communicator_,
              &receives_.emplace_back());
  }
  for (std::size_t at = 0; at < outgoing.bytes; at += kSegment)
    MPI_Isend(outgoing.begin + at, static_cast<int>(std::min(kSegment, outgoing.bytes - at)),
              MPI_BYTE, next, kTag, communicator_, &sends_.emplace_back());
  posted_ = true;
}

void RingAllReduce::add(const Part& segment, const char* received) const {
  switch (what_.element) {
    case Element::kFloat32:
      return add_values<float>(segment.begin, received, segment.bytes);
    case Element::kFloat64:
      return add_values<double>(segment.begin, received, segment.bytes);
    case Element::kInt64:
      return add_values<std::int64_t>(segment.begin, received, segment.bytes);
    case Element::kBFloat16:
      return add_bfloat16(segment.begin, received, segment.bytes / sizeof(std::uint16_t));
    case Element::kByte:
      return add_values<unsigned char>(segment.begin, received, segment.bytes);
  }
}

bool RingAllReduce::advance(int* status) {
  for (; step_ < 2 * (size_ - 1); ++step_, posted_ = false) {
    if (!posted_) post_step();
    for (; arrived_ < receives_.size(); ++arrived_) {
      int here = 0;
      *status = MPI_Test(&receives_[arrived_], &here, MPI_STATUS_IGNORE);
      if (here == 0 || *status != MPI_SUCCESS) return false;
      if (step_ < size_ - 1) add(segments_[arrived_], incoming_.data() + arrived_ * kSegment);
    }
    int sent = 0;
    *status =
        MPI_Testall(static_cast<int>(sends_.size()), sends_.data(), &sent, MPI_STATUSES_IGNORE);
    if (sent == 0 || *status != MPI_SUCCESS) return false;
  }
  return true;
}

namespace {

MPI_Datatype type_of(Element element) {
  switch (element) {
    case Element::kFloat32:
      return MPI_FLOAT;
    case Element::kFloat64:
      return MPI_DOUBLE;
    case Element::kInt64:
      return MPI_INT64_T;
    case Element::kBFloat16:
      return MPI_UINT16_T;
    case Element::kByte:
      return MPI_BYTE;
  }
  return MPI_BYTE;
}

constexpr std::size_t kLeastRing = 64 << 10;  // elements; below, MPI's all-reduce is faster

void add_for_mpi(void* from, void* to, int* count, MPI_Datatype*) {
  add_bfloat16(to, from, static_cast<std::size_t>(*count));
}

MPI_Comm duplicate(MPI_Comm communicator) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(communicator, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}

}  // namespace

std::string mpi_error_text(int status) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  return text;
}

bool PendingCollective::done(int* status) {
  if (ring_) return ring_->advance(status);
  int done = 0;
  *status = MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
  return done != 0;
}

MpiCollectives::MpiCollectives(MPI_Comm communicator)
    : collectives_(duplicate(communicator)), rings_(duplicate(communicator)) {
  MPI_Op_create(add_for_mpi, /*commute=*/1, &bfloat16_sum_);
}

void MpiCollectives::close() {
  MPI_Op_free(&bfloat16_sum_);
  MPI_Comm_free(&rings_);
  MPI_Comm_free(&collectives_);
}

PendingCollective MpiCollectives::start(const Collective& what) const {
  MPI_Request request = MPI_REQUEST_NULL;
  const int count = static_cast<int>(what.count);
  const MPI_Datatype type = type_of(what.element);
  switch (what.kind) {
    case Collective::Kind::kAllReduce:
      if (what.count >= kLeastRing) return PendingCollective(RingAllReduce(rings_, what));
      MPI_Iallreduce(MPI_IN_PLACE, what.data, count, type,
                     what.element == Element::kBFloat16 ? bfloat16_sum_ : MPI_SUM, collectives_,
                     &request);
      break;
    case Collective::Kind::kBroadcast:
      MPI_Ibcast(what.data, count, type, /*root=*/0, collectives_, &request);
      break;
    case Collective::Kind::kGather:
      MPI_Iallgather(what.data, count, type, what.gathered, count, type, collectives_, &request);
      break;
    case Collective::Kind::kBarrier:
      MPI_Ibarrier(collectives_, &request);
      break;
  }
  return PendingCollective(request);
}

MpiLane::MpiLane(MPI_Comm communicator) : collectives_(communicator) {}

void MpiLane::close() {
  collectives_.close();
}

void MpiLane::start(const Collective& what, std::uint64_t place) {
  const Clock::time_point begin = Clock::now();
  running_.push_back({what, place, begin, collectives_.start(what)});
}

std::optional<MpiLane::Done> MpiLane::take_done(int* status) {
  if (running_.empty()) return {};
  const bool done = running_.front().pending.done(status);
  if (!done || *status != MPI_SUCCESS) return {};
  Running front = std::move(running_.front());
  running_.pop_front();
  const Clock::time_point now = Clock::now(), begin = std::max(front.begin, last_end_);
  const std::chrono::duration<double> alone = now - begin;
  if (front.what.timeline) front.what.timeline->add(Timeline::kSums, front.what.name, begin, now);
  last_end_ = now;
  return Done{std::move(front.what), front.place, alone.count()};
}

void MpiLane::forget(Clock::duration gap) {
  for (Running& each : running_) each.begin += gap;
}

}  // namespace kiln
