#include "parallel/ranks/mpi_traffic.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace kiln {
namespace {

// In a ring, adding a segment overlaps with receiving the next ones of its window, which stays in
// the cache.
constexpr std::size_t kSegment = 512 << 10;   // bytes
constexpr std::size_t kWindow = 4;            // segments
constexpr std::size_t kPiece = 64 << 20;      // bytes of a message of a gather
constexpr std::size_t kLeastRing = 64 << 10;  // elements; below, MPI's all-reduce is faster
constexpr std::size_t kLeastChunk = 8 << 10;  // bytes: with less for each rank, too
constexpr int kMessageTag = 1, kRingTag = 2, kRoundTag = 3;
constexpr int kFewRanks = 8;  // of which each watches all others

template <typename Value>
void add_values(char* sums, const char* more, std::size_t bytes) {
  auto* to = reinterpret_cast<Value*>(sums);
  const auto* from = reinterpret_cast<const Value*>(more);
  for (std::size_t i = 0; i < bytes / sizeof(Value); ++i) to[i] += from[i];
}

// An element's size, its type for MPI, and how arrays of `bytes` are added.
struct MpiType {
  std::size_t bytes;
  MPI_Datatype type;
  void (*add)(char* sums, const char* more, std::size_t bytes);
};

const MpiType& type_of(const Collective& what) {
  static const std::array<MpiType, 4> kTypes = {{
      {1, MPI_BYTE, add_values<unsigned char>},
      {sizeof(float), MPI_FLOAT, add_values<float>},
      {sizeof(double), MPI_DOUBLE, add_values<double>},
      {sizeof(std::int64_t), MPI_INT64_T, add_values<std::int64_t>},
  }};  // by ElementType
  return kTypes[static_cast<std::size_t>(what.element)];
}

MPI_Comm duplicate(MPI_Comm communicator) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(communicator, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}

template <std::size_t N>
void copy_text(const std::string& from, std::array<char, N>& to) {
  const std::size_t length = std::min(from.size(), N - 1);
  std::copy_n(from.data(), length, to.data());
  to[length] = '\0';
}

}  // namespace

std::string mpi_error_text(int status) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  return text;
}

RingAllReduce::RingAllReduce(MPI_Comm communicator, const Collective& what)
    : communicator_(communicator), what_(what) {
  MPI_Comm_rank(communicator_, &rank_);
  MPI_Comm_size(communicator_, &size_);
  const auto ranks = static_cast<std::size_t>(size_);
  chunk_bytes_ = (what.count + ranks - 1) / ranks * type_of(what).bytes;
  incoming_ = std::make_unique_for_overwrite<char[]>(std::min(chunk_bytes_, kWindow * kSegment));
}

RingAllReduce::Part RingAllReduce::chunk(int index) const {
  const std::size_t all = what_.count * type_of(what_).bytes;
  const std::size_t begin = std::min(all, static_cast<std::size_t>(index) * chunk_bytes_);
  return {static_cast<char*>(what_.data) + begin, std::min(chunk_bytes_, all - begin)};
}

void RingAllReduce::post_step() {
  const int round = is_summing() ? step_ : step_ - (size_ - 1);
  const int first = is_summing() ? rank_ : rank_ + 1;  // the chunk sent in the first round
  const Part outgoing = chunk((first - round + size_) % size_);
  const Part arriving = chunk((first - round - 1 + size_) % size_);
  const int next = (rank_ + 1) % size_;
  segments_.clear();
  sends_.clear();
  arrived_ = 0;
  for (std::size_t at = 0; at < arriving.bytes; at += kSegment)
    segments_.push_back({arriving.begin + at, std::min(kSegment, arriving.bytes - at)});
  receives_.assign(segments_.size(), MPI_REQUEST_NULL);
  for (std::size_t i = 0; i < std::min(kWindow, segments_.size()); ++i) post_receive(i);
  for (std::size_t at = 0; at < outgoing.bytes; at += kSegment)
    MPI_Isend(outgoing.begin + at, static_cast<int>(std::min(kSegment, outgoing.bytes - at)),
              MPI_BYTE, next, kRingTag, communicator_, &sends_.emplace_back());
  posted_ = true;
}

void RingAllReduce::post_receive(std::size_t i) {
  const int previous = (rank_ + size_ - 1) % size_;
  MPI_Irecv(is_summing() ? slot(i) : segments_[i].begin, static_cast<int>(segments_[i].bytes),
            MPI_BYTE, previous, kRingTag, communicator_, &receives_[i]);
}

char* RingAllReduce::slot(std::size_t i) const {
  return incoming_.get() + i % kWindow * kSegment;
}

bool RingAllReduce::advance(int* status) {
  for (; step_ < 2 * (size_ - 1); ++step_, posted_ = false) {
    if (!posted_) post_step();
    for (; arrived_ < receives_.size(); ++arrived_) {
      int here = 0;
      *status = MPI_Test(&receives_[arrived_], &here, MPI_STATUS_IGNORE);
      if (here == 0 || *status != MPI_SUCCESS) return false;
      const Part& segment = segments_[arrived_];
      if (is_summing()) type_of(what_).add(segment.begin, slot(arrived_), segment.bytes);
      if (arrived_ + kWindow < segments_.size()) post_receive(arrived_ + kWindow);
    }
    int sent = 0;
    *status = MPI_Testall(sends_.size(), sends_.data(), &sent, MPI_STATUSES_IGNORE);
    if (sent == 0 || *status != MPI_SUCCESS) return false;
  }
  return true;
}

