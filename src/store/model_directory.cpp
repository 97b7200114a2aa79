#include "store/model_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <ctime>
#include <exception>
#include <iterator>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/archive/archive.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxLabelMap = 64 << 20, kMaxFeatures = 16 << 20;

[[noreturn]] void fail(const fs::path& path, const std::string& fault, const std::string& remedy) {
  throw Error(ErrorCode::kInvalidModelDirectory,
              "'" + path.string() + "' " + fault + ". " + remedy);
}

constexpr const char* kCopyAgain = "Create the model directory again or copy all of it.";

std::string read_part(const fs::path& path, std::uint64_t max_bytes) {
  return read_text_or(path, max_bytes, "is larger than " + std::to_string(max_bytes) + " bytes",
                      [&](const std::string& fault) { fail(path, fault, kCopyAgain); });
}

void refuse_missing_or_empty(const fs::path& folder) {
  const auto refuse = [&](const std::string& fault, const std::string& guess = "") {
    throw Error(ErrorCode::kUserError,
                "The model folder '" + folder.string() + "' " + fault +
                    ". Give a folder written by 'kiln init-model' or 'kiln train'." + guess);
  };
  std::error_code error;
  const auto status = fs::status(folder, error);
  if (!fs::exists(status)) {
    if (error && error != std::errc::no_such_file_or_directory)
      refuse("cannot be read (" + error.message() + ")");
    refuse("does not exist", did_you_mean_path(folder));
  }
  if (!fs::is_directory(status)) refuse("is a file, not a folder");
  if (!std::ranges::all_of(names_in(folder, error), is_ignored_name)) return;
  if (error) refuse("cannot be read (" + error.message() + ")");
  refuse("is empty");
}

void finish_interrupted_save(const fs::path& folder) {
  if (!is_half_replaced(folder)) return;
  try {
    OutputFolder{folder};
  } catch (const Error& fault) {
    if (!is_half_replaced(folder)) return;  // the run that has the lock has finished it
    fail(folder, "was left incomplete by a run that was killed while saving, or is being saved",
         "Its files cannot be put in place now: " + fault.message());
  }
}

// Tells one model in a folder from the next: each replacement ends with a new `_meta.yaml`.
using ModelStamp = std::tuple<dev_t, ino_t, std::time_t, long>;
ModelStamp stamp_of(const fs::path& folder) {
  struct stat meta {};
  if (::stat((folder / kMetaFile).c_str(), &meta) != 0) return {};
  return {meta.st_dev, meta.st_ino, meta.st_ctim.tv_sec, meta.st_ctim.tv_nsec};
}

ModelSpec read_spec(const fs::path& folder) {
  refuse_missing_or_empty(folder);
  const fs::path meta_path = folder / kMetaFile;
  if (!is_there(meta_path))
    fail(folder, "has no _meta.yaml, so it is not a model directory, or an incomplete one",
         "Give a folder written by 'kiln init-model' or 'kiln train'.");
  const DirectoryMeta meta = read_directory_meta(meta_path);
  if (meta.type != "ModelDirectory")
    fail(folder, "is of type '" + meta.type.substr(0, 100) + "', not ModelDirectory",
         "Give a folder written by 'kiln init-model' or 'kiln train'.");
  const fs::path spec_path = folder / meta.model_spec;
  return parse_model_spec(read_part(spec_path, kMaxSpecBytes), spec_path.string());
}

