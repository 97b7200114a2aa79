// The format of torch.save before 1.6 (or with _use_new_zipfile_serialization=False): pickles of a
// magic number, a protocol number, the machine, the object and the storage keys, then each storage
// as an int64 count and its elements.
#include <map>
#include <string>

#include "store/byte_reader.h"
#include "store/pickle.h"
#include "store/state_dict_file.h"
#include "store/torch_tensors.h"
#include "store/zip_archive.h"

namespace kiln {
namespace {

constexpr std::int64_t kProtocol = 1001;
// Names rarely share a storage; more copies than this are an attempt to exhaust memory.
constexpr std::uint64_t kMaxTiedCopies = 4;

using Storages = std::map<std::string_view, std::string_view>;

// The storages used by the object, with their types.
std::map<std::string_view, const PickleValue*> referenced_storages(const PickleDocument& object) {
  std::map<std::string_view, const PickleValue*> storages;
  for (const PickleValue& value : object.values) {
    if (value.kind != PickleKind::kStorage) continue;
    const auto [known, is_new] = storages.emplace(value.text, &value);
    if (!is_new && (known->second->dtype != value.dtype || known->second->number != value.number)) {
      throw FormatFault("it describes storage '" + std::string(value.text) +
                        "' twice, differently");
    }
  }
  return storages;
}

Storages read_storages(std::string_view bytes, const PickleValue& keys,
                       const PickleDocument& object) {
  if (keys.kind != PickleKind::kList) throw FormatFault("it has no list of storages");
  const auto referenced = referenced_storages(object);
  Storages storages;
  std::uint64_t at = 0;
  for (const PickleValue* key : keys.items) {
    const auto found = referenced.find(key->text);
    if (key->kind != PickleKind::kString || found == referenced.end()) {
      throw FormatFault("it lists a storage that no tensor of a known kind uses");
    }
    const auto count = little_endian<std::uint64_t>(bytes, at, "the size of a storage");
    const std::string what = "the storage '" + std::string(key->text.substr(0, 200)) + "'";
    if (count != static_cast<std::uint64_t>(found->second->number)) {
      throw FormatFault(what + " has " + std::to_string(count) + " elements where " +
                        std::to_string(found->second->number) + " are declared");
    }
    const std::size_t width = byte_size(found->second->dtype);
    if (count > bytes.size() / width) throw FormatFault(what + " is truncated");
    if (!storages.emplace(key->text, range_of(bytes, at + 8, count * width, what)).second) {
      throw FormatFault(what + " is listed twice");
    }
    at += 8 + count * width;
  }
  return storages;
}

std::string_view view_of(const PickleValue& storage, std::string_view root) {
  if (storage.items.empty()) return root;
  const std::size_t width = byte_size(storage.dtype);
  const std::int64_t first = storage.items[1]->number;
  const std::int64_t count = storage.items[2]->number;
  if (first < 0 || count < 0 || first > storage.number || count > storage.number - first) {
    throw FormatFault("it has a view that reaches beyond its storage");
  }
  return root.substr(static_cast<std::size_t>(first) * width,
                     static_cast<std::size_t>(count) * width);
}

std::string inner_folder(const ZipArchive& archive) {
  constexpr std::string_view kPickle = "/data.pkl";
  for (const ZipEntry& entry : archive.entries()) {
    if (!entry.name.ends_with(kPickle)) continue;
    const std::string folder = entry.name.substr(0, entry.name.size() - kPickle.size());
    if (folder.find('/') == folder.npos) return folder + '/';
  }
  throw FormatFault("it is a zip without data.pkl, so torch.save did not write it");
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

bool begins_like_torch_legacy(std::string_view bytes) {
  constexpr std::string_view kMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  constexpr std::size_t kFrameSize = 9;
  if (bytes.size() < 2 || bytes[0] != '\x80') return false;
  bytes.remove_prefix(2);
  if (bytes.starts_with('\x95')) bytes = bytes.substr(std::min(bytes.size(), kFrameSize));
  return bytes.starts_with(kMagic);
}

StateDict read_torch_legacy(std::string_view bytes, StateDictParts& parts) {
  if (!begins_like_torch_legacy(bytes))
    throw FormatFault("it does not have the magic number of torch.save");
  std::string_view rest = bytes.substr(bytes.find("\x50\x19.") + 3);
  const auto next = [&rest] {
    PickleDocument document = read_pickle(rest);
    rest.remove_prefix(document.size);
    return document;
  };
  const PickleDocument protocol = next();
  if (protocol.root->kind != PickleKind::kInt || protocol.root->number != kProtocol) {
    throw FormatFault("its torch.save protocol is not 1001");
  }
  const PickleDocument machine = next();
  const auto& facts = machine.root->items;
  for (std::size_t i = 0; machine.root->kind == PickleKind::kDict && i + 1 < facts.size(); i += 2) {
    if (facts[i]->text == "little_endian" && facts[i + 1]->number == 0) {
      throw FormatFault("its byte order is not little-endian; save it on another machine");
    }
  }
  const PickleDocument object = next();
  const PickleDocument keys = next();
  const Storages storages = read_storages(rest, *keys.root, object);
  const auto storage_bytes = [&](const PickleValue& storage) {
    const auto found = storages.find(storage.text);
    if (found == storages.end()) {
      throw FormatFault("it has no data for storage '" + std::string(storage.text) + "'");
    }
    return view_of(storage, found->second);
  };
  return collect_tensors(*object.root, storage_bytes, bytes.size() * kMaxTiedCopies, parts);
}

// The zip format of torch.save: <folder>/data.pkl, <folder>/data/<key>, <folder>/version,
// <folder>/byteorder.

StateDict read_torch_zip(std::string_view bytes, StateDictParts& parts) {
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
  return collect_tensors(*document.root, storage_bytes, bytes.size() * kMaxTiedCopies, parts);
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
