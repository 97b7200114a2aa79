#include "store/torch_file.h"

#include <zlib.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/archive/archive.h"
#include "store/pickle.h"
#include "store/state_dict_file.h"

namespace kiln {
namespace {

constexpr std::size_t kAlignment = 64;

std::uint32_t checksum_of(std::string_view bytes) {
  return crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

}  // namespace

ZipArchive::ZipArchive(std::string_view bytes) {
  std::vector<std::uint32_t> checksums;
  const auto add = [&](std::string_view name, const ArchiveMember& member) {
    if (name.find("/code/") != name.npos || name.ends_with("/constants.pkl"))
      throw FormatFault(
          "it is TorchScript, a program with its weights; save these alone in Python: "
          "torch.save(torch.jit.load('FILE').state_dict(), 'weights.pth')");
    if (member.packing == ArchiveMember::Packing::kDeflated)
      throw FormatFault("its zip entry " + quoted_beginning(name) +
                        " is compressed, which torch.save never does");
    const std::string_view header = range_of(bytes, member.offset, kZipHeaderBytes, "a zip entry");
    const std::string_view data = range_of(bytes, zip_data_offset(header, member), member.size,
                                           "the zip entry " + quoted_beginning(name));
    if (!by_name_.emplace(name, entries_.size()).second)
      throw FormatFault("it has two zip entries named " + quoted_beginning(name));
    entries_.push_back({std::string(name), data});
    checksums.push_back(member.checksum);
  };
  try {
    list_zip(bytes, add);
  } catch (const ArchiveFault& fault) {
    throw FormatFault(fault.what());
  }
  // Checked last: entries are now known not to overlap, so each byte is read only once.
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (checksum_of(entries_[i].bytes) != checksums[i])
      throw FormatFault("the checksum of its zip entry " + quoted_beginning(entries_[i].name) +
                        " is wrong; the file is damaged");
  }
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

void ZipWriter::add(std::string_view name, std::string_view bytes) {
  const std::size_t local_offset = out_.size();
  const std::size_t unpadded = local_offset + kZipHeaderBytes + name.size() + 4;
  const std::size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  if (unpadded + padding + bytes.size() > UINT32_MAX - (1U << 24) || ++count_ > UINT16_MAX)
    throw InternalError("ZipWriter: more than 4 GiB or 65535 entries");
  constexpr std::uint16_t kVersionNeeded = 20, kStored = 0, kMidnight = 0;
  constexpr std::uint16_t kUtf8Names = 1 << 11;
  constexpr std::uint16_t kFirstDay = 1 << 5 | 1;  // 1980-01-01, the earliest date in a zip
  std::string common;  // the fields shared by both headers: version needed … name length
  for (const std::uint16_t field : {kVersionNeeded, kUtf8Names, kStored, kMidnight, kFirstDay})
    common += little_endian(field, 2);
  common += little_endian(checksum_of(bytes), 4) + little_endian(bytes.size(), 4) +
            little_endian(bytes.size(), 4) + little_endian(name.size(), 2);

  out_ += little_endian(kZipLocalSignature, 4) + common + little_endian(4 + padding, 2);
  out_ += name;
  out_ += "FB" + little_endian(padding, 2);  // torch's id of the padding field
  out_.append(padding, 'Z');
  out_ += bytes;

  directory_ +=
      little_endian(kZipDirectorySignature, 4) + little_endian(kVersionNeeded, 2) + common;
  directory_.append(12, '\0');  // no extra field, no comment, first disk, no attributes
  directory_ += little_endian(local_offset, 4);
  directory_ += name;
}

std::string ZipWriter::finish() && {
  const std::size_t offset = out_.size();
  const std::string count = little_endian(count_, 2), one_disk = little_endian(0, 4);
  out_ += directory_ + little_endian(kZipEndSignature, 4) + one_disk + count + count +
          little_endian(directory_.size(), 4) + little_endian(offset, 4) + little_endian(0, 2);
  return std::move(out_);
}

namespace {

// Converts an unpickled state dict and its storages to tensors.

// The bytes of a storage value: exactly value.number elements of value.dtype.
using StorageBytes = std::function<std::string_view(const PickleValue& storage)>;

constexpr std::size_t kMaxDimensions = 64;

struct Layout {
  std::vector<std::int64_t> shape, strides;  // in elements
  std::uint64_t first = 0;                   // index of the first element in the storage
  std::uint64_t count = 1;
};

[[noreturn]] void fail(std::string_view name, const std::string& fault) {
  throw FormatFault("its tensor " + quoted_beginning(name) + " " + fault);
}

std::vector<std::int64_t> sizes_of(std::string_view name, const PickleValue& tuple) {
  std::vector<std::int64_t> sizes;
  for (const PickleValue* item : tuple.items) {
    if (item->kind != PickleKind::kInt) fail(name, "has a shape or strides that are not numbers");
    if (item->number < 0) fail(name, "has a negative size or stride");
    sizes.push_back(item->number);
  }
  return sizes;
}

Layout layout_of(std::string_view name, const PickleValue& tensor, std::uint64_t available) {
  Layout layout{sizes_of(name, *tensor.items[2]), sizes_of(name, *tensor.items[3])};
  if (layout.shape.size() != layout.strides.size() || layout.shape.size() > kMaxDimensions)
    fail(name, "has " + std::to_string(layout.shape.size()) + " dimensions and " +
                   std::to_string(layout.strides.size()) + " strides");
  if (tensor.items[1]->number < 0) fail(name, "begins before its data");
  layout.first = static_cast<std::uint64_t>(tensor.items[1]->number);
  std::uint64_t last = layout.first;
  bool overflow = false;
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    const auto size = static_cast<std::uint64_t>(layout.shape[i]);
    const auto stride = static_cast<std::uint64_t>(layout.strides[i]);
    overflow |= __builtin_mul_overflow(layout.count, size, &layout.count);
    std::uint64_t span = 0;
    if (size > 1) overflow |= __builtin_mul_overflow(size - 1, stride, &span);
    overflow |= __builtin_add_overflow(last, span, &last);
  }
  if (layout.count == 0 && !overflow) {
    if (!bytes_of_shape(layout.shape, DType::kFloat64)) fail(name, "has impossible sizes");
    return layout;
  }
  if (overflow || last >= available)
    fail(name, "reaches beyond its data of " + std::to_string(available) + " elements");
  return layout;
}

bool is_row_major(const Layout& layout) {
  std::int64_t expected = 1;
  for (std::size_t i = layout.shape.size(); i-- > 0;) {
    if (layout.shape[i] != 1 && layout.strides[i] != expected) return false;
    expected *= layout.shape[i];
  }
  return true;
}

// `data` starts at the layout's first element.
template <std::size_t kWidth>
void gather(const Layout& layout, const char* data, char* out) {
  const std::size_t inner = layout.shape.size() - 1;
  std::vector<std::int64_t> index(layout.shape.size(), 0);
  std::int64_t base = 0;
  for (std::uint64_t done = 0; done < layout.count;) {
    for (std::int64_t i = 0; i < layout.shape[inner]; ++i, ++done, out += kWidth)
      std::memcpy(out, data + (base + i * layout.strides[inner]) * std::int64_t{kWidth}, kWidth);
    for (std::size_t axis = inner; axis-- > 0;) {
      base += layout.strides[axis];
      if (++index[axis] < layout.shape[axis]) break;
      base -= layout.strides[axis] * layout.shape[axis];
      index[axis] = 0;
    }
  }
}

std::string row_major_bytes(const Layout& layout, std::string_view storage, std::size_t width) {
  const std::size_t size = layout.count * width;
  if (size == 0) return {};
  const char* data = storage.data() + layout.first * width;
  if (is_row_major(layout)) return std::string(data, size);
  std::string out(size, '\0');
  if (width == 1) gather<1>(layout, data, out.data());
  if (width == 2) gather<2>(layout, data, out.data());
  if (width == 4) gather<4>(layout, data, out.data());
  if (width == 8) gather<8>(layout, data, out.data());
  return out;
}

// Names under which training programs save the state dict of the network that they train, beside
// averaged copies, an optimizer and so on.
constexpr std::array<std::string_view, 4> kUsual{"state_dict", "model", "model_state_dict", "net"};
constexpr std::size_t kMaxParts = 20, kMaxPartName = 100;  // more are not offered
constexpr int kMaxDepth = 3;                               // {"state": {"model": {…}}} has 2

struct Part {
  std::string name;  // "state_dict"; "state.model" for one in a dictionary `state`
  const PickleValue* tensors;