ModelDirectory read_files(const fs::path& folder) {
  ModelDirectory directory;
  directory.spec = read_spec(folder);
  const fs::path model_path = folder / directory.spec.model_file;
  try {
    directory.state = read_state_dict(read_state_dict_file(model_path));
    require_finite(directory.state);
  } catch (const FormatFault& fault) {
    fail(model_path, std::string("is not a usable model: ") + fault.what(), kCopyAgain);
  } catch (const std::system_error& fault) {
    fail(model_path, "cannot be read (" + fault.code().message() + ")", kCopyAgain);
  }
  const auto read_if_there = [&](std::string_view name, const auto& read) {
    if (const fs::path path = folder / name; is_there(path)) read(path);
  };
  if (const auto num_classes = directory.spec.num_classes)
    read_if_there(kLabelMapFile, [&](const fs::path& path) {
      try {
        directory.labels = parse_label_map(read_part(path, kMaxLabelMap));
      } catch (const FormatFault& fault) {
        fail(path, std::string("is not a label map: ") + fault.what(), "Train the model again.");
      }
      if (std::ssize(directory.labels) != *num_classes)
        fail(path,
             "has " + std::to_string(directory.labels.size()) + " labels for " +
                 std::to_string(*num_classes) + " classes",
             "Train the model again.");
    });
  read_if_there(kPreprocessingFile, [&](const fs::path& path) {
    directory.preprocessing = parse_preprocessing(read_part(path, kMaxSpecBytes), path.string());
    // The specification also stores mean and std, for the designer's programs; they must match.
    if (const auto& stored = directory.spec.normalization;
        stored && *stored != directory.preprocessing->normalization)
      fail(path, "has a different mean or std than " + std::string(kSpecFile),
           "Train the model again or copy its complete directory.");
  });
  read_if_there(kCalibrationFile, [&](const fs::path& path) {
    directory.calibration = parse_calibration(read_part(path, kMaxCalibrationBytes), path.string());
  });
  // Thresholds cannot be guessed; and those of another model would be wrong.
  if (directory.spec.num_classes &&
      std::ssize(directory.calibration.labels) != directory.spec.num_thresholds())
    fail(folder / kCalibrationFile, "is missing, or is not that of this model's classes",
         kCopyAgain);
  read_if_there(kSeenImagesFile, [&](const fs::path& path) {
    directory.seen_images = parse_seen_images(read_part(path, kMaxSeenImages), path.string());
  });
  read_if_there(kFeaturesFile,
                [&](const fs::path& path) { directory.features = read_part(path, kMaxFeatures); });
  return directory;
}

}  // namespace

void read_one_model(const fs::path& folder, const std::function<void()>& read) {
  constexpr int kMaxReads = 4;
  for (int i = 0; i < kMaxReads; ++i) {
    finish_interrupted_save(folder);
    const ModelStamp before = stamp_of(folder);
    // The journal is removed last: without one, `_meta.yaml` is that of the model in place.
    const auto is_same = [&] { return !is_half_replaced(folder) && stamp_of(folder) == before; };
    try {
      read();
      if (is_same()) return;
    } catch (const std::exception&) {
      if (is_same()) throw;
    }
  }
  fail(folder, formatted("was replaced each of the %d times that it was read", kMaxReads),
       "Try again.");
}

ModelSpec read_model_spec(const fs::path& folder) {
  ModelSpec spec;
  read_one_model(folder, [&] { spec = read_spec(folder); });
  return spec;
}

ModelDirectory read_model_directory(const fs::path& folder) {
  ModelDirectory directory;
  read_one_model(folder, [&] {
    directory = {};  // the memory of what was read before
    directory = read_files(folder);
  });
  return directory;
}

std::vector<OutputFile> untrained_model_files(const ModelSpec& spec, const StateDict& state,
                                              const std::vector<std::string>& labels) {
  std::vector<OutputFile> files;
  ModelSpec own = spec;  // it may come from a directory with different file names
  own.model_file = kModelFile;
  const std::string now = time_stamp(std::chrono::system_clock::now());
  files.push_back({std::string(kSpecFile), format_model_spec(own, now)});
  files.push_back({std::string(kModelFile), write_torch_zip(state)});
  if (spec.num_classes) files.push_back({std::string(kLabelMapFile), format_label_map(labels)});
  files.push_back(
      {std::string(kMetaFile), "type: ModelDirectory\nextension: {}\nmodel: model_spec.yaml\n"});
  return files;
}

