// An asynchronous parameter server. Li et al., "Scaling Distributed Machine Learning with the
// Parameter Server", 2014.
//
// The last ranks are servers. The parameters, with their optimizer state, are divided among them
// evenly by bytes. At the end of a step a worker sends its gradients to all servers; each updates
// its parameters immediately and replies with the new values. A step of a server handles as many
// requests as there are workers, in order of arrival. Servers thus make as many steps as the
// workers and finish after the last worker's gradients.
//
// How far a worker may run ahead is a number of its row in the catalogue: the run waits for the
// votes of earlier steps (run/epoch.cpp).
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "train/exchange/exchange.h"
#include "train/optimizer/optimizer.h"
#include "train/state.h"
#include "train/step.h"

namespace kiln {
namespace {

constexpr int kAnnouncementTag = 1, kGradientTag = 2, kWeightTag = 3;
constexpr const char* kOfWorker = "exchange with the servers";
constexpr const char* kOfServer = "gradients of the workers";

// The message that a worker sends before its gradients.
struct Announcement {
  std::int32_t rank = 0;
  std::int32_t has_trained = 0;  // 0: ignore the gradients, just reply with the weights
  double learning_rate = 0;
};

// A flat buffer with one view per tensor, of the same strides and type.
struct Packed {
  explicit Packed(const std::vector<at::Tensor>& tensors) {
    std::int64_t length = 0;
    for (const at::Tensor& tensor : tensors) length += tensor.numel();
    flat = at::zeros({length}, tensors.empty() ? at::TensorOptions(at::kFloat)
                                               : tensors.front().options().requires_grad(false));
    std::int64_t offset = 0;
    for (const at::Tensor& tensor : tensors) {
      places.push_back(flat.as_strided(tensor.sizes(), tensor.strides(), offset));
      offset += tensor.numel();
    }
  }

  void take(const std::vector<at::Tensor>& tensors) {
    for (std::size_t i = 0; i < places.size(); ++i) places[i].copy_(tensors[i]);
  }
  void give(const std::vector<at::Tensor>& tensors) const {
    for (std::size_t i = 0; i < places.size(); ++i) tensors[i].copy_(places[i]);
  }

  at::Tensor flat;
  std::vector<at::Tensor> places;
};

Parcel parcel(ParcelKind kind, const char* name, int rank, int tag, const at::Tensor& flat) {
  return {
      kind, name, rank, tag, flat.data_ptr(), flat.nbytes(), std::make_shared<at::Tensor>(flat)};
}

Parcel parcel(ParcelKind kind, const char* name, int rank,
              const std::shared_ptr<Announcement>& announcement) {
  return {kind,        name, rank, kAnnouncementTag, announcement.get(), sizeof(Announcement),
          announcement};
}

// The elements of `all` at these indices.
std::vector<at::Tensor> chosen(const std::vector<at::Tensor>& all,
                               const std::vector<std::size_t>& indices) {
  std::vector<at::Tensor> some;
  for (const std::size_t i : indices) some.push_back(all[i]);
  return some;
}

// Copies each tensor to all ranks from the one rank whose `has` contains its name.
void share_values(const std::vector<NamedTensor>& tensors, const std::set<std::string>& has,
                  Communicator& communicator) {
  if (tensors.empty()) return;
  const std::vector<at::Tensor> all = without_names(tensors);
  Packed sums(all);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (has.contains(tensors[i].name)) sums.places[i].copy_(all[i]);
  communicator.wait(communicator.all_reduce(sums.flat));
  sums.give(all);
}

class ParameterServer : public Exchange {
 public:
  ParameterServer(int num_servers, TrainState& state, World& world, Communicator& communicator)
      : state_(state),
        world_(world),
        num_workers_(world.size() - num_servers),
        parameters_(state.model->trained_parameters()),
        communicator_(communicator) {
    std::vector<std::size_t> bytes;
    for (const NamedTensor& item : parameters_) bytes.push_back(item.tensor.nbytes());
    shares_ = spread_evenly(bytes, num_servers);
  }