  bool is_usual() const {
    const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
    return std::find(kUsual.begin(), kUsual.end(), last) != kUsual.end();
  }
};

// Most of what a state dict holds is tensors; what else it holds is passed over.
bool is_state_dict(const PickleValue& value) {
  if (value.kind != PickleKind::kDict) return false;
  std::size_t num_tensors = 0;
  for (std::size_t i = 0; i + 1 < value.items.size(); i += 2)
    num_tensors += value.items[i]->kind == PickleKind::kString &&
                   value.items[i + 1]->kind == PickleKind::kTensor;
  return num_tensors * 4 > value.items.size();
}

// The state dicts in a dictionary, or else in the dictionaries in it, and so on.
std::vector<Part> parts_of(const PickleValue& object) {
  std::unordered_map<const PickleValue*, bool> seen;  // by dictionary: whether it is a state dict
  std::vector<Part> parts, outer{{"", &object}}, inner;
  for (int depth = 0; depth < kMaxDepth && parts.empty(); ++depth, outer = std::move(inner)) {
    inner.clear();
    for (const auto& [prefix, dict] : outer) {
      for (std::size_t i = 0; i + 1 < dict->items.size() && parts.size() < kMaxParts; i += 2) {
        const PickleValue &key = *dict->items[i], &value = *dict->items[i + 1];
        if (key.kind != PickleKind::kString || key.text.size() > kMaxPartName ||
            !is_utf8(key.text) || value.kind != PickleKind::kDict)
          continue;
        const auto [known, is_new] = seen.emplace(&value, false);
        if (is_new) known->second = is_state_dict(value);
        std::string name = prefix + (prefix.empty() ? "" : ".") + std::string(key.text);
        if (known->second)
          parts.push_back({std::move(name), &value});
        else if (is_new)
          inner.push_back({std::move(name), &value});
      }
    }
  }
  return parts;
}

// Returns the part to read and takes its name off what is wanted: the one that is wanted, or else
// the only one with a usual name, or else the object itself, or else the only one. Null: several.
const Part* chosen_part(const Part& whole, const std::vector<Part>& parts, std::string& wanted) {
  const Part* usual = nullptr;
  bool several = false;
  for (const Part& part : parts) {
    if (wanted == part.name || wanted.starts_with(part.name + ".")) {
      wanted.erase(0, part.name.size() + 1);
      return &part;
    }
    if (!part.is_usual()) continue;
    several |= usual != nullptr;
    usual = &part;
  }
  if (usual != nullptr) return several ? nullptr : usual;
  if (parts.empty() || is_state_dict(*whole.tensors)) return &whole;
  return parts.size() == 1 ? parts.data() : nullptr;
}

// Returns the dictionary of tensors and notes in `parts` which one it is.
const PickleValue& state_dict_in(const PickleValue& object, StateDictParts& parts) {
  if (object.kind != PickleKind::kDict)
    throw FormatFault("it contains " + describe(object) +
                      ", not a state dict; save model.state_dict()");
  const Part whole{"", &object};
  const std::vector<Part> found = parts_of(object);
  for (const Part& part : found) parts.names.push_back(part.name);
  const Part* part = chosen_part(whole, found, parts.wanted);
  if (part == nullptr) throw FormatFault(parts.fault());
  parts.taken = part->name;
  return *part->tensors;
}

[[noreturn]] void fail_without_tensors(const PickleValue& dict) {
  const auto text_of = [](const PickleValue& key) {
    return key.kind == PickleKind::kString ? std::string(key.text.substr(0, 200)) : describe(key);
  };
  std::size_t shown = 0;  // the entry that ought to be the weights, if there is one
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2)
    if (Part{text_of(*dict.items[i]), nullptr}.is_usual()) shown = i;
  throw FormatFault("its entry '" + text_of(*dict.items[shown]) + "' is " +
                    describe(*dict.items[shown + 1]) + ", not a tensor; save model.state_dict()");
}

// Passes over what is no tensor, but not over what has the name of a layer's, nor over a tensor of
// a kind that is not known, which is an opaque value of torch.
bool is_tensor(const PickleValue& key, const PickleValue& value) {
  if (value.kind == PickleKind::kTensor) return true;
  const bool is_torchs = value.kind == PickleKind::kOpaque &&
                         (value.module == "torch" || value.module.starts_with("torch."));
  const bool is_of_layer = key.text.ends_with(".weight") || key.text.ends_with(".bias") ||
                           key.text.ends_with(".running_mean") ||
                           key.text.ends_with(".running_var");
  if (is_torchs || is_of_layer)
    throw FormatFault("its entry " + quoted_beginning(key.text) + " is " + describe(value) +
                      ", not a tensor" +
                      (is_torchs ? " of a known kind" : "; save model.state_dict()"));
  return false;
}

// `object` must be a dictionary of names and tensors, or hold such dictionaries, its parts, of
// which one is taken (StateDictParts); what is no tensor is passed over. Strided tensors
// (channels_last, views) are converted to row-major. Throws FormatFault if a tensor has more
// elements than its storage or reaches beyond it, or if all tensors together exceed `max_bytes`.
StateDict collect_tensors(const PickleValue& object, const StorageBytes& storage_bytes,
                          std::uint64_t max_bytes, StateDictParts& parts) {
  const PickleValue& dict = state_dict_in(object, parts);
  StateDict state;
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& key = *dict.items[i];
    const PickleValue& tensor = *dict.items[i + 1];
    if (!is_tensor(key, tensor)) continue;
    if (key.kind != PickleKind::kString) throw FormatFault("it has a key that is not a string");
    if (!is_utf8(key.text)) throw FormatFault("it has a name that is not UTF-8");
    if (!names.insert(key.text).second) fail(key.text, "appears twice");
    const PickleValue& storage = *tensor.items[0];
    const std::string_view bytes = storage_bytes(storage);
    const std::size_t width = byte_size(storage.dtype);
    const Layout layout = layout_of(key.text, tensor, bytes.size() / width);
    if (layout.count > max_bytes / width)
      fail(key.text, "makes the state dict larger than the file");
    max_bytes -= layout.count * width;
    state.push_back({std::string(key.text), storage.dtype, layout.shape,
                     row_major_bytes(layout, bytes, width)});
  }
  if (state.empty() && !dict.items.empty()) fail_without_tensors(dict);
  return state;
}