std::vector<OutputFile> trained_model_files(const TrainedModel& model) {
  if (!model.spec.num_classes ||
      model.labels.size() != static_cast<std::size_t>(*model.spec.num_classes))
    throw InternalError("trained_model_files: classes and labels must be set");
  ModelSpec spec = model.spec;
  spec.normalization = model.preprocessing.normalization;
  std::vector<OutputFile> files = untrained_model_files(spec, model.state, model.labels);
  OutputFile meta = std::move(files.back());
  meta.bytes += "registerModel: true\nmodelOutputPath: trained_model_outputs\n";
  files.pop_back();
  files.push_back({std::string(kSafetensorsFile), write_safetensors(model.state)});
  files.push_back({std::string(kPreprocessingFile), format_preprocessing(model.preprocessing)});
  files.push_back({std::string(kCalibrationFile), format_calibration(model.calibration)});
  if (model.seen_images)
    files.push_back({std::string(kSeenImagesFile), pack_seen_images(*model.seen_images)});
  if (!model.features.empty()) files.push_back({std::string(kFeaturesFile), model.features});
  if (!model.training_features.empty())
    files.push_back({std::string(kTrainingFeaturesFile), model.training_features});
  files.push_back({"_schema.json", model.schema_json});
  files.push_back({"_samples.json", model.samples_json});
  files.push_back({"training.json", model.training_json});
  files.push_back(std::move(meta));
  return files;
}

std::string time_stamp(std::chrono::system_clock::time_point time) {
  using std::chrono::microseconds, std::chrono::seconds;
  const auto micro = std::chrono::floor<microseconds>(time);
  const auto second = std::chrono::floor<seconds>(micro);  // rounds down before 1970, too
  const std::time_t whole = second.time_since_epoch().count();
  std::tm utc{};
  gmtime_r(&whole, &utc);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  return formatted("%s.%06d+0000", date, static_cast<int>((micro - second).count()));
}

std::string format_label_map(const std::vector<std::string>& labels) {
  std::string csv = ",label\n";
  for (std::size_t id = 0; id < labels.size(); ++id)
    csv += std::to_string(id) + ',' + csv_field(labels[id]) + '\n';
  return csv;
}

std::vector<std::string> parse_label_map(std::string_view csv) {
  if (csv.empty()) throw FormatFault("it is empty");
  CsvReader reader(csv);
  std::vector<std::string> row, labels;
  const auto fail = [&](const std::string& fault) {
    throw FormatFault("line " + std::to_string(reader.line()) + " " + fault);
  };
  const auto next = [&] {
    try {
      if (!reader.next(row)) return false;
    } catch (const std::invalid_argument& fault) {
      fail(std::string("is not CSV: ") + fault.what());
    }
    if (row.size() != 2) fail("does not have two columns");
    return true;
  };
  if (!next() || row[1] != "label") fail("is not ',label'");
  while (next()) {
    if (row[0] != std::to_string(labels.size()))
      fail("has id '" + row[0].substr(0, 40) + "' instead of " + std::to_string(labels.size()));
    labels.push_back(row[1]);
  }
  return labels;
}

namespace {

bool is_known_name(std::string_view name) {
  const auto holds = [name](const auto& names) {
    return std::ranges::find(names, name) != names.end();
  };
  return name == kMetaFile || holds(kOwnFiles) || holds(kDesignerFiles);
}

// The names that do not belong to a model directory, sorted. Without a valid `_meta.yaml`, no name
// belongs to one.
std::vector<std::string> foreign_names(const fs::path& folder) {
  std::vector<std::string> known, foreign;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (is_ignored_name(name)) continue;
    const bool is_file = entry.is_symlink() || entry.is_regular_file();
    (is_file && is_known_name(name) ? known : foreign).push_back(name);
  }
  bool is_model = false;
  try {
    is_model = known.empty() || read_directory_meta(folder / kMetaFile).type == "ModelDirectory";
  } catch (const Error&) {
  }
  if (!is_model) foreign.insert(foreign.end(), known.begin(), known.end());
  std::ranges::sort(foreign);
  return foreign;
}

}  // namespace

