// Environment variables for one test.
#pragma once

#include <cstdlib>
#include <map>
#include <string>
#include <utility>

namespace kiln {

// Sets environment variables, and unsets them at the end.
class Environment {
 public:
  using Values = std::map<std::string, std::string>;
  explicit Environment(Values values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const Values values_;
};

}  // namespace kiln
