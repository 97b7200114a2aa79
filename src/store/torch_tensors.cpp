#include "store/torch_tensors.h"

#include <array>
#include <cstring>
#include <string>
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
  if (layout.count > available) fail(name, "has more elements than its data");
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

// Training programs save their state dict along with an epoch, an optimizer and so on. If several
// of these names are present, the first one is used.
constexpr std::array<std::string_view, 3> kWrappers{"state_dict", "model", "model_state_dict"};

const PickleValue& unwrapped(const PickleValue& object) {
  if (object.kind != PickleKind::kDict) return object;
  for (const std::string_view wrapper : kWrappers) {
    for (std::size_t i = 0; i + 1 < object.items.size(); i += 2) {
      const PickleValue &key = *object.items[i], &value = *object.items[i + 1];
      if (key.kind == PickleKind::kString && key.text == wrapper && value.kind == PickleKind::kDict)
        return value;
    }
  }
  return object;
}

}  // namespace

StateDict collect_tensors(const PickleValue& object, const StorageBytes& storage_bytes,
                          std::uint64_t max_bytes) {
  const PickleValue& root = unwrapped(object);
  if (root.kind != PickleKind::kDict) {
    throw FormatFault("it contains " + std::string(describe(root.kind)) +
                      ", not a state dict; save model.state_dict()");
  }
  StateDict state;
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i + 1 < root.items.size(); i += 2) {
    const PickleValue& key = *root.items[i];
    const PickleValue& tensor = *root.items[i + 1];
    if (key.kind != PickleKind::kString) throw FormatFault("it has a key that is not a string");
    if (!is_utf8(key.text)) throw FormatFault("it has a name that is not UTF-8");
    if (tensor.kind != PickleKind::kTensor) {
      throw FormatFault("its entry '" + std::string(key.text.substr(0, 200)) + "' is " +
                        std::string(describe(tensor.kind)) +
                        ", not a tensor; save model.state_dict() alone");
    }
    if (!names.insert(key.text).second) fail(key.text, "appears twice");
    const PickleValue& storage = *tensor.items[0];
    const std::string_view bytes = storage_bytes(storage);
    const std::size_t width = byte_size(storage.dtype);
    Layout layout = layout_of(key.text, tensor, bytes.size() / width);
    if (layout.count * width > max_bytes)
      fail(key.text, "makes the state dict larger than the file");
    max_bytes -= layout.count * width;
    std::string row_major = row_major_bytes(layout, bytes, width);
    state.push_back(
        {std::string(key.text), storage.dtype, std::move(layout.shape), std::move(row_major)});
  }
  return state;
}

}  // namespace kiln
