#include "base/platform/sagemaker.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <system_error>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"

namespace fs = std::filesystem;

namespace kiln {

fs::path sagemaker_folder() {
  const std::string folder = environment("SAGEMAKER_BASE_DIR");
  return folder.empty() ? "/opt/ml" : folder;
}

namespace {

using Json = nlohmann::json;

constexpr auto kReplace = Json::error_handler_t::replace;

constexpr std::uint64_t kMaxFileBytes = 1 << 20;
constexpr const char* kResources = "SageMaker's resourceconfig.json ";

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::kParameterParsing, message);
}

// Throws Error kParameterParsing if the file holds no JSON object.
Json read_object(const fs::path& path) {
  const std::string where = "SageMaker's file '" + path.string() + "'";
  std::string text;
  try {
    text = read_text(path, kMaxFileBytes);
  } catch (const std::system_error& failure) {
    fail(where + " cannot be read (" + failure.code().message() +
         "): start the job through SageMaker, or pass the paths to `kiln train`.");
  } catch (const std::length_error&) {
    fail(where + " is larger than 1 MiB, so SageMaker did not write it.");
  }
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) fail(where + " is not a JSON object.");
  return object;
}

// Returns the string member `name`; empty if there is none.
std::string text_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string plain_text(const std::string& name, const Json& value) {
  if (!value.is_string()) {
    if (value.is_structured())
      fail("The hyperparameter '" + name + "' is a list or an object, but must be a single value.");
    return value.dump();
  }
  const std::string text = value.get<std::string>();
  const Json inner = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (inner.is_structured())
    fail("The hyperparameter '" + name + "' is '" + excerpt(text) +
         "', a list or an object, but must be a single value.");
  return inner.is_string() ? inner.get<std::string>() : text;
}

void read_hyperparameters(const fs::path& folder, SageMakerTree& tree, Problems& problems) {
  const Json object = read_object(folder / "hyperparameters.json");
  for (const auto& entry : object.items()) {
    const std::string& name = entry.key();
    try {
      if (name == kRanksPerHost) tree.ranks_per_host = plain_text(name, entry.value());
      if (name == kMpiOptions) tree.mpi_options = plain_text(name, entry.value());
      if (name == kParameterServer) tree.parameter_server = plain_text(name, entry.value());
      const bool is_of_sdk = name.starts_with("sagemaker_") || name == "_tuning_objective_metric";
      if (!is_of_sdk) tree.hyperparameters[name] = plain_text(name, entry.value());
    } catch (const Error& error) {
      problems.add(error);
      tree.unreadable.push_back(name);
    }
  }
}

}  // namespace

SageMakerHosts read_sagemaker_hosts(const fs::path& file) {
  const Json object = read_object(file);
  SageMakerHosts found{.current_host = text_member(object, "current_host"),
                       .network_interface = text_member(object, "network_interface_name")};
  const auto hosts = object.find("hosts");
  if (hosts == object.end() || !hosts->is_array() || hosts->empty() || found.current_host.empty())
    fail(kResources + std::string("does not list the hosts of the job and the current host."));
  std::set<std::string> names;
  for (const Json& host : *hosts) {
    if (!host.is_string() || !is_host_name(host.get<std::string>()))
      fail(kResources +
           ("lists " + excerpt(host.dump(-1, ' ', /*ensure_ascii=*/true, kReplace)) +
            " as a host, but host names have only letters, digits, '.', '-' and '_', and "
            "no '-' in front."));
    if (!names.insert(host).second)
      fail(kResources + ("lists the host '" + host.get<std::string>() + "' twice."));
    found.hosts.push_back(host);
  }
  if (!names.contains(found.current_host))
    fail(kResources + ("names '" + found.current_host +
                       "' as the current host, which is not one of the job's hosts: " +
                       join_choices(found.hosts) + "."));
  return found;
}

SageMakerTree read_sagemaker_tree(const fs::path& folder, Problems& problems) {
  SageMakerTree tree;
  Problems of_files;
  const fs::path files = folder / "input/config";
  of_files.collect([&] {
    static_cast<SageMakerHosts&>(tree) = read_sagemaker_hosts(files / "resourceconfig.json");
  });
  of_files.collect([&] {
    const Json object = read_object(files / "inputdataconfig.json");
    for (const auto& [name, channel] : object.items())
      tree.channels[name] = {text_member(channel, "TrainingInputMode") == "Pipe",
                             text_member(channel, "S3DistributionType") == "ShardedByS3Key"};
  });
  of_files.collect([&] { read_hyperparameters(files, tree, problems); });
  if (of_files.empty()) return tree;
  of_files.collect([&] { throw problems; });
  throw of_files;
}

namespace {

constexpr std::size_t kMaxBytes = 1024;

// A training job's configuration lies in another folder.
bool is_processing_job() {
  return is_there(sagemaker_folder() / "config/resourceconfig.json");
}

fs::path failure_file() {
  return sagemaker_folder() / "output" / (is_processing_job() ? "message" : "failure");
}

}  // namespace

void leave_failure_note(const std::string& text) {
  const std::string note = cut_to_bytes(text, kMaxBytes);
  const fs::path termination_log = "/dev/termination-log";
  const fs::path file = failure_file();
  std::error_code ignored;
  if (is_processing_job()) fs::create_directory(file.parent_path(), ignored);
  if (is_there(termination_log)) std::ofstream(termination_log) << note;
  if (is_folder(file.parent_path())) std::ofstream(file) << note;
}

void remove_failure_note() {
  remove_quietly(failure_file());
}

std::string failure_note() {
  std::ifstream file(failure_file());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace kiln
