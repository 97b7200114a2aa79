#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "peak_memory.h"
#include "sample_states.h"
#include "store/pickle.h"
#include "store/state_dict_file.h"
#include "store/torch_file.h"

namespace kiln {
namespace {

using namespace std::string_literals;

std::string fault_of(const std::string& bytes) {
  try {
    read_state_dict(bytes);
  } catch (const FormatFault& fault) {
    return fault.what();
  }
  return "no fault";
}

void expect_fault(const std::string& bytes, const std::string& part) {
  const std::string fault = fault_of(bytes);
  EXPECT_NE(fault.find(part), std::string::npos) << fault;
}

std::string zip_with_pickle(const std::string& pickle,
                            const std::string& data = std::string(16, 'x')) {
  ZipWriter writer(1000);
  writer.add("a/data.pkl", pickle);
  writer.add("a/data/0", data);
  return std::move(writer).finish();
}

// A pickle of a tensor 't' of four floats with the given offset, shape and strides.
std::string tensor_pickle(const std::string& offset, const std::string& shape,
                          const std::string& strides) {
  return "\x80\x02}X\1\0\0\0tctorch._utils\n_rebuild_tensor_v2\n"s +
         "((X\7\0\0\0storagectorch\nFloatStorage\n"s +
         "X\1\0\0\0"
         "0X\3\0\0\0cpuK\4tQ"s +
         offset + shape + strides + "\x89}tRs."s;
}

std::string safetensors_of(const std::string& header, const std::string& data) {
  std::string bytes;
  bytes += little_endian(header.size(), sizeof(std::uint64_t));
  return bytes + header + data;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

TEST(HostileFiles, TruncatedFilesAreRefused) {
  for (const std::string& whole :
       {write_torch_zip(sample_state()), write_safetensors(sample_state()), legacy_sample()}) {
    for (std::size_t part = 0; part < 20; ++part) {
      EXPECT_NE(fault_of(whole.substr(0, whole.size() * part / 20)), "no fault") << part;
    }
  }
}

TEST(HostileFiles, AWrongMagicNumberIsRefused) {
  expect_fault("", "it is empty");
  expect_fault("<html>not found</html>", "begins neither");
  expect_fault("GGUF" + write_torch_zip(sample_state()).substr(4), "begins neither");
  expect_fault("version https://git-lfs.github.com/spec/v1\n", "Git LFS");
}

TEST(HostileFiles, CodeIsRefused) {
  expect_fault(zip_with_pickle("\x80\x02"
                               "cposix\nsystem\nX\4\0\0\0true\x85R."s),
               "'posix.system'");
  expect_fault(zip_with_pickle("\x80\x04\x8c\x02os\x8c\x06system\x93."s), "'os.system'");
  expect_fault(zip_with_pickle("\x80\x02}}\x81."s), "NEWOBJ");
  expect_fault(zip_with_pickle("\x80\x02(ios\nsystem\n."s), "0x69");
  expect_fault(zip_with_pickle("\x80\x02}}R."s), "REDUCE");
}

TEST(HostileFiles, BrokenPicklesAreRefused) {
  expect_fault(zip_with_pickle("\x80\x09}."s), "protocol 9");
  expect_fault(zip_with_pickle("\x80\x02."s), "empty stack");
  expect_fault(zip_with_pickle("\x80\x02h\5."s), "memo entry 5");
  expect_fault(zip_with_pickle("\x80\x02}r\xff\xff\xff\xff."s), "memo index");
  expect_fault(zip_with_pickle("\x80\x02" + std::string(2'000'000, '(')), "nested too deeply");
  expect_fault(zip_with_pickle("\x80\x02" + std::string(2'000'000, ']')),
               "more than 1000000 values");
  expect_fault(zip_with_pickle("\x80\x02)" + std::string(900'000, '\x85') + "."), "a tuple");
  expect_fault(zip_with_pickle("\x80\x02}X\1\0\0\0eK\5s."s), "entry 'e' is an integer");
  expect_fault(zip_with_pickle("\x80\x02]."s), "a list, not a state dict");
  expect_fault(zip_with_pickle("\x80\x02\xff."s), "0xff");
  expect_fault(zip_with_pickle("\x80\x02I1\n."s), "0x49");
  expect_fault(zip_with_pickle("\x80\x02}j\xff\xff\xff\x7f."s), "memo entry");
  EXPECT_NE(fault_of(zip_with_pickle("\x80\x02X\xff\xff\xff\xff"
                                     "a."s)),
            "no fault");
  EXPECT_NE(fault_of(zip_with_pickle("\x80\x02}"s)), "no fault");
}

TEST(HostileFiles, TensorsBeyondTheirDataAreRefused) {
  const std::string zero = "K\0"s, four = "K\4\x85"s, one = "K\1\x85"s;
  EXPECT_EQ(fault_of(zip_with_pickle(tensor_pickle(zero, four, one))), "no fault");
  expect_fault(zip_with_pickle(tensor_pickle("K\1"s, four, one)), "beyond its data");
  expect_fault(zip_with_pickle(tensor_pickle(zero, "K\5\x85"s, one)), "beyond its data");
  EXPECT_EQ(fault_of(zip_with_pickle(tensor_pickle(zero, "K\5\x85"s, "K\0\x85"s))), "no fault");
  expect_fault(zip_with_pickle(tensor_pickle(zero, "J\0\0\0\x40\x85"s, "K\0\x85"s)),
               "larger than the file");
  expect_fault(zip_with_pickle(tensor_pickle(zero, four, "J\xff\xff\xff\xff\x85"s)), "negative");
  expect_fault(zip_with_pickle(tensor_pickle("J\xff\xff\xff\xff"s, four, one)), "begins before");
  const std::string huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"s;
  expect_fault(zip_with_pickle(tensor_pickle(zero, huge + huge + "\x86", huge + huge + "\x86")),
               "beyond its data");
  expect_fault(zip_with_pickle(tensor_pickle(zero, four, one), std::string(12, 'x')), "12 bytes");
}

TEST(HostileFiles, ChannelsLastBecomesRowMajor) {
  const std::string pickle = tensor_pickle("K\0"s, "K\2K\2\x86"s, "K\1K\2\x86"s);
  const StateDict state = read_state_dict(zip_with_pickle(pickle, "aaaabbbbccccdddd"));
  EXPECT_EQ(state.at(0).bytes, "aaaaccccbbbbdddd");
}

TEST(HostileFiles, BrokenZipsAreRefused) {
  const std::string good = zip_with_pickle("\x80\x02}."s);
  EXPECT_EQ(fault_of(good), "no fault");
  const std::size_t directory = good.find("PK\1\2");
  std::string bad = good;
  bad[directory + 10] = 8;
  expect_fault(bad, "compressed");
  bad = good;
  bad[directory + 8] |= 1;
  expect_fault(bad, "encrypted");
  bad = good;
  for (const std::size_t at : {20, 24}) bad.replace(directory + at, 4, "\xf0\xff\xff\xff");
  expect_fault(bad, "beyond the end of the file");
  bad = good;
  bad[good.find("xxxx")] = 'y';
  expect_fault(bad, "checksum");
  ZipWriter twice(100);
  twice.add("a/data.pkl", "x");
  twice.add("a/data.pkl", "x");
  expect_fault(std::move(twice).finish(), "two zip entries");
  bad = good;
  replace_all(bad, "a/data/0", "a/data.1");
  EXPECT_EQ(fault_of(bad), "no fault");
  replace_all(bad, "a/data.pkl", "a/data.pkk");
  expect_fault(bad, "without data.pkl");
}

TEST(HostileFiles, OverlappingZipEntriesAreRefused) {
  ZipWriter writer(100);
  writer.add("n", "x");
  std::string bytes = std::move(writer).finish();
  const std::size_t directory = bytes.find("PK\1\2");
  const std::size_t end = bytes.find("PK\5\6");
  std::string inner = bytes.substr(0, directory);
  const std::string entry = bytes.substr(directory, end - directory);
  std::string tail = bytes.substr(end);
  tail[8] = tail[10] = 2;
  tail[12] = static_cast<char>(2 * entry.size());
  std::string second = entry;
  expect_fault(inner + entry + second + tail, "two zip entries");
}

TEST(HostileFiles, BrokenSafetensorsAreRefused) {
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(fault_of(safetensors_of("{" + a + "}", "0123")), "no fault");
  expect_fault(safetensors_of("{" + a + "," + a + "}", "0123"), "twice");
  expect_fault(safetensors_of("{" + a + "}", "01234567"), "truncated or damaged");
  expect_fault(safetensors_of("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                              "012345"),
               "overlap");
  expect_fault(
      safetensors_of(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", "012345"), "gap");
  expect_fault(safetensors_of(R"({"b":{"dtype":"X9","shape":[1],"data_offsets":[0,4]}})", "0123"),
               "unknown dtype");
  expect_fault(
      safetensors_of(
          R"({"b":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""),
      "do not fit");
  expect_fault(safetensors_of(R"({"b":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "0123"),
               "not an integer");
  expect_fault(safetensors_of(R"({"b":)" + std::string(100'000, '['), ""), "nested more than");
  expect_fault(safetensors_of("{\"\xff\":1}", ""), "not valid JSON");
  expect_fault("\xff\xff\xff\xff\xff\xff\xff\x7f{"s, "more than the limit");
}

TEST(HostileFiles, CopiesInAPickleAreCounted) {
  std::string pickle = "\x80\x02K\1K\1\x86q\1ccollections\nOrderedDict\nq\2]q\0("s;
  for (int i = 0; i < 100'000; ++i) pickle += "h\1";
  pickle += 'e';
  for (int i = 0; i < 1000; ++i) pickle += "h\2h\0\x85R"s;
  const std::string bytes = zip_with_pickle(pickle);
  expect_fault(bytes, "items");
  EXPECT_LT(test::peak_mib_of([&] { fault_of(bytes); }), 128U);
}

std::string safetensors_of_empty_tensors(int count) {
  std::string header = "{\"__metadata__\":{}";
  for (int i = 0; i < count; ++i)
    header += ",\"" + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  return safetensors_of(header + "}", "");
}

TEST(HostileFiles, ManyTensorsTakeTimeInProportion) {
  const std::string bytes = safetensors_of_empty_tensors(60'000);
  const auto use = test::use_of_child([&] { read_state_dict(bytes); });
  EXPECT_LT(use.cpu_seconds, 10) << "quadratic, it takes 50 s";
  expect_fault(safetensors_of_empty_tensors(200'000), "values");
}

TEST(HostileFiles, SizesBesideAZeroDoNotOverflow) {
  for (const std::string shape : {"[0,4611686018427387904,4611686018427387904]",
                                  "[4611686018427387904,4611686018427387904,0]"})
    expect_fault(
        safetensors_of(R"({"b":{"dtype":"I8","shape":)" + shape + R"(,"data_offsets":[0,0]}})", ""),
        "do not fit");
}

class LargeFile : public testing::Test {
 protected:
  ~LargeFile() override { std::filesystem::remove(path_); }
  void make(const std::string& beginning, std::uint64_t size) {
    std::ofstream(path_, std::ios::binary) << beginning;
    std::filesystem::resize_file(path_, size);
  }
  std::size_t peak_mib() {
    return test::peak_mib_of([&] {
      try {
        read_state_dict_file(path_);
      } catch (const FormatFault&) {
        return;
      }
      throw std::runtime_error("it was read");
    });
  }
  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) / ("large_" + std::to_string(::getpid()));
};

TEST_F(LargeFile, IsNotReadUnlessItBeginsAsAStateDict) {
  make("", std::uint64_t{3} << 30);
  EXPECT_LT(peak_mib(), 32U);
}

TEST_F(LargeFile, IsNotReadAboveTheLimit) {
  make("PK\x03\x04", kMaxStateDictBytes + 1);
  EXPECT_LT(peak_mib(), 32U);
}

TEST_F(LargeFile, OfTheUsualSizeIsRead) {
  make(write_safetensors(sample_state()), write_safetensors(sample_state()).size());
  EXPECT_EQ(read_state_dict(read_state_dict_file(path_)).size(), sample_state().size());
}

}  // namespace
}  // namespace kiln