  void gather_state() override {
    const c10::AutoGradMode no_grad(false);
    share_values(parameters_, served_parameters(), communicator_);
    share_values(state_.optimizer->state(), copy_optimizer_state(), communicator_);
  }

  std::vector<std::pair<std::string, std::string>> plan() const override {
    std::vector<std::string> held;
    for (std::size_t server = 0; server < shares_.size(); ++server) {
      std::size_t bytes = 0;
      for (const std::size_t i : shares_[server]) bytes += parameters_[i].tensor.nbytes();
      held.push_back(world_.name_of(rank_of_server(server)) + ": " +
                     formatted("%zu tensors, %.2f MB", shares_[server].size(), bytes / 1e6));
    }
    return {{"parameter server",
             formatted("%d of %d ranks train, at most %d steps apart; the learning rate is divided "
                       "by each gradient's staleness",
                       num_workers_, world_.size(), kMaxLagOfWorker)},
            {"servers", joined(held, "; ")}};
  }

 protected:
  int rank_of_server(std::size_t server) const { return num_workers_ + static_cast<int>(server); }
  std::uint64_t post(const Parcel& parcel) { return world_.mpi()->post(parcel); }
  void wait(std::uint64_t ticket) { world_.mpi()->wait(ticket); }

  // The names of the parameters that this rank serves.
  virtual std::set<std::string> served_parameters() { return {}; }
  // Copies the optimizer state held by this rank into the TrainState. Returns its names.
  virtual std::set<std::string> copy_optimizer_state() { return {}; }

  TrainState& state_;
  World& world_;
  const int num_workers_;
  const std::vector<NamedTensor> parameters_;     // the trained parameters of the model
  std::vector<std::vector<std::size_t>> shares_;  // indices into `parameters_`, per server

 private:
  Communicator& communicator_;
};

class Worker final : public ParameterServer {
 public:
  Worker(int num_servers, TrainState& state, World& world, Communicator& communicator)
      : ParameterServer(num_servers, state, world, communicator) {
    for (const std::vector<std::size_t>& share : shares_) {
      const std::vector<at::Tensor> weights = chosen(without_names(parameters_), share);
      servers_.push_back(
          {weights, chosen(state.gradients.gradients(), share), Packed(weights), Packed(weights)});
    }
  }

  void finish(const StepUpdate& update, StepContext& context) override {
    const c10::AutoGradMode no_grad(false);
    context.enter(StepPhase::kCommunication);
    state_.gradients.wait();  // no sum to wait for, but zeroes gradients that backward did not set
    if (update.has_trained && update.clip_norm > 0)
      clip_norm(state_.gradients.flat(), update.clip_norm);
    const auto announcement = std::make_shared<Announcement>(
        Announcement{world_.rank(), update.has_trained ? 1 : 0, update.learning_rate});
    std::vector<std::uint64_t> tickets;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      Remote& server = servers_[i];
      const int rank = rank_of_server(i);
      server.sent.take(server.gradients);
      tickets.push_back(
          post(parcel(ParcelKind::kReceive, kOfWorker, rank, kWeightTag, server.received.flat)));
      tickets.push_back(post(parcel(ParcelKind::kSend, kOfWorker, rank, announcement)));
      tickets.push_back(
          post(parcel(ParcelKind::kSend, kOfWorker, rank, kGradientTag, server.sent.flat)));
    }
    for (const std::uint64_t ticket : tickets) wait(ticket);
    for (const Remote& server : servers_) server.received.give(server.weights);
  }

 private:
  struct Remote {
    std::vector<at::Tensor> weights, gradients;  // of this rank's model
    Packed sent, received;
  };
  std::vector<Remote> servers_;
};

class Server final : public ParameterServer {
 public:
  Server(int num_servers, const OptimizerPlan& optimizer, TrainState& state, World& world,
         Communicator& communicator)
      : ParameterServer(num_servers, state, world, communicator),
        is_first_(world.rank() == num_workers_),
        share_(shares_[world.rank() - num_workers_]),
        weights_(chosen(without_names(parameters_), share_)),
        received_(weights_),
        sent_(weights_),
        clock_(num_workers_) {
    const c10::AutoGradMode no_grad(false);
    optimizer_ = make_optimizer(optimizer, served_groups(optimizer));
    copy_state(state.optimizer->state(), optimizer_->state());
  }

