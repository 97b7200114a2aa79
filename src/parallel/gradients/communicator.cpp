#include "parallel/gradients/communicator.h"

#include <utility>

namespace kiln {
namespace {

class LocalCommunicator : public Communicator {
 public:
  int size() const override { return 1; }
  Ticket all_reduce(const at::Tensor&) override { return 0; }
  void wait(Ticket) override {}
  void broadcast(const at::Tensor&) override {}
  std::unique_ptr<Communicator> second_lane(const char*) override {
    return make_local_communicator();
  }
};

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(MpiThread& mpi, Lane lane, const char* sum_name)
      : mpi_(mpi), lane_(lane), sum_name_(sum_name) {}

  int size() const override { return mpi_.ranks().size; }
  Ticket all_reduce(const at::Tensor& values) override {
    return start(CollectiveKind::kAllReduce, sum_name_, values);
  }
  void wait(Ticket ticket) override { mpi_.wait(ticket); }
  void broadcast(const at::Tensor& values) override {
    wait(start(CollectiveKind::kBroadcast, "broadcast of weights", values));
  }
  bool overlaps() const override { return mpi_.ranks().local_size < mpi_.ranks().size; }
  std::optional<double> all_reduce_seconds() const override { return mpi_.seconds_of(sum_name_); }
  void trace(std::shared_ptr<Timeline> timeline) override { timeline_ = std::move(timeline); }
  std::unique_ptr<Communicator> second_lane(const char* sum_name) override {
    return std::make_unique<MpiCommunicator>(mpi_, Lane::kSecond, sum_name);
  }

 private:
  Ticket start(CollectiveKind kind, const char* name, const at::Tensor& values) {
    using enum ElementType;
    if (values.numel() == 0) return MpiThread::kDone;
    return mpi_.start({kind, name, values.data_ptr(), static_cast<std::size_t>(values.numel()),
                       type_among<ElementType>(values, {kFloat32, kFloat64, kInt64}, "MPI"),
                       nullptr, std::make_shared<at::Tensor>(values), lane_, timeline_});
  }

  MpiThread& mpi_;
  const Lane lane_;
  const char* const sum_name_;
  std::shared_ptr<Timeline> timeline_;
};

}  // namespace

std::unique_ptr<Communicator> make_local_communicator() {
  return std::make_unique<LocalCommunicator>();
}

std::unique_ptr<Communicator> make_mpi_communicator(MpiThread& mpi) {
  return std::make_unique<MpiCommunicator>(mpi, Lane::kMain, "gradient all-reduce");
}

}  // namespace kiln