// The shallowest folder with a _meta.yaml, such as "" or "model/". Throws ArchiveFault.
static std::string folder_of_model(const OpenFile& tar) {
  std::optional<std::string> found, other;
  const auto depth = [](const std::string& folder) { return std::ranges::count(folder, '/'); };
  list_tar(tar, [&](std::string_view name, const ArchiveMember&) {
    if (name != kMetaFile && !name.ends_with("/" + std::string(kMetaFile))) return;
    std::string folder(name.substr(0, name.size() - kMetaFile.size()));
    if (found && depth(folder) > depth(*found)) return;
    if (found && depth(folder) < depth(*found))
      other.reset();
    else if (found && folder != *found)
      other = found;
    found = std::move(folder);
  });
  if (!found)
    throw ArchiveFault("it has no " + std::string(kMetaFile) + ", so it has no model directory");
  if (other)
    throw ArchiveFault("it has several model directories, such as " + quoted_path(*other) +
                       " and " + quoted_path(*found));
  return *found;
}

static void write_member(const OpenFile& tar, const ArchiveMember& member, const fs::path& target) {
  constexpr std::uint64_t kPiece = 1 << 20;
  DurableFile out(target);
  for (std::uint64_t done = 0; done < member.size; done += kPiece)
    out.write(tar.bytes_at(member.offset + done, std::min(kPiece, member.size - done)));
  out.commit();
}

TemporaryFolder unpacked_model(const fs::path& path) try {
  OpenFile tar(path);
  if (is_compressed(tar)) tar = unpacked(path);
  if (!is_tar(tar)) throw ArchiveFault("it is not a tar file");
  const std::string inside = folder_of_model(tar);
  TemporaryFolder folder("kiln-model");
  list_tar(tar, [&](std::string_view name, const ArchiveMember& member) {
    if (!name.starts_with(inside)) return;
    const std::string_view own = name.substr(inside.size());
    if (own.find('/') == own.npos && !is_ignored_name(own))
      write_member(tar, member, folder.path() / own);
  });
  return folder;
} catch (const std::exception& fault) {  // ArchiveFault, SpoolFault, std::system_error
  fail(path, std::string("cannot be unpacked: ") + fault.what(),
       "Give the model.tar.gz of a training job, or the folder with its files.");
}

OutputFolder prepare_model_output(const fs::path& path) {
  OutputFolder folder(path);
  try {
    constexpr std::size_t kShown = 3;
    if (const std::vector<std::string> foreign = foreign_names(path); !foreign.empty())
      fail_output_folder(path, "contains other files (" + quoted_names(foreign, kShown) + ")",
                         "Choose an empty folder, or one with a complete earlier model.");
    folder.prepare();
  } catch (const fs::filesystem_error& fault) {
    fail_output_folder(path, "cannot be listed (" + fault.code().message() + ")",
                       "Fix its permissions.");
  }
  return folder;
}

bool may_hold_model(const fs::path& folder) {
  return !is_there(folder) || (is_folder(folder) && foreign_names(folder).empty());
}

// A finished file that is another name of `source`, or a copy where files have only one.
static DurableFile linked_file(const fs::path& path, const fs::path& source) {
  DurableFile file(path);
  const std::string link = file.temporary_path().string() + "0";  // a temporary name, too
  const bool is_linked =
      ::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, link.c_str(), AT_SYMLINK_FOLLOW) == 0;
  if (!is_linked) read_in_pieces(source, [&](std::string_view piece) { file.write(piece); });
  file.finish();
  if (is_linked) fs::rename(link, file.temporary_path());
  return file;
}

void keep_directory(const fs::path& folder, const fs::path& before) {
  const OutputFolder kept = prepare_model_output(before);
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !is_known_name(name); });
  std::partition(names.begin(), names.end(),
                 [](const std::string& name) { return name != kMetaFile; });
  kept.replace(
      list_from(names,
                [&](const std::string& name) { return linked_file(before / name, folder / name); }),
      {kOwnFiles.begin(), kOwnFiles.end()});
}

void write_directory(const OutputFolder& folder, const std::vector<OutputFile>& files) {
  remove_leftovers(folder.path());
  // Files that only the earlier model has would contradict the new one.
  folder.replace(files, {kOwnFiles.begin(), kOwnFiles.end()});
}