// The format of torch.save before 1.6 (or with _use_new_zipfile_serialization=False): pickles of a
// magic number, a protocol number, the machine, the object and the storage keys, then each storage
// as an int64 count and its elements.

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
    if (!is_new && (known->second->dtype != value.dtype || known->second->number != value.number))
      throw FormatFault("it describes storage '" + std::string(value.text) +
                        "' twice, differently");
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
    if (key->kind != PickleKind::kString || found == referenced.end())
      throw FormatFault("it lists a storage that no tensor of a known kind uses");
    const auto count = little_endian<std::uint64_t>(bytes, at, "the size of a storage");
    const std::string what = "the storage " + quoted_beginning(key->text);
    if (count != static_cast<std::uint64_t>(found->second->number))
      throw FormatFault(what + " has " + std::to_string(count) + " elements where " +
                        std::to_string(found->second->number) + " are declared");
    const std::size_t width = byte_size(found->second->dtype);
    if (count > bytes.size() / width) throw FormatFault(what + " is truncated");
    if (!storages.emplace(key->text, range_of(bytes, at + 8, count * width, what)).second)
      throw FormatFault(what + " is listed twice");
    at += 8 + count * width;
  }
  return storages;
}

std::string_view view_of(const PickleValue& storage, std::string_view root) {
  if (storage.items.empty()) return root;
  const std::size_t width = byte_size(storage.dtype);
  const std::int64_t first = storage.items[1]->number;
  const std::int64_t count = storage.items[2]->number;
  if (first < 0 || count < 0 || first > storage.number || count > storage.number - first)
    throw FormatFault("it has a view that reaches beyond its storage");
  return root.substr(first * width, count * width);
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
  out += 'X' + little_endian(text.size(), 4);
  out += text;
}

