#include "config/sagemaker_tree.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "base/files.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxFileBytes = 1 << 20;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::kParameterParsing, message);
}

// The object in the file `name`.
Json read_object(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path path = folder / "input/config" / name;
  const std::string where = "SageMaker's file '" + path.string() + "'";
  std::string text;
  try {
    text = read_file(path, kMaxFileBytes);
  } catch (const std::system_error& failure) {
    fail(where + " cannot be read (" + failure.code().message() +
         "): start the job through SageMaker, or give train its paths.");
  } catch (const std::length_error&) {
    fail(where + " is larger than 1 MiB, so it is none that SageMaker wrote.");
  }
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) fail(where + " does not hold a JSON object.");
  return object;
}

// The text member `name`; empty when there is none.
std::string text_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string plain_text(const std::string& name, const Json& value) {
  if (!value.is_string()) {
    if (value.is_structured())
      fail("The hyperparameter '" + name + "' holds a list or an object, but must be one value.");
    return value.dump();
  }
  const std::string text = value.get<std::string>();
  const Json inner = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (inner.is_structured())
    fail("The hyperparameter '" + name + "' is '" + text +
         "', a list or an object, but must be one value.");
  return inner.is_string() ? inner.get<std::string>() : text;
}

void read_hosts(const std::filesystem::path& folder, SageMakerTree& tree) {
  const Json object = read_object(folder, "resourceconfig.json");
  tree.current_host = text_member(object, "current_host");
  tree.network_interface = text_member(object, "network_interface_name");
  if (const auto hosts = object.find("hosts"); hosts != object.end() && hosts->is_array())
    for (const Json& host : *hosts)
      if (host.is_string()) tree.hosts.push_back(host);
  if (tree.hosts.empty() || tree.current_host.empty())
    fail("SageMaker's resourceconfig.json does not name the hosts of the job and this one.");
}

void read_channels(const std::filesystem::path& folder, SageMakerTree& tree) {
  const Json object = read_object(folder, "inputdataconfig.json");
  for (const auto& [name, channel] : object.items())
    tree.channels[name] = {text_member(channel, "TrainingInputMode") == "Pipe",
                           text_member(channel, "S3DistributionType") == "ShardedByS3Key"};
}

}  // namespace

SageMakerTree read_sagemaker_tree(const std::filesystem::path& folder, Problems& problems) {
  SageMakerTree tree;
  problems.collect([&] { read_hosts(folder, tree); });
  problems.collect([&] { read_channels(folder, tree); });
  problems.collect([&] {
    const Json object = read_object(folder, "hyperparameters.json");
    for (const auto& entry : object.items())
      problems.collect(
          [&] { tree.hyperparameters[entry.key()] = plain_text(entry.key(), entry.value()); });
  });
  return tree;
}

}  // namespace kiln
