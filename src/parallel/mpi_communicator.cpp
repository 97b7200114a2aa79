#include "parallel/communicator.h"

#include "base/error.h"

namespace kiln {
namespace {

Element element_of(const at::Tensor& values) {
  switch (values.scalar_type()) {
    case at::kFloat:
      return Element::kFloat32;
    case at::kDouble:
      return Element::kFloat64;
    case at::kBFloat16:
      return Element::kBFloat16;
    case at::kLong:
      return Element::kInt64;
    default:
      throw InternalError("a collective of a type that MPI is not asked to sum");
  }
}

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(MpiThread& mpi) : mpi_(mpi) {}

  void start_sum(const at::Tensor& values) override { start(Collective::Kind::kSum, kSum, values); }
  void broadcast(const at::Tensor& values) override {
    start(Collective::Kind::kBroadcast, "broadcast of weights", values);
  }
  void finish() override { mpi_.wait(last_ticket_); }
  std::optional<double> sum_seconds() const override { return mpi_.seconds_of(kSum); }

 private:
  static constexpr const char* kSum = "gradient sum";

  void start(Collective::Kind kind, const char* name, const at::Tensor& values) {
    if (values.numel() == 0) return;
    last_ticket_ =
        mpi_.start({kind, name, values.data_ptr(), static_cast<std::size_t>(values.numel()),
                    element_of(values), nullptr, std::make_shared<at::Tensor>(values)});
  }

  MpiThread& mpi_;
  std::uint64_t last_ticket_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(MpiThread& mpi) {
  return std::make_unique<MpiCommunicator>(mpi);
}

}  // namespace kiln
