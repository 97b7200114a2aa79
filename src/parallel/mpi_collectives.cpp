#include "parallel/mpi_collectives.h"

#include <bit>
#include <cstdint>

namespace kiln {
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

float widened(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

// MPI has no bfloat16: added as float32, rounded to the nearest, halves to even.
void add_bfloat16(void* from, void* to, int* count, MPI_Datatype*) {
  const auto* more = static_cast<const std::uint16_t*>(from);
  auto* sums = static_cast<std::uint16_t*>(to);
  for (int i = 0; i < *count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(widened(more[i]) + widened(sums[i]));
    sums[i] = static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
}

}  // namespace

MpiCollectives::MpiCollectives(MPI_Comm communicator) {
  MPI_Comm_dup(communicator, &communicator_);
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  MPI_Op_create(add_bfloat16, /*commute=*/1, &bfloat16_sum_);
}

void MpiCollectives::close() {
  MPI_Op_free(&bfloat16_sum_);
  MPI_Comm_free(&communicator_);
}

MPI_Request MpiCollectives::start(const Collective& what) const {
  MPI_Request request = MPI_REQUEST_NULL;
  const int count = static_cast<int>(what.count);
  const MPI_Datatype type = type_of(what.element);
  switch (what.kind) {
    case Collective::Kind::kSum:
      MPI_Iallreduce(MPI_IN_PLACE, what.data, count, type,
                     what.element == Element::kBFloat16 ? bfloat16_sum_ : MPI_SUM, communicator_,
                     &request);
      break;
    case Collective::Kind::kBroadcast:
      MPI_Ibcast(what.data, count, type, /*root=*/0, communicator_, &request);
      break;
    case Collective::Kind::kGather:
      MPI_Iallgather(what.data, count, type, what.gathered, count, type, communicator_, &request);
      break;
    case Collective::Kind::kBarrier:
      MPI_Ibarrier(communicator_, &request);
      break;
  }
  return request;
}

}  // namespace kiln