void append_number(std::string& out, std::uint64_t value) {
  if (value < 256)
    out += 'K' + little_endian(value, 1);
  else if (value < 65536)
    out += 'M' + little_endian(value, 2);
  else if (value <= INT32_MAX)
    out += 'J' + little_endian(value, 4);
  else
    out += "\x8a\x08" + little_endian(value, 8);
}

void append_tuple(std::string& out, const std::vector<std::int64_t>& numbers) {
  out += '(';
  for (const std::int64_t number : numbers) append_number(out, static_cast<std::uint64_t>(number));
  out += 't';
}

// An OrderedDict of name -> torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False,
// OrderedDict()).
std::string pickle_of(const StateDict& state) {
  using std::string_literals::operator""s;
  std::string out =
      "\x80\x02"
      "ccollections\nOrderedDict\nq\0)R("s;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const StoredTensor& tensor = state[i];
    append_text(out, tensor.name);
    out += i == 0 ? "ctorch._utils\n_rebuild_tensor_v2\nq\x01((" : "h\x01((";
    append_text(out, "storage");
    out += "ctorch\n" + std::string(facts_of(tensor.dtype).storage) + '\n';
    append_text(out, std::to_string(i));
    append_text(out, "cpu");
    append_number(out, tensor.bytes.size() / byte_size(tensor.dtype));
    out += "tQ";
    append_number(out, 0);
    append_tuple(out, tensor.shape);
    std::vector<std::int64_t> strides(tensor.shape.size(), 1);  // row-major
    for (std::size_t k = strides.size(); k-- > 1;)
      strides[k - 1] = strides[k] * std::max<std::int64_t>(tensor.shape[k], 1);
    append_tuple(out, strides);
    out += "\x89h\0)RtR"s;
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
  if (protocol.root->kind != PickleKind::kInt || protocol.root->number != kProtocol)
    throw FormatFault("its torch.save protocol is not 1001");
  const PickleDocument machine = next();
  const auto& facts = machine.root->items;
  for (std::size_t i = 0; machine.root->kind == PickleKind::kDict && i + 1 < facts.size(); i += 2)
    if (facts[i]->text == "little_endian" && facts[i + 1]->number == 0)
      throw FormatFault("its byte order is not little-endian; save it on another machine");
  const PickleDocument object = next();
  const PickleDocument keys = next();
  const Storages storages = read_storages(rest, *keys.root, object);
  const auto storage_bytes = [&](const PickleValue& storage) {
    const auto found = storages.find(storage.text);
    if (found == storages.end())
      throw FormatFault("it has no data for storage '" + std::string(storage.text) + "'");
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
  if (order != nullptr && order->bytes != "little")
    throw FormatFault("its byte order is not 'little'; save it on another machine");
  const PickleDocument document = read_pickle(archive.find(folder + "data.pkl")->bytes);
  const auto storage_bytes = [&](const PickleValue& storage) {
    const ZipEntry* entry = archive.find(folder + "data/" + std::string(storage.text));
    if (entry == nullptr || !storage.items.empty())
      throw FormatFault("it has no data/" + std::string(storage.text.substr(0, 200)));
    const auto count = static_cast<std::uint64_t>(storage.number);
    const std::size_t width = byte_size(storage.dtype);
    if (entry->bytes.size() % width != 0 || entry->bytes.size() / width != count)
      throw FormatFault("its " + entry->name + " has " + std::to_string(entry->bytes.size()) +
                        " bytes where " + std::to_string(count) + " elements of " +
                        std::to_string(width) + " bytes are declared");
    return entry->bytes;
  };
  return collect_tensors(*document.root, storage_bytes, bytes.size() * kMaxTiedCopies, parts);
}

std::string write_torch_zip(const StateDict& state) {
  constexpr std::size_t kEntryOverhead = 300;
  std::size_t size = 0;
  for (const StoredTensor& tensor : state)
    size += tensor.bytes.size() + tensor.name.size() + kEntryOverhead;
  const std::string pickle = pickle_of(state);
  ZipWriter writer(size + pickle.size() + 10 * kEntryOverhead);
  writer.add("model/data.pkl", pickle);
  writer.add("model/byteorder", "little");
  for (std::size_t i = 0; i < state.size(); ++i)
    writer.add("model/data/" + std::to_string(i), state[i].bytes);
  writer.add("model/version", "3\n");
  return std::move(writer).finish();
}

}  // namespace kiln