GatherInRounds::GatherInRounds(MPI_Comm communicator, const Collective& what)
    : communicator_(communicator), what_(what) {
  MPI_Comm_rank(communicator_, &rank_);
  MPI_Comm_size(communicator_, &size_);
  parts_.resize(what.count * static_cast<std::size_t>(size_));
  std::memcpy(parts_.data(), what.data, what.count);
}

bool GatherInRounds::advance(int* status) {
  const std::size_t count = what_.count;
  const auto bytes = [&](int parts) { return static_cast<std::size_t>(parts) * count; };
  for (; known_ < size_; requests_.clear()) {
    const int more = std::min(known_, size_ - known_);
    for (std::size_t at = 0; requests_.size() < 2 * ((bytes(more) + kPiece - 1) / kPiece);
         at += kPiece) {
      const int piece = static_cast<int>(std::min(kPiece, bytes(more) - at));
      MPI_Irecv(parts_.data() + bytes(known_) + at, piece, MPI_BYTE, (rank_ + known_) % size_,
                kRoundTag, communicator_, &requests_.emplace_back());
      MPI_Isend(parts_.data() + at, piece, MPI_BYTE, (rank_ + size_ - known_) % size_, kRoundTag,
                communicator_, &requests_.emplace_back());
    }
    int done = 0;
    *status = MPI_Testall(requests_.size(), requests_.data(), &done, MPI_STATUSES_IGNORE);
    if (done == 0 || *status != MPI_SUCCESS) return false;
    known_ += more;
  }
  const std::size_t mine = bytes(size_ - rank_);  // what comes before belongs to ranks from here on
  auto* gathered = static_cast<char*>(what_.gathered);
  std::memcpy(gathered + bytes(rank_), parts_.data(), mine);
  std::memcpy(gathered, parts_.data() + mine, bytes(rank_));
  return true;
}

MpiLane::MpiLane(MPI_Comm communicator)
    : collectives_(duplicate(communicator)), rings_(duplicate(communicator)) {
  MPI_Comm_size(communicator, &size_);
}

void MpiLane::close() {
  MPI_Comm_free(&rings_);
  MPI_Comm_free(&collectives_);
}

void MpiLane::start(const Collective& what, std::uint64_t place) {
  running_.push_back({what, place, Clock::now()});
  Running& added = running_.back();
  MPI_Request& request = added.request;
  const int count = static_cast<int>(what.count);
  const MPI_Datatype type = type_of(what).type;
  switch (what.kind) {
    case CollectiveKind::kAllReduce:
      if (what.count >= kLeastRing && what.count * type_of(what).bytes >= size_ * kLeastChunk) {
        added.ring.emplace(rings_, what);
        break;
      }
      MPI_Iallreduce(MPI_IN_PLACE, what.data, count, type, MPI_SUM, collectives_, &request);
      break;
    case CollectiveKind::kBroadcast:
      MPI_Ibcast(what.data, count, type, /*root=*/0, collectives_, &request);
      break;
    case CollectiveKind::kGather:
      added.rounds.emplace(rings_, what);
      break;
    case CollectiveKind::kGatherOnRank0:
      MPI_Igather(what.gathered != nullptr ? MPI_IN_PLACE : what.data, count, type, what.gathered,
                  count, type, /*root=*/0, collectives_, &request);
      break;
    case CollectiveKind::kMaximum:
      MPI_Iallreduce(MPI_IN_PLACE, what.data, count, MPI_UINT64_T, MPI_MAX, collectives_, &request);
      break;
    case CollectiveKind::kBarrier:
      MPI_Ibarrier(collectives_, &request);
      break;
  }
}

std::optional<MpiLane::Done> MpiLane::take_done(int* status) {
  if (running_.empty()) return {};
  Running& oldest = running_.front();
  int done = 0;
  if (oldest.ring)
    done = oldest.ring->advance(status) ? 1 : 0;
  else if (oldest.rounds)
    done = oldest.rounds->advance(status) ? 1 : 0;
  else
    *status = MPI_Test(&oldest.request, &done, MPI_STATUS_IGNORE);
  if (done == 0 || *status != MPI_SUCCESS) return {};
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

MpiMessages::MpiMessages(MPI_Comm communicator) : communicator_(duplicate(communicator)) {
  MPI_Comm_rank(communicator_, &rank_);
  MPI_Comm_size(communicator_, &size_);
  peers_.resize(static_cast<std::size_t>(size_));
  const bool are_few = size_ <= kFewRanks;
  for (int distance = 1; distance < size_; distance = are_few ? distance + 1 : 2 * distance) {
    watched_.insert((rank_ + distance) % size_);
    told_.insert((rank_ + size_ - distance) % size_);
  }
  for (int other = 1; rank_ == 0 && other < size_; ++other) watched_.insert(other);
  if (rank_ != 0) told_.insert(0);
  for (int other = 0; other < size_; ++other) peers_[other].is_watched = watched_.contains(other);
  receive_next();
}

void MpiMessages::close() {
  MPI_Cancel(&receiving_);
  MPI_Wait(&receiving_, MPI_STATUS_IGNORE);
  for (Sending& sending : sending_) MPI_Wait(&sending.request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&communicator_);
}

void MpiMessages::receive_next() {
  MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, kMessageTag, communicator_,
            &receiving_);
}

