#include "report/scores/parquet.h"

#include <dlfcn.h>

#include <filesystem>
#include <variant>

#include "base/error.h"
#include "base/text.h"
#include "base/unicode_form.h"

namespace kiln {
namespace {

const ParquetModule& open_module() {
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libkiln_parquet.so";
  // RTLD_DEEPBIND, because LibTorch and Arrow both contain protobuf, and each must use its own
  // copy.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr)
    throw Error(ErrorCode::kUserError,
                "Parquet files cannot be written: " + std::string(::dlerror()) +
                    ". Use an output that ends in .csv or .jsonl.");
  auto* entry =
      reinterpret_cast<const ParquetModule* (*)()>(::dlsym(library, kParquetModuleSymbol));
  const ParquetModule* module = entry == nullptr ? nullptr : entry();
  if (module == nullptr || module->version != kParquetModuleVersion)
    throw Error(ErrorCode::kUserError, "Parquet files cannot be written: '" + path.string() +
                                           "' is from a different build of kiln. Reinstall both.");
  return *module;
}

class ParquetEncoder : public ScoreEncoder {
 public:
  explicit ParquetEncoder(ScoreColumns columns) : columns_(std::move(columns)) {
    std::vector<ParquetColumn> of_file;
    for (const ScoreColumn& column : score_columns(columns_))
      of_file.push_back(
          {as_utf8(column.name), column.is_number ? ParquetType::kNumber : ParquetType::kText});
    file_ = create_parquet(of_file, {}, [this](std::string_view bytes) { bytes_ += bytes; });
  }

  std::string begin() override { return taken(); }

  std::string row(const Score& score) override {
    std::vector<ParquetValue> values;
    for (const ScoreCell& cell : cells_of(columns_, score)) {
      ParquetValue& value = values.emplace_back();
      if (const auto* text = std::get_if<std::string>(&cell)) value = as_utf8(*text);
      if (const auto* number = std::get_if<float>(&cell)) value = static_cast<double>(*number);
    }
    file_->add(values);
    return taken();
  }

  std::string end() override {
    file_->close();
    return taken();
  }

 private:
  std::string taken() { return std::exchange(bytes_, {}); }

  ScoreColumns columns_;
  std::string bytes_;  // encoded, but not returned yet
  std::unique_ptr<ParquetFile> file_;
};

}  // namespace

std::unique_ptr<ParquetFile> create_parquet(
    const std::vector<ParquetColumn>& columns,
    const std::vector<std::pair<std::string, std::string>>& metadata, ParquetSink sink) {
  static const ParquetModule& module = open_module();
  return module.create(columns, metadata, std::move(sink));
}

std::unique_ptr<ScoreEncoder> make_parquet_encoder(ScoreColumns columns) {
  return std::make_unique<ParquetEncoder>(std::move(columns));
}

}  // namespace kiln
