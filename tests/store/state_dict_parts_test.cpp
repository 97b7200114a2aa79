// What a training program saves beside the weights: objects of other classes, and other state
// dicts.
#include <gtest/gtest.h>

#include "store/state_dict_file.h"
#include "store/torch_file.h"

namespace kiln {
namespace {

using namespace std::string_literals;
using Names = std::vector<std::string>;

// Fragments of pickles, each of which leaves one value.

std::string text(const std::string& value) {
  return "X" + std::string(1, static_cast<char>(value.size())) + "\0\0\0"s + value;
}

std::string dict(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string pickle = "}(";
  for (const auto& [name, value] : entries) pickle += text(name) + value;
  return pickle + "u";
}

std::string tensor_of(const std::string& storage, char key = '0') {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + storage + "\n" +
         text(std::string(1, key)) + text("cpu") + "K\1tQK\0K\1\x85K\1\x85\x89}tR"s;
}
std::string tensor(char key = '0') {
  return tensor_of("FloatStorage", key);
}

const std::string kNamespace = "cargparse\nNamespace\n)\x81" + dict({{"lr", "G12345678"}}) + "b";

std::string file_of(const std::string& pickle) {
  ZipWriter writer(1000);
  writer.add("a/data.pkl", "\x80\x02" + pickle + ".");
  writer.add("a/data/0", "0000");
  writer.add("a/data/1", "1111");
  return std::move(writer).finish();
}

// "t u 0000 | state_dict | state_dict, ema": the tensors' names, the first one's bytes, the part
// taken, all parts. Or the fault.
std::string read(const std::string& pickle, const std::string& wanted = "") {
  StateDictParts parts;
  parts.wanted = wanted;
  std::string said;
  try {
    const StateDict state = read_state_dict(file_of(pickle), parts);
    for (const StoredTensor& item : state) said += item.name + " ";
    said += (state.empty() ? "" : state[0].bytes) + " | " + parts.taken + " |";
  } catch (const FormatFault& fault) {
    return fault.what();
  }
  for (const std::string& name : parts.names) said += " " + name;
  return said + (parts.wanted.empty() ? "" : " | " + parts.wanted);
}

TEST(StateDictParts, ObjectsThatNoTensorNeedsArePassedOver) {
  const std::string scalar =
      "cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nX\2\0\0\0f8\x89\x88\x87RC\x08"s + "12345678" +
      "\x86R";
  for (const std::string& object :
       {kNamespace, scalar, "c__builtin__\nset\n](K\1K\2e\x85R"s, "\x8f(K\1\x90"s, "(K\1\x91"s,
        "B\3\0\0\0abc"s, "\x8e\3\0\0\0\0\0\0\0abc"s, "\x96\3\0\0\0\0\0\0\0abc"s,
        "cdatetime\nx\n)}\x92"s, "\x8a\x0a"s + std::string(10, 'x'),
        "ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(K\1]u"s,
        "cposix\nsystem\nX\4\0\0\0true\x85R"s, "\x8c\x02os\x8c\x06system\x93"s,
        "cx\nList\n)\x81(K\1K\2eK\3a"s,
        "("s + text("module") + "ca\nNet\n" + text("f") + text("c") + "tQ",
        "}"s + kNamespace + "K\1s"}) {
    EXPECT_EQ(read(dict({{"t", tensor()}, {"x", object}})), "t 0000 |  |") << object;
    EXPECT_EQ(read(dict({{"x", object}, {"state_dict", dict({{"t", tensor()}})}})),
              "t 0000 | state_dict | state_dict")
        << object;
  }
}

TEST(StateDictParts, ObjectsInPlaceOfWeightsAreRefused) {
  const auto expect = [](const std::string& pickle, const std::string& words) {
    EXPECT_NE(read(pickle).find(words), std::string::npos) << read(pickle);
  };
  expect(kNamespace, "contains an object of the Python class 'argparse.Namespace', not a state");
  expect(dict({{"epoch", "K\1"}, {"model", "ca\nNet\n)\x81"}}),
         "'model' is an object of the Python class 'a.Net'");
  expect(dict({{"epoch", "K\1"}, {"state_dict", "}"}}), "'state_dict' is an empty dictionary");
  expect(dict({{"t", tensor()}, {"u", tensor_of("ComplexFloatStorage")}}),
         "'u' is an object of the Python class 'torch.ComplexFloatStorage'");
  expect("}(" + text("t") + tensor() + kNamespace + tensor() + "u", "key that is not a string");
}

TEST(StateDictParts, OneOfSeveralIsTaken) {
  const std::string one = dict({{"t", tensor()}}), other = dict({{"t", tensor('1')}});
  const std::string timm = dict({{"state_dict_ema", other}, {"epoch", "K\1"}, {"state_dict", one}});
  EXPECT_EQ(read(timm), "t 0000 | state_dict | state_dict_ema state_dict");
  EXPECT_EQ(read(timm, "state_dict_ema"), "t 1111 | state_dict_ema | state_dict_ema state_dict");
  EXPECT_EQ(read(timm, "state_dict_ema.a.b"),
            "t 1111 | state_dict_ema | state_dict_ema state_dict | a.b");
  EXPECT_EQ(read(timm, "teacher"), "t 0000 | state_dict | state_dict_ema state_dict | teacher");
  EXPECT_EQ(read(dict({{"model_ema", other}, {"model", one}})), "t 0000 | model | model_ema model");
  EXPECT_EQ(read(dict({{"weights", one}})), "t 0000 | weights | weights");
  EXPECT_EQ(read(dict({{"t", tensor()}, {"u", tensor('1')}, {"ema", other}})), "t u 0000 |  | ema");
  EXPECT_EQ(read(dict({{"state", dict({{"model", one}, {"x", "}"}})}, {"y", "}"}})),
            "t 0000 | state.model | state.model");
  EXPECT_EQ(read(dict({{"state_dict", one}, {"loss", tensor()}})),
            "t 0000 | state_dict | state_dict");
  EXPECT_EQ(read(dict({{"state_dict", one + "q\5"}, {"ema", "h\5"}}), "ema"),
            "t 0000 | ema | state_dict ema");
}

TEST(StateDictParts, NothingIsGuessed) {
  const std::string one = dict({{"t", tensor()}});
  EXPECT_EQ(read(dict({{"student", one}, {"teacher", one}})),
            "it holds several networks; add #student or #teacher");
  EXPECT_EQ(read(dict({{"student", one}, {"teacher", one}}), "x"),
            "it has no part 'x'; add #student or #teacher");
  EXPECT_EQ(read(dict({{"model", one}, {"state_dict", one}})),
            "it holds several networks; add #model or #state_dict");
}

TEST(StateDictParts, ValuesMustBeFiniteAsFloat32) {
  const auto fault_of = [](DType dtype, const std::string& bytes) -> std::string {
    try {
      require_finite({{"bn.running_var", dtype, {1}, bytes}});
    } catch (const FormatFault& fault) {
      return fault.what();
    }
    return "";
  };
  const auto bytes_of = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  EXPECT_EQ(fault_of(DType::kFloat32, bytes_of(3e38F)), "");
  EXPECT_EQ(fault_of(DType::kFloat64, bytes_of(3e38)), "");
  EXPECT_EQ(fault_of(DType::kInt64, bytes_of(std::int64_t{-1})), "");
  EXPECT_EQ(fault_of(DType::kFloat16, "\xff\x7b"), "");
  EXPECT_EQ(fault_of(DType::kBFloat16, "\x7f\xff"), "");
  for (const auto& [dtype, bytes] : std::vector<std::pair<DType, std::string>>{
           {DType::kFloat32, bytes_of(std::numeric_limits<float>::quiet_NaN())},
           {DType::kFloat32, bytes_of(-std::numeric_limits<float>::infinity())},
           {DType::kFloat64, bytes_of(1e39)},
           {DType::kFloat64, bytes_of(std::numeric_limits<double>::quiet_NaN())},
           {DType::kFloat16, "\0\x7c"s},
           {DType::kBFloat16, "\x80\xff"s}})
    EXPECT_NE(fault_of(dtype, bytes).find("'bn.running_var'"), std::string::npos);
}

}  // namespace
}  // namespace kiln