  void finish(const StepUpdate&, StepContext& context) override {
    const c10::AutoGradMode no_grad(false);
    context.enter(StepPhase::kCommunication);
    for (int i = 0; i < num_workers_; ++i) serve_next();
  }

  void gather_state() override {
    ParameterServer::gather_state();
    clock_.add_join();
  }

 private:
  void serve_next() {
    Parcel any = parcel(ParcelKind::kReceive, kOfServer, Parcel::kAnyRank, announcement_);
    any.is_soon = false;
    wait(post(any));
    const int worker = announcement_->rank;
    if (worker < 0 || worker >= num_workers_)
      throw InternalError("a server received a message from a server");
    wait(post(parcel(ParcelKind::kReceive, kOfServer, worker, kGradientTag, received_.flat)));
    if (announcement_->has_trained != 0) {
      optimizer_->step(clock_.rate(announcement_->learning_rate, worker));
      clock_.add_update();
    }
    clock_.add_pull(worker);
    sent_.take(weights_);
    wait(post(parcel(ParcelKind::kSend, kOfServer, worker, kWeightTag, sent_.flat)));
  }

  // The model's groups, reduced to the parameters of this server. Their gradients are the receive
  // buffer.
  std::vector<ParameterGroup> served_groups(const OptimizerPlan& plan) {
    std::vector<at::Tensor> gradients = state_.gradients.gradients();
    for (std::size_t i = 0; i < share_.size(); ++i) gradients[share_[i]] = received_.places[i];
    const std::set<std::string> served = served_parameters();
    std::vector<ParameterGroup> groups;
    for (const ParameterGroup& whole : groups_of(*state_.model, gradients, plan)) {
      ParameterGroup group{{}, {}, whole.weight_decay, whole.rate};
      for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
        if (!served.contains(whole.parameters[i].name)) continue;
        group.parameters.push_back(whole.parameters[i]);
        group.gradients.push_back(whole.gradients[i]);
      }
      if (!group.parameters.empty()) groups.push_back(std::move(group));
    }
    return groups;
  }

  // Copies the values of `from` to the tensors in `to` that have the same name.
  static void copy_state(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to) {
    for (const NamedTensor& target : to)
      for (const NamedTensor& source : from)
        if (source.name == target.name) target.tensor.copy_(source.tensor);
  }

  std::set<std::string> served_parameters() override {
    std::set<std::string> names;
    for (const std::size_t i : share_) names.insert(parameters_[i].name);
    return names;
  }

  // State that belongs to no parameter ("steps") is the same on all servers; the first one's is
  // used.
  std::set<std::string> copy_optimizer_state() override {
    copy_state(optimizer_->state(), state_.optimizer->state());
    std::set<std::string> names;
    for (const NamedTensor& item : optimizer_->state())
      if (is_first_ || item.name.find('.') != std::string::npos) names.insert(item.name);
    return names;
  }

  const bool is_first_;
  const std::vector<std::size_t> share_;   // indices of this server's parameters
  const std::vector<at::Tensor> weights_;  // of this rank's model, in the order of share_
  Packed received_, sent_;                 // gradients, weights
  std::unique_ptr<Optimizer> optimizer_;   // updates weights_ with the gradients in received_
  ServerClock clock_;
  const std::shared_ptr<Announcement> announcement_ = std::make_shared<Announcement>();
};

}  // namespace

std::unique_ptr<Exchange> make_parameter_server(int num_servers, const OptimizerPlan& optimizer,
                                                TrainState& state, World& world,
                                                Communicator& communicator) {
  if (world.rank() < world.size() - num_servers)
    return std::make_unique<Worker>(num_servers, state, world, communicator);
  return std::make_unique<Server>(num_servers, optimizer, state, world, communicator);
}

}  // namespace kiln
