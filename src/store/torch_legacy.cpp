// torch.save before 1.6 (or with _use_new_zipfile_serialization=False): pickles of a magic number,
// a protocol number, the machine, the object and the storage keys, then each storage as an int64
// count and its elements.
#include <map>
#include <string>

#include "store/byte_reader.h"
#include "store/legacy_magic.h"
#include "store/pickle_reader.h"
#include "store/state_dict_file.h"
#include "store/torch_tensors.h"

namespace kiln {
namespace {

constexpr std::int64_t kProtocol = 1001;
constexpr std::uint64_t kMaxTiedCopies = 4;

using Storages = std::map<std::string_view, std::string_view>;

// The types of the storages that the object refers to.
std::map<std::string_view, const PickleValue*> referenced_storages(const PickleDocument& object) {
  std::map<std::string_view, const PickleValue*> storages;
  for (const PickleValue& value : object.values) {
    if (value.kind != PickleKind::kStorage) continue;
    const auto [known, is_new] = storages.emplace(value.text, &value);
    if (!is_new && (known->second->dtype != value.dtype || known->second->number != value.number)) {
      throw FormatFault("it describes storage '" + std::string(value.text) + "' in two ways");
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
      throw FormatFault("it lists a storage that no tensor uses");
    }
    const auto count = little_endian<std::uint64_t>(bytes, at, "the size of a storage");
    const std::string what = "the storage '" + std::string(key->text.substr(0, 200)) + "'";
    if (count != static_cast<std::uint64_t>(found->second->number)) {
      throw FormatFault(what + " has " + std::to_string(count) + " elements where " +
                        std::to_string(found->second->number) + " are declared");
    }
    const std::size_t width = byte_size(found->second->dtype);
    if (count > bytes.size() / width) throw FormatFault(what + " is cut off");
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

}  // namespace

bool begins_like_torch_legacy(std::string_view bytes) {
  constexpr std::string_view kMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  constexpr std::size_t kFrameSize = 9;
  if (bytes.size() < 2 || bytes[0] != '\x80') return false;
  bytes.remove_prefix(2);
  if (bytes.starts_with('\x95')) bytes = bytes.substr(std::min(bytes.size(), kFrameSize));
  return bytes.starts_with(kMagic);
}

StateDict read_torch_legacy(std::string_view bytes) {
  if (!begins_like_torch_legacy(bytes))
    throw FormatFault("it lacks the magic number of torch.save");
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
  return collect_tensors(*object.root, storage_bytes, bytes.size() * kMaxTiedCopies);
}

}  // namespace kiln
