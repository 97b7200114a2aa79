#include "store/torch_tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "store/byte_reader.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxDimensions = 64;

struct Layout {
  std::vector<std::int64_t> shape, strides;  // in elements
  std::uint64_t first = 0;                   // index of the first element in the storage
  std::uint64_t count = 1;
};

[[noreturn]] void fail(std::string_view name, const std::string& fault) {
  throw FormatFault("its tensor '" + std::string(name.substr(0, 200)) + "' " + fault);
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
  Layout layout;
  layout.shape = sizes_of(name, *tensor.items[2]);
  layout.strides = sizes_of(name, *tensor.items[3]);
  if (layout.shape.size() != layout.strides.size() || layout.shape.size() > kMaxDimensions) {
    fail(name, "has " + std::to_string(layout.shape.size()) + " dimensions and " +
                   std::to_string(layout.strides.size()) + " strides");
  }
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
  if (overflow || last >= available) {
    fail(name, "reaches beyond its data of " + std::to_string(available) + " elements");
  }
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
    for (std::int64_t i = 0; i < layout.shape[inner]; ++i, ++done, out += kWidth) {
      std::memcpy(out, data + (base + i * layout.strides[inner]) * std::int64_t{kWidth}, kWidth);
    }
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

// Passes over what is no tensor, but not over a tensor of a kind that is not known, which is an
// opaque value of torch.
bool is_tensor(const PickleValue& key, const PickleValue& value) {
  if (value.kind == PickleKind::kTensor) return true;
  if (value.kind == PickleKind::kOpaque &&
      (value.module == "torch" || value.module.starts_with("torch.")))
    throw FormatFault("its entry '" + std::string(key.text.substr(0, 200)) + "' is " +
                      describe(value) + ", not a tensor of a known kind");
  return false;
}

}  // namespace

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
    Layout layout = layout_of(key.text, tensor, bytes.size() / width);
    if (layout.count > max_bytes / width)
      fail(key.text, "makes the state dict larger than the file");
    max_bytes -= layout.count * width;
    std::string row_major = row_major_bytes(layout, bytes, width);
    state.push_back(
        {std::string(key.text), storage.dtype, std::move(layout.shape), std::move(row_major)});
  }
  if (state.empty() && !dict.items.empty()) fail_without_tensors(dict);
  return state;
}

}  // namespace kiln
