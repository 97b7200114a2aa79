// The interface of libkiln_arrow.so, which reads and writes Parquet files with Arrow, and reads
// buckets. Uses only standard C++ types: the program includes no Arrow headers, and the module
// needs no symbols from the program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

// monostate: null. Texts are UTF-8.
using ParquetValue = std::variant<std::monostate, std::string, std::int64_t, double>;

// Receives the file's bytes in order. An exception thrown here propagates from the call that wrote.
using ParquetSink = std::function<void(std::string_view)>;

// A file being written. Use from one thread. One row group is held in memory. Arrow's errors are
// thrown as std::runtime_error; after an exception the object can only be destroyed.
class ParquetFile {
 public:
  virtual ~ParquetFile() = default;
  // Adds one value for each column, of the column's type or null. Throws std::invalid_argument
  // otherwise.
  virtual void add(const std::vector<ParquetValue>& row) = 0;
  // Writes the remaining rows and the footer, without which the file is not valid.
  virtual void close() = 0;
};

// A Parquet file being read. Use from one thread. Arrow's errors are thrown as std::runtime_error,
// a lack of memory as std::bad_alloc.
class ParquetReader {
 public:
  virtual ~ParquetReader() = default;
  // Of a struct, its fields as "name.field"; of a list, its name.
  virtual std::vector<std::string> columns() const = 0;
  // Of the key-value pairs stored in the file; empty if there is none.
  virtual std::string metadata(const std::string& key) const = 0;
  // Calls `row` with the values of some of columns(), row by row: texts and bytes as they are,
  // others as Arrow writes them, nothing for null; those of a list with kListEnd after each, and
  // kListEnd alone for an empty one. About 100 rows are in memory. Throws std::invalid_argument for
  // a value that is no text.
  static constexpr char kListEnd = '\x1f';
  // Of each row group, the rows and the uncompressed bytes of one of columns().
  virtual std::vector<std::pair<std::int64_t, std::int64_t>> groups(
      const std::string& column) const = 0;
  using Row = std::function<void(const std::vector<std::optional<std::string>>&)>;
  virtual void read(const std::vector<std::string>& columns, const Row& row) = 0;
};

struct BucketObject {
  std::string name;  // below the URL, without a slash before it; empty: the URL is this object's
  std::int64_t size = 0;
  std::int64_t time_ns = 0;  // of its last change, since 1970
};

// What a URL in a bucket names: an object, or all whose names begin with it and a slash. Arrow's
// errors are thrown as std::runtime_error, with the bucket's name and without secrets.
class BucketReader {
 public:
  virtual ~BucketReader() = default;
  // Empty if there is nothing. Names are as stored, also such as a//b, ../a or a beside a/b.
  virtual std::vector<BucketObject> list() = 0;
  // Passes the bytes of a listed object to `sink`, and returns what the store says of them: an MD5
  // as 32 digits in quotes or in base64; S3 says something else, but as long, of objects that are
  // encrypted with a key of one's own, and something longer of those uploaded in parts. Nothing if
  // the object is gone, ends early or has changed since it was listed, maybe while it was read.
  // From any thread.
  virtual std::optional<std::string> read(const BucketObject& object, const ParquetSink& sink) = 0;
};

struct ArrowModule {
  int version;  // kArrowModuleVersion of the build
  // Parquet format 2.6, with Snappy compression. `metadata`: key-value pairs stored in the file.
  std::unique_ptr<ParquetFile> (*create)(
      const std::vector<ParquetColumn>& columns,
      const std::vector<std::pair<std::string, std::string>>& metadata, ParquetSink sink);
  std::unique_ptr<ParquetReader> (*open)(const std::string& path);
  // s3://BUCKET/…, gs://BUCKET/… or abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/…, with names as
  // they are stored and no slash at the end. Credentials, region and endpoint are those that the
  // clouds' own tools find; without any, the bucket must be public.
  std::unique_ptr<BucketReader> (*open_bucket)(const std::string& url);
};

// Increased whenever the structures above change, so that parts of two builds are never combined.
inline constexpr int kArrowModuleVersion = 5;

// The exported function, of type `const ArrowModule*()`.
inline constexpr const char* kArrowModuleSymbol = "kiln_arrow_module";

}  // namespace kiln
