// The interface of libkiln_parquet.so, which writes Parquet files with Arrow. Standard C++ types
// only: the program includes no header of Arrow's, and the module needs no symbol of the program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kiln {

enum class ParquetType { kText, kInteger, kNumber };

struct ParquetColumn {
  std::string name;  // UTF-8
  ParquetType type = ParquetType::kText;
};

// monostate: none. Texts are UTF-8.
using ParquetValue = std::variant<std::monostate, std::string, std::int64_t, double>;

// Takes the file's bytes in order. What it throws comes out of the call that wrote.
using ParquetSink = std::function<void(std::string_view)>;

// A file in the making. One thread. Memory holds one row group. Errors of Arrow's are
// std::runtime_error; after an exception it can only be destroyed.
class ParquetFile {
 public:
  virtual ~ParquetFile() = default;
  // One value for each column, of its type or none. Throws std::invalid_argument otherwise.
  virtual void add(const std::vector<ParquetValue>& row) = 0;
  // Writes what is left and the footer. Without it the file is not one.
  virtual void close() = 0;
};

struct ParquetModule {
  int version;  // kParquetModuleVersion of the build
  // Format 2.6, snappy. `metadata`: keys and values of the file.
  std::unique_ptr<ParquetFile> (*create)(
      const std::vector<ParquetColumn>& columns,
      const std::vector<std::pair<std::string, std::string>>& metadata, ParquetSink sink);
};

// Changes whenever the structures above do, so that parts of two builds never meet.
inline constexpr int kParquetModuleVersion = 1;

// `const ParquetModule*()`, what the module exports.
inline constexpr const char* kParquetModuleSymbol = "kiln_parquet_module";

}  // namespace kiln
