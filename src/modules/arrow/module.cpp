#include "modules/arrow/module.h"

#include <arrow/api.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/filesystem/s3fs.h>
#include <arrow/io/file.h>
#include <arrow/io/interfaces.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/schema.h>

#include <algorithm>
#include <exception>
#include <new>
#include <stdexcept>

namespace kiln {
namespace {

// Readers take a row group at a time, and so does this writer's memory.
constexpr std::int64_t kRowsOfGroup = 64 << 10;

void require(const arrow::Status& status) {
  if (status.IsOutOfMemory()) throw std::bad_alloc();
  if (!status.ok()) throw std::runtime_error(status.message());
}

// Hands on what Arrow writes, and keeps what the sink throws: exceptions may not cross Arrow.
class SinkStream : public arrow::io::OutputStream {
 public:
  explicit SinkStream(ParquetSink sink) : sink_(std::move(sink)) {
    set_mode(arrow::io::FileMode::WRITE);
  }

  arrow::Status Write(const void* data, std::int64_t size) override {
    try {
      sink_({static_cast<const char*>(data), static_cast<std::size_t>(size)});
    } catch (...) {
      fault_ = std::current_exception();
      return arrow::Status::IOError("the sink failed");
    }
    written_ += size;
    return arrow::Status::OK();
  }
  arrow::Result<std::int64_t> Tell() const override { return written_; }
  arrow::Status Close() override {
    is_closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return is_closed_; }

  std::exception_ptr fault() const { return fault_; }

 private:
  ParquetSink sink_;
  std::int64_t written_ = 0;
  bool is_closed_ = false;
  std::exception_ptr fault_;
};

std::shared_ptr<arrow::DataType> arrow_type(ParquetType type) {
  switch (type) {
    case ParquetType::kText:
      return arrow::utf8();
    case ParquetType::kInteger:
      return arrow::int64();
    case ParquetType::kNumber:
      return arrow::float64();
  }
  throw std::invalid_argument("unknown type of column");
}

// Appends values of one column to its builder.
class Column {
 public:
  Column(const ParquetColumn& column, arrow::MemoryPool* pool) : name_(column.name) {
    std::unique_ptr<arrow::ArrayBuilder> builder;
    require(arrow::MakeBuilder(pool, arrow_type(column.type), &builder));
    builder_ = std::move(builder);
  }

  void add(const ParquetValue& value) {
    if (std::holds_alternative<std::monostate>(value)) return require(builder_->AppendNull());
    if (const auto* text = std::get_if<std::string>(&value))
      return add<arrow::StringBuilder>(*text);
    if (const auto* integer = std::get_if<std::int64_t>(&value))
      return add<arrow::Int64Builder>(*integer);
    add<arrow::DoubleBuilder>(std::get<double>(value));
  }

  std::shared_ptr<arrow::Array> take() {
    std::shared_ptr<arrow::Array> values;
    require(builder_->Finish(&values));
    return values;
  }

 private:
  template <typename Builder, typename Value>
  void add(const Value& value) {
    auto* builder = dynamic_cast<Builder*>(builder_.get());
    if (builder == nullptr) throw std::invalid_argument("a value of a different type in " + name_);
    require(builder->Append(value));
  }

  std::string name_;
  std::shared_ptr<arrow::ArrayBuilder> builder_;
};

class ArrowFile : public ParquetFile {
 public:
  ArrowFile(const std::vector<ParquetColumn>& columns,
            const std::vector<std::pair<std::string, std::string>>& metadata, ParquetSink sink)
      : stream_(std::make_shared<SinkStream>(std::move(sink))) {
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (const ParquetColumn& column : columns) {
      fields.push_back(arrow::field(column.name, arrow_type(column.type)));
      columns_.emplace_back(column, pool_);
    }
    auto pairs = std::make_shared<arrow::KeyValueMetadata>();
    for (const auto& [key, value] : metadata) pairs->Append(key, value);
    schema_ = arrow::schema(fields, pairs);
    const auto properties = parquet::WriterProperties::Builder()
                                .version(parquet::ParquetVersion::PARQUET_2_6)
                                ->compression(parquet::Compression::SNAPPY)
                                ->memory_pool(pool_)
                                ->build();
    // Without the schema in it, Arrow leaves the metadata out.
    const auto of_arrow = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    auto opened = parquet::arrow::FileWriter::Open(*schema_, pool_, stream_, properties, of_arrow);
    check(opened.status());
    writer_ = std::move(*opened);
  }