void MpiMessages::poll(const PeerStatus& mine) {
  for (;;) {
    int arrived = 0;
    MPI_Status status{};
    if (MPI_Test(&receiving_, &arrived, &status) != MPI_SUCCESS || arrived == 0) break;
    take(incoming_, status.MPI_SOURCE, mine);
    receive_next();
  }
  sending_.remove_if([](Sending& sending) {
    int sent = 0;
    MPI_Test(&sending.request, &sent, MPI_STATUS_IGNORE);
    return sent != 0;
  });
}

void MpiMessages::forget(std::chrono::steady_clock::duration gap) {
  const auto now = std::chrono::steady_clock::now();
  for (PeerStatus& peer : peers_)
    if (peer.last_seen) peer.last_seen = std::min(*peer.last_seen + gap, now);
}

void MpiMessages::take(const Message& message, int from, const PeerStatus& mine) {
  PeerStatus& peers = peers_[static_cast<std::size_t>(from)];
  peers.last_seen = std::chrono::steady_clock::now();
  switch (message.kind) {
    case MessageKind::kAsk:
      send(from, status_message(mine));
      break;
    case MessageKind::kTell:
      peers.started = message.started;
      peers.patient = message.patient != 0;
      peers.place = message.place;
      peers.phase = message.text.data();
      peers.collective = message.collective.data();
      break;
    case MessageKind::kFailed:
      if (message.failed_rank == rank_ || (failure_ && message.failed_rank >= failure_->rank))
        break;
      failure_ = RankFailure{message.failed_rank, message.exit_code, message.text.data()};
      if (size_ > kFewRanks) send_to(told_, message);
      break;
  }
}

MpiMessages::Message MpiMessages::status_message(const PeerStatus& mine) {
  Message message{MessageKind::kTell, 0, mine.started, mine.patient ? 1 : 0, 0, mine.place};
  copy_text(mine.phase, message.text);
  copy_text(mine.collective, message.collective);
  return message;
}

void MpiMessages::send_failure(int exit_code, const std::string& text) {
  Message message{MessageKind::kFailed, exit_code, 0, 0, rank_};
  copy_text(text, message.text);
  send_to(told_, message);
}

void MpiMessages::send_to(const std::set<int>& ranks, const Message& message) {
  for (const int rank : ranks) send(rank, message);
}

void MpiMessages::send(int to, const Message& message) {
  sending_.push_back({message, MPI_REQUEST_NULL});
  const std::size_t bytes = offsetof(Message, text) + std::strlen(message.text.data()) + 1;
  MPI_Isend(&sending_.back().message, static_cast<int>(bytes), MPI_BYTE, to, kMessageTag,
            communicator_, &sending_.back().request);
}

MpiParcels::MpiParcels(MPI_Comm communicator) : communicator_(duplicate(communicator)) {}

void MpiParcels::start(const Parcel& parcel, std::uint64_t ticket) {
  moving_.push_back({parcel, ticket, Clock::now()});
  const int rank = parcel.rank == Parcel::kAnyRank ? MPI_ANY_SOURCE : parcel.rank;
  for (std::size_t at = 0; at < parcel.bytes; at += kSegment) {
    char* begin = static_cast<char*>(parcel.data) + at;
    const int count = static_cast<int>(std::min(kSegment, parcel.bytes - at));
    MPI_Request& request = moving_.back().segments.emplace_back();
    if (parcel.kind == ParcelKind::kSend)
      MPI_Isend(begin, count, MPI_BYTE, rank, parcel.tag, communicator_, &request);
    else
      MPI_Irecv(begin, count, MPI_BYTE, rank, parcel.tag, communicator_, &request);
  }
}

std::optional<std::uint64_t> MpiParcels::take_done(int* status) {
  for (auto each = moving_.begin(); each != moving_.end(); ++each) {
    int done = 0;
    *status = MPI_Testall(each->segments.size(), each->segments.data(), &done, MPI_STATUSES_IGNORE);
    if (*status != MPI_SUCCESS) return {};
    if (done == 0) continue;
    const std::uint64_t ticket = each->ticket;
    moving_.erase(each);
    return ticket;
  }
  return {};
}

bool MpiParcels::any_is_soon() const {
  return std::ranges::any_of(moving_, [](const Moving& each) { return each.what.is_soon; });
}

void MpiParcels::forget(Clock::duration gap) {
  for (Moving& each : moving_) each.begin += gap;
}

}  // namespace kiln
