// torch.save's zip: <folder>/data.pkl, <folder>/data/<key>, <folder>/version, <folder>/byteorder.
#include <string>

#include "store/byte_reader.h"
#include "store/pickle_names.h"
#include "store/pickle_reader.h"
#include "store/state_dict_file.h"
#include "store/torch_tensors.h"
#include "store/zip_archive.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMaxTiedCopies =
    4;  // names that share one storage are rare; more is an attack on memory

std::string inner_folder(const ZipArchive& archive) {
  constexpr std::string_view kPickle = "/data.pkl";
  for (const ZipEntry& entry : archive.entries()) {
    if (!entry.name.ends_with(kPickle)) continue;
    const std::string_view folder = entry.name.substr(0, entry.name.size() - kPickle.size());
    if (folder.find('/') == std::string_view::npos) return std::string(folder) + '/';
  }
  throw FormatFault("it is a zip without a data.pkl, so not one that torch.save wrote");
}

void append_text(std::string& out, std::string_view text) {
  out += 'X';
  append_little_endian<std::uint32_t>(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

void append_number(std::string& out, std::uint64_t value) {
  if (value < 256) {
    out += 'K';
    out += static_cast<char>(value);
  } else if (value < 65536) {
    out += 'M';
    append_little_endian(out, static_cast<std::uint16_t>(value));
  } else if (value <= INT32_MAX) {
    out += 'J';
    append_little_endian(out, static_cast<std::uint32_t>(value));
  } else {
    out += "\x8a\x08";
    append_little_endian(out, value);
  }
}

void append_tuple(std::string& out, const std::vector<std::int64_t>& numbers) {
  out += '(';
  for (const std::int64_t number : numbers) append_number(out, static_cast<std::uint64_t>(number));
  out += 't';
}

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

// An OrderedDict of name -> torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False,
// OrderedDict()).
std::string pickle_of(const StateDict& state) {
  std::string out =
      "\x80\x02"
      "ccollections\nOrderedDict\nq";
  out += '\0';
  out += ")R(";
  for (std::size_t i = 0; i < state.size(); ++i) {
    const StoredTensor& tensor = state[i];
    append_text(out, tensor.name);
    if (i == 0) {
      out += "ctorch._utils\n_rebuild_tensor_v2\nq\x01";
    } else {
      out += "h\x01";
    }
    out += "((";
    append_text(out, "storage");
    out += "ctorch\n" + std::string(storage_class(tensor.dtype)) + '\n';
    append_text(out, std::to_string(i));
    append_text(out, "cpu");
    append_number(out, tensor.bytes.size() / byte_size(tensor.dtype));
    out += "tQ";
    append_number(out, 0);
    append_tuple(out, tensor.shape);
    append_tuple(out, row_major_strides(tensor.shape));
    out += "\x89h";
    out += '\0';
    out += ")RtR";
  }
  return out += "u.";
}

}  // namespace

StateDict read_torch_zip(std::string_view bytes) {
  const ZipArchive archive(bytes);
  const std::string folder = inner_folder(archive);
  const ZipEntry* order = archive.find(folder + "byteorder");
  if (order != nullptr && order->bytes != "little") {
    throw FormatFault("its byte order is not 'little'; save it on another machine");
  }
  const PickleDocument document = read_pickle(archive.find(folder + "data.pkl")->bytes);
  const auto storage_bytes = [&](const PickleValue& storage) {
    const ZipEntry* entry = archive.find(folder + "data/" + std::string(storage.text));
    if (entry == nullptr || !storage.items.empty()) {
      throw FormatFault("it has no data/" + std::string(storage.text.substr(0, 200)));
    }
    const auto count = static_cast<std::uint64_t>(storage.number);
    const std::size_t width = byte_size(storage.dtype);
    if (entry->bytes.size() % width != 0 || entry->bytes.size() / width != count) {
      throw FormatFault("its " + std::string(entry->name) + " has " +
                        std::to_string(entry->bytes.size()) + " bytes where " +
                        std::to_string(count) + " elements of " + std::to_string(width) +
                        " bytes are declared");
    }
    return entry->bytes;
  };
  return collect_tensors(*document.root, storage_bytes, bytes.size() * kMaxTiedCopies);
}

std::string write_torch_zip(const StateDict& state) {
  constexpr std::size_t kEntryOverhead = 300;
  std::size_t size = 0;
  for (const StoredTensor& tensor : state) {
    size += tensor.bytes.size() + tensor.name.size() + kEntryOverhead;
  }
  const std::string pickle = pickle_of(state);
  ZipWriter writer(size + pickle.size() + 10 * kEntryOverhead);
  writer.add("model/data.pkl", pickle);
  writer.add("model/byteorder", "little");
  for (std::size_t i = 0; i < state.size(); ++i) {
    writer.add("model/data/" + std::to_string(i), state[i].bytes);
  }
  writer.add("model/version", "3\n");
  return std::move(writer).finish();
}

}  // namespace kiln