  void add(const std::vector<ParquetValue>& row) override {
    if (row.size() != columns_.size()) throw std::invalid_argument("a row of a different length");
    for (std::size_t i = 0; i < row.size(); ++i) columns_[i].add(row[i]);
    if (++num_rows_ == kRowsOfGroup) write_group();
  }

  void close() override {
    if (num_rows_ > 0) write_group();
    check(writer_->Close());
  }

 private:
  void write_group() {
    std::vector<std::shared_ptr<arrow::Array>> values;
    for (Column& column : columns_) values.push_back(column.take());
    check(writer_->WriteTable(*arrow::Table::Make(schema_, values, num_rows_), num_rows_));
    num_rows_ = 0;
  }

  void check(const arrow::Status& status) {
    if (stream_->fault()) std::rethrow_exception(stream_->fault());
    require(status);
  }

  // malloc: Arrow's own allocators keep what they were given.
  arrow::MemoryPool* const pool_ = arrow::system_memory_pool();
  std::shared_ptr<SinkStream> stream_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<Column> columns_;
  std::int64_t num_rows_ = 0;  // of the row group
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

std::unique_ptr<ParquetFile> create(
    const std::vector<ParquetColumn>& columns,
    const std::vector<std::pair<std::string, std::string>>& metadata, ParquetSink sink) {
  return std::make_unique<ArrowFile>(columns, metadata, std::move(sink));
}

std::optional<std::string> text_at(const arrow::Array& values, std::int64_t i) {
  auto scalar = values.GetScalar(i);
  require(scalar.status());
  if (!(*scalar)->is_valid) return std::nullopt;
  if (const auto* coded = dynamic_cast<const arrow::DictionaryScalar*>(scalar->get())) {
    scalar = coded->GetEncodedValue();
    require(scalar.status());
  }
  const arrow::Type::type type = (*scalar)->type->id();
  if (const auto* bytes = dynamic_cast<const arrow::BaseBinaryScalar*>(scalar->get())) {
    if (bytes->value == nullptr) return std::nullopt;
    if (arrow::is_string(type) && bytes->view().find(ParquetReader::kListEnd) != std::string::npos)
      throw std::invalid_argument("has a text with control characters");
    return std::string(bytes->view());
  }
  if (const auto* list = dynamic_cast<const arrow::BaseListScalar*>(scalar->get())) {
    std::string text;
    if (list->value != nullptr && list->value->length() > 1 &&
        list->value->type_id() == arrow::Type::BOOL)
      throw std::invalid_argument(
          "has true or false for each class: write the names or the numbers of an image's classes, "
          "each once");
    for (std::int64_t k = 0; list->value != nullptr && k < list->value->length(); ++k)
      text += text_at(*list->value, k).value_or("") + ParquetReader::kListEnd;
    return text.empty() ? std::string(1, ParquetReader::kListEnd) : text;
  }
  if (arrow::is_nested(type))
    throw std::invalid_argument("has a " + (*scalar)->type->name() + " instead of a text");
  return (*scalar)->ToString();
}

class ArrowReader : public ParquetReader {
 public:
  explicit ArrowReader(const std::string& path) {
    auto file = arrow::io::ReadableFile::Open(path, pool_);
    require(file.status());
    parquet::arrow::FileReaderBuilder builder;
    parquet::ReaderProperties pages(pool_);
    pages.enable_buffered_stream();  // else whole columns of a row group are in memory
    require(builder.Open(*file, pages));
    parquet::ArrowReaderProperties properties;
    properties.set_batch_size(kRowsInMemory);
    properties.set_pre_buffer(false);
    require(builder.memory_pool(pool_)->properties(properties)->Build(&reader_));
    require(reader_->GetSchema(&schema_));
    const parquet::SchemaDescriptor& leaves = *reader_->parquet_reader()->metadata()->schema();
    for (int i = 0; i < leaves.num_columns(); ++i) {
      const std::string column = leaves.Column(i)->path()->ToDotString();
      const auto field = schema_->GetFieldByName(column.substr(0, column.find('.')));
      const bool is_list = field != nullptr &&
                           dynamic_cast<const arrow::BaseListType*>(field->type().get()) != nullptr;
      columns_.push_back(is_list ? field->name() : column);
    }
  }

