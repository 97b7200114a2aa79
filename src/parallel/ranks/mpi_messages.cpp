#include "parallel/ranks/mpi_messages.h"

#include <algorithm>

namespace kiln {
namespace {

constexpr int kTag = 1;

template <std::size_t N>
void copy_text(const std::string& from, std::array<char, N>& to) {
  const std::size_t length = std::min(from.size(), N - 1);
  std::copy_n(from.data(), length, to.data());
  to[length] = '\0';
}

}  // namespace

MpiMessages::MpiMessages(MPI_Comm communicator) {
  MPI_Comm_dup(communicator, &communicator_);
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(communicator_, &rank_);
  MPI_Comm_size(communicator_, &size_);
  peers_.resize(static_cast<std::size_t>(size_));
  receive_next();
}

void MpiMessages::close() {
  MPI_Cancel(&receiving_);
  MPI_Wait(&receiving_, MPI_STATUS_IGNORE);
  for (Sending& sending : sending_) MPI_Wait(&sending.request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&communicator_);
}

void MpiMessages::receive_next() {
  MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, kTag, communicator_,
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
    case Kind::kAsk:
      send(from, status_message(mine));
      break;
    case Kind::kTell:
      peers.started = message.started;
      peers.patient = message.patient != 0;
      peers.phase = message.text.data();
      break;
    case Kind::kFailed:
      if (!failure_ || from < failure_->rank)
        failure_ = RankFailure{from, message.exit_code, message.text.data()};
      break;
  }
}

void MpiMessages::ask_all() {
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) send(rank, {});
}

MpiMessages::Message MpiMessages::status_message(const PeerStatus& mine) {
  Message message{Kind::kTell, 0, mine.started, mine.patient ? 1 : 0, {}};
  copy_text(mine.phase, message.text);
  return message;
}

void MpiMessages::send_status(const PeerStatus& mine) {
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) send(rank, status_message(mine));
}

void MpiMessages::send_failure(int exit_code, const std::string& text) {
  Message message{Kind::kFailed, exit_code, 0, 0, {}};
  copy_text(text, message.text);
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) send(rank, message);
}

void MpiMessages::send(int to, const Message& message) {
  sending_.push_back({message, MPI_REQUEST_NULL});
  MPI_Isend(&sending_.back().message, sizeof message, MPI_BYTE, to, kTag, communicator_,
            &sending_.back().request);
}

namespace {

constexpr std::size_t kSegment = 512 << 10;  // bytes, as in mpi_collectives.cpp

}  // namespace

MpiParcels::MpiParcels(MPI_Comm communicator) {
  MPI_Comm_dup(communicator, &communicator_);
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
}

void MpiParcels::close() {
  MPI_Comm_free(&communicator_);
}

void MpiParcels::start(const Parcel& parcel, std::uint64_t ticket) {
  Moving& added = moving_.emplace_back();
  added.what = parcel;
  added.ticket = ticket;
  added.begin = Clock::now();
  const int rank = parcel.rank == Parcel::kAnyRank ? MPI_ANY_SOURCE : parcel.rank;
  for (std::size_t at = 0; at < parcel.bytes; at += kSegment) {
    char* begin = static_cast<char*>(parcel.data) + at;
    const int count = static_cast<int>(std::min(kSegment, parcel.bytes - at));
    MPI_Request& request = added.segments.emplace_back();
    if (parcel.kind == Parcel::Kind::kSend)
      MPI_Isend(begin, count, MPI_BYTE, rank, parcel.tag, communicator_, &request);
    else
      MPI_Irecv(begin, count, MPI_BYTE, rank, parcel.tag, communicator_, &request);
  }
}

std::optional<std::uint64_t> MpiParcels::take_done(int* status) {
  for (auto each = moving_.begin(); each != moving_.end(); ++each) {
    int done = 0;
    *status = MPI_Testall(static_cast<int>(each->segments.size()), each->segments.data(), &done,
                          MPI_STATUSES_IGNORE);
    if (*status != MPI_SUCCESS) return {};
    if (done == 0) continue;
    const std::uint64_t ticket = each->ticket;
    moving_.erase(each);
    return ticket;
  }
  return {};
}

bool MpiParcels::any_is_soon() const {
  return std::any_of(moving_.begin(), moving_.end(),
                     [](const Moving& each) { return each.what.is_soon; });
}

void MpiParcels::forget(Clock::duration gap) {
  for (Moving& each : moving_) each.begin += gap;
}

}  // namespace kiln