namespace {

constexpr std::string_view kMagic = "KILNSEEN";
constexpr std::uint32_t kSeenVersion = 1;
constexpr std::size_t kHeaderBytes =
    kMagic.size() + sizeof kSeenVersion + 2 * sizeof(std::uint64_t);
constexpr std::size_t kHashBytes = 6;

std::uint64_t shortened(std::uint64_t content_hash) {
  return content_hash >> 8 * (sizeof content_hash - kHashBytes);
}

std::vector<std::uint64_t> to_list(std::vector<std::uint64_t> hashes) {
  for (std::uint64_t& hash : hashes) hash = shortened(hash);
  std::ranges::sort(hashes);
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  return hashes;
}

[[noreturn]] void refuse_seen(const std::string& where, const std::string& fault) {
  throw Error(ErrorCode::kInvalidModelDirectory,
              "'" + where + "' is not a valid list of seen images: " + fault +
                  ". Copy the complete model directory again, or delete this file.");
}

// Removes the first `count` hashes from `bytes`, which must hold at least that many.
std::vector<std::uint64_t> read_list(std::string_view& bytes, std::uint64_t count,
                                     const std::string& where) {
  std::vector<std::uint64_t> list(count);
  for (std::size_t at = 0; at < list.size(); ++at) {
    list[at] = from_little_endian(bytes.substr(at * kHashBytes, kHashBytes));
    if (at > 0 && list[at] <= list[at - 1])
      refuse_seen(where, "its hashes are not in ascending order");
  }
  bytes.remove_prefix(list.size() * kHashBytes);
  return list;
}

}  // namespace

bool SeenImages::was_trained_on(std::uint64_t content_hash) const {
  return std::binary_search(train.begin(), train.end(), shortened(content_hash));
}

bool SeenImages::was_chosen_on(std::uint64_t content_hash) const {
  return std::binary_search(valid.begin(), valid.end(), shortened(content_hash));
}

void SeenImages::add(const SeenImages& others) {
  const auto join = [](std::vector<std::uint64_t>& mine, const std::vector<std::uint64_t>& more) {
    std::vector<std::uint64_t> all;
    std::ranges::set_union(mine, more, std::back_inserter(all));
    mine = std::move(all);
  };
  join(train, others.train);
  join(valid, others.valid);
}

SeenImages make_seen_images(std::vector<std::uint64_t> train, std::vector<std::uint64_t> valid) {
  return {to_list(std::move(train)), to_list(std::move(valid))};
}

std::string pack_seen_images(const SeenImages& images) {
  std::string bytes(kMagic);
  bytes.reserve(kHeaderBytes + (images.train.size() + images.valid.size()) * kHashBytes);
  bytes += little_endian(kSeenVersion, sizeof kSeenVersion);
  for (const auto* list : {&images.train, &images.valid})
    bytes += little_endian(list->size(), sizeof(std::uint64_t));
  for (const auto* list : {&images.train, &images.valid})
    for (const std::uint64_t hash : *list) bytes += little_endian(hash, kHashBytes);
  return bytes;
}

SeenImages parse_seen_images(std::string_view bytes, const std::string& where) {
  if (!bytes.starts_with(kMagic))
    refuse_seen(where, "it does not begin with " + std::string(kMagic));
  if (bytes.size() < kHeaderBytes) refuse_seen(where, "it is truncated");
  const auto version = little_endian<std::uint32_t>(bytes, kMagic.size(), "version");
  if (version != kSeenVersion)
    refuse_seen(where, "its version is " + std::to_string(version) +
                           ", but this program supports version " + std::to_string(kSeenVersion));
  constexpr std::size_t kCounts = kMagic.size() + sizeof kSeenVersion;
  const auto num_train = little_endian<std::uint64_t>(bytes, kCounts, "count");
  const auto num_valid = little_endian<std::uint64_t>(bytes, kCounts + sizeof num_train, "count");
  bytes.remove_prefix(kHeaderBytes);
  const std::uint64_t num_there = bytes.size() / kHashBytes;
  if (num_train > num_there || num_valid != num_there - num_train || bytes.size() % kHashBytes != 0)
    refuse_seen(where, "it has " + std::to_string(bytes.size()) + " bytes of hashes, not " +
                           std::to_string(num_train) + " and " + std::to_string(num_valid) +
                           " of " + std::to_string(kHashBytes) + " bytes");
  return {read_list(bytes, num_train, where), read_list(bytes, num_valid, where)};
}

}  // namespace kiln