  std::vector<std::string> columns() const override { return columns_; }

  std::string metadata(const std::string& key) const override {
    const auto found = schema_->metadata() == nullptr ? arrow::Result<std::string>("")
                                                      : schema_->metadata()->Get(key);
    return found.ok() ? *found : std::string();
  }

  std::vector<std::pair<std::int64_t, std::int64_t>> groups(
      const std::string& column) const override {
    const auto leaf = static_cast<int>(std::ranges::find(columns_, column) - columns_.begin());
    std::vector<std::pair<std::int64_t, std::int64_t>> groups;
    for (int i = 0; i < reader_->num_row_groups(); ++i) {
      const auto group = reader_->parquet_reader()->metadata()->RowGroup(i);
      groups.emplace_back(group->num_rows(), group->ColumnChunk(leaf)->total_uncompressed_size());
    }
    return groups;
  }

  void read(const std::vector<std::string>& columns, const Row& row) override {
    std::vector<int> indices;
    indices.reserve(columns.size());
    for (const std::string& name : columns)
      indices.push_back(static_cast<int>(std::ranges::find(columns_, name) - columns_.begin()));
    std::ranges::sort(indices);
    std::vector<std::optional<std::string>> texts(columns.size());
    for (int group = 0; group < reader_->num_row_groups(); ++group) {
      auto batches = reader_->GetRecordBatchReader({group}, indices);
      require(batches.status());
      for (std::shared_ptr<arrow::RecordBatch> batch;;) {
        require((*batches)->ReadNext(&batch));
        if (batch == nullptr) break;
        for (std::int64_t i = 0; i < batch->num_rows(); ++i) {
          for (std::size_t k = 0; k < columns.size(); ++k)
            texts[k] = text_of(*batch, columns[k], i);
          row(texts);
        }
      }
    }
  }

 private:
  static constexpr std::int64_t kRowsInMemory = 100;

  static std::optional<std::string> text_of(const arrow::RecordBatch& batch,
                                            const std::string& column, std::int64_t i) {
    if (const auto values = batch.GetColumnByName(column)) return text_at(*values, i);
    const std::size_t dot = column.find('.');
    const auto outer = batch.GetColumnByName(column.substr(0, dot));
    const auto* parts = dynamic_cast<const arrow::StructArray*>(outer.get());
    const auto values = parts == nullptr ? nullptr : parts->GetFieldByName(column.substr(dot + 1));
    if (values == nullptr) throw std::runtime_error("the column " + column + " is nested deeply");
    return parts->IsNull(i) ? std::nullopt : text_at(*values, i);
  }

  arrow::MemoryPool* const pool_ = arrow::system_memory_pool();
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::string> columns_;
};

std::unique_ptr<ParquetReader> open(const std::string& path) {
  return std::make_unique<ArrowReader>(path);
}

// ---- buckets ----

constexpr std::int64_t kPieceBytes = 8 << 20;  // of an object, in one request
constexpr int kMostReads = 32;                 // at a time

// Ends with the process what S3's library has begun, which cannot begin again.
struct Clouds {
  ~Clouds() { (void)arrow::fs::EnsureS3Finalized(); }
};

class ArrowBucket : public BucketReader {
 public:
  explicit ArrowBucket(const std::string& url) {
    require(arrow::fs::EnsureS3Initialized());
    require(arrow::io::SetIOThreadPoolCapacity(kMostReads));  // S3 opens so many connections
    // Of a URL, Arrow decodes %20 and the like; in the name of an object that is no code.
    const std::string top = url.substr(0, url.find('/', url.find("://") + 3));
    const std::string name = url.substr(top.size()), patience = "?retry_limit_seconds=10";
    const bool is_google = url.starts_with("gs:");
    connect(top + (is_google ? patience : ""), name);
    const auto found = files_->GetFileInfo(path_);
    if (found.ok() || url.starts_with("s3:")) return;  // which signs nothing without credentials
    connect(is_google ? "gs://anonymous@" + top.substr(5) + patience
                      : top + "?credential_kind=anonymous",
            name);
    if (!files_->GetFileInfo(path_).ok()) require(found.status());
  }

  std::vector<BucketObject> list() override {
    const arrow::fs::FileInfo top = info(path_);
    if (top.IsFile()) return {of(top)};
    arrow::fs::FileSelector all;
    all.base_dir = path_;
    all.recursive = true;
    all.allow_not_found = true;
    std::vector<BucketObject> objects;
    if (top.type() == arrow::fs::FileType::NotFound) return objects;
    const auto found = files_->GetFileInfo(all);
    require(found.status());
    for (const arrow::fs::FileInfo& file : *found)
      if (file.IsFile()) objects.push_back(of(file));
    return objects;
  }

  std::optional<std::string> read(const BucketObject& object, const ParquetSink& sink) override {
    const std::string path = path_ + (object.name.empty() ? "" : "/" + object.name);
    std::int64_t at = 0;
    std::string tag;
    const arrow::Status status = [&]() -> arrow::Status {
      ARROW_ASSIGN_OR_RAISE(const auto file, files_->OpenInputFile(path));
      ARROW_ASSIGN_OR_RAISE(const std::int64_t size, file->GetSize());
      for (std::int64_t got = 1; size == object.size && at < size && got > 0; at += got) {
        ARROW_ASSIGN_OR_RAISE(const auto piece, file->ReadAt(at, std::min(kPieceBytes, size - at)));
        got = piece->size();
        sink(std::string_view(*piece));
      }
      ARROW_ASSIGN_OR_RAISE(const auto facts, file->ReadMetadata());
      for (const char* name : {"ETag", "md5Hash", "Content-Hash"})
        if (facts != nullptr && facts->Contains(name)) tag = facts->Get(name).ValueOrDie();
      return arrow::Status::OK();
    }();
    if (status.ok() && at == object.size && at <= kPieceBytes) return tag;
    constexpr std::int64_t kSecond = 1'000'000'000;  // stores may say less here than in lists
    const arrow::fs::FileInfo now = info(path);
    if (!now.IsFile() || now.size() != object.size ||
        of(now).time_ns / kSecond != object.time_ns / kSecond)
      return std::nullopt;
    require(status);
    return at == object.size ? std::optional(tag) : std::nullopt;
  }

 private:
  void connect(const std::string& url, const std::string& name) {
    auto files = arrow::fs::FileSystemFromUri(url, &path_);
    require(files.status());
    path_ += name;
    files_ = *std::move(files);
    static const Clouds kEndedAtExit;  // before what Arrow has made by now
  }

  arrow::fs::FileInfo info(const std::string& path) const {
    auto found = files_->GetFileInfo(path);
    require(found.status());
    return *std::move(found);
  }

  BucketObject of(const arrow::fs::FileInfo& file) const {
    const bool is_top = file.path().size() <= path_.size();
    return {is_top ? "" : file.path().substr(path_.size() + 1), file.size(),
            file.mtime().time_since_epoch().count()};
  }

  std::shared_ptr<arrow::fs::FileSystem> files_;
  std::string path_;  // as Arrow names it, the bucket first
};

std::unique_ptr<BucketReader> open_bucket(const std::string& url) {
  return std::make_unique<ArrowBucket>(url);
}

}  // namespace
}  // namespace kiln

extern "C" const kiln::ArrowModule* kiln_arrow_module() {
  static constexpr kiln::ArrowModule kModule{kiln::kArrowModuleVersion, kiln::create, kiln::open,
                                             kiln::open_bucket};
  return &kModule;
}
