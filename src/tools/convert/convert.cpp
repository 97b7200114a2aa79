#include "tools/convert/convert.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/image/image.h"
#include "data/image/unread_kind.h"
#include "run/inputs/image_sizes.h"
#include "tools/commands.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNamed = 10;
constexpr std::size_t kEnough = 1024;  // to tell what a file is
constexpr std::size_t kPortion = 64;   // images that a thread takes at a time

[[noreturn]] void refuse(const fs::path& folder, const std::string& text) {
  throw Error(ErrorCode::kFailedToWriteOutputs, "Output " + quoted_path(folder) + ": " + text);
}

// The relative paths of all files and folders below a folder, except ignored ones. Each folder
// comes before those inside it. Links are not followed.
struct Contents {
  std::vector<fs::path> files, folders;
};

Contents contents_of(const fs::path& folder) {
  Contents contents;
  std::error_code fault;
  auto entry = fs::recursive_directory_iterator(folder, fault);
  for (; !fault && entry != fs::recursive_directory_iterator(); entry.increment(fault)) {
    const bool is_folder = fs::is_directory(entry->symlink_status());
    if (is_ignored_name(entry->path().filename().string())) {
      if (is_folder) entry.disable_recursion_pending();
      continue;
    }
    (is_folder ? contents.folders : contents.files)
        .push_back(entry->path().lexically_relative(folder));
  }
  if (fault) fail_to_write(folder, fault.value());
  return contents;
}

// Returns the files of an earlier ImageDirectory in `folder`, which may be incomplete. Throws Error
// kFailedToWriteOutputs if it contains anything else.
std::vector<fs::path> earlier_files(const fs::path& folder) {
  const Contents contents = contents_of(folder);
  if (contents.files.empty()) return {};
  const std::string advice = " Empty it or choose another output.";
  const DatasetContext earlier{.root = folder, .name = "Earlier output"};
  if (!is_image_directory(ListedFiles(earlier)))
    refuse(folder, "it contains '" + contents.files.front().string() +
                       "' and is not an earlier ImageDirectory." + advice);
  std::set<fs::path> known = {kMetaName, kListName, kSchemaName, kSamplesName};
  try {
    for (const std::string& file : listed_files(earlier))
      known.insert(fs::path(file).lexically_normal());
  } catch (const Error& fault) {
    refuse(folder, "it is not empty, and is not a valid ImageDirectory to replace (" +
                       fault.message() + ")." + advice);
  }
  for (const fs::path& file : contents.files) {
    if (known.contains(file)) continue;
    refuse(folder, "it is an ImageDirectory, but its list does not contain '" + file.string() +
                       "'." + advice);
  }
  return contents.files;
}

std::string output_name(const Dataset& set, std::size_t position) {
  const Sample& item = set.samples[position];
  if (set.kind == Dataset::Kind::kImageDirectory) return std::string(item.file_name);
  if (!set.labeled() || set.kind == Dataset::Kind::kCoco)
    return "image/" + std::string(item.file_name);
  return "image/" + std::to_string(item.label) + "_" + std::to_string(item.id) +
         fs::path(item.file_name).extension().string();
}

[[noreturn]] void fail_to_read(const Dataset& set, const std::string& file,
                               const std::string& why) {
  set.fail("'" + file + "' cannot be used: " + why + ". Fix the file, or remove it.");
}

// With `has_sizes`, the sizes that are known; changed images have others.
template <typename NameOf>
std::string lines_of(const Dataset& set, bool has_sizes, const NameOf& name_of) {
  std::string text;
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    Sample item = set.samples[i];
    if (!has_sizes) item.size.reset();
    text += list_line(item, name_of(i), item.label < 0 ? nullptr : &set.classes[item.label]);
  }
  return text;
}

std::string list_text(const Dataset& set) {
  return set.list_name.empty()
             ? lines_of(set, /*has_sizes=*/true, [&](std::size_t i) { return output_name(set, i); })
             : read_image_list(set);
}

// Writes the images with keep[i]. Clears keep[i] for a file that is no image, whose bytes (a link
// may lead to any file) are not copied, and adds it to `left_out`.
std::vector<DurableFile> complete_images(const Dataset& set, const fs::path& folder,
                                         std::vector<bool>& keep, OtherContents& left_out) {
  std::set<fs::path> names = {kMetaName, kListName, kSchemaName, kSamplesName};
  std::vector<DurableFile> files;
  fs::path last_parent;
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    if (!keep[i]) continue;
    const fs::path name = fs::path(output_name(set, i)).lexically_normal();
    if (names.contains(name)) continue;  // listed twice
    if (!is_utf8(name.native()))
      fail_to_read(set, printable(name.native()), "its name is not UTF-8, as a list of images is");
    std::string bytes;
    try {
      read_image_bytes(set, i, bytes);
    } catch (const ImageFault& fault) {
      fail_to_read(set, std::string(set.samples.file_name(i)), fault.what());
    }
    if (image_kind(bytes).empty()) {
      left_out.add(set.samples.file_name(i), bytes);
      keep[i] = false;
      continue;
    }
    names.insert(name);
    const fs::path path = folder / name;
    if (path.parent_path() != last_parent) make_folders(last_parent = path.parent_path());
    files.push_back(complete_file(path, bytes));
  }
  return files;
}

// Writes the files of changed images, whose names are by position; one whose name came earlier is
// left out. Sets `samples` to the contents of the first images, for `_samples.json`.
std::vector<DurableFile> complete_changed(const ChangedImages& changed, const fs::path& folder,
                                          const std::vector<std::string>& names,
                                          std::array<std::string, kNumSamples>& samples) {
  constexpr std::size_t kAtOnce = 256;
  std::vector<std::pair<std::size_t, fs::path>> wanted;
  std::set<std::string> seen;
  fs::path last_parent;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!seen.insert(names[i]).second) continue;
    const fs::path& path = wanted.emplace_back(i, folder / names[i]).second;
    if (path.parent_path() != last_parent) make_folders(last_parent = path.parent_path());
  }
  std::vector<DurableFile> files;
  files.reserve(wanted.size());
  for (std::size_t begin = 0; begin < wanted.size(); begin += kAtOnce) {
    std::vector<std::optional<DurableFile>> some(std::min(kAtOnce, wanted.size() - begin));
    in_parallel(some.size(), changed.num_threads, [&](std::size_t place) {
      const auto& [i, path] = wanted[begin + place];
      const std::string contents = changed.contents(i);
      if (i < kNumSamples) samples[i] = contents;
      some[place].emplace(complete_file(path, contents));
    });
    for (std::optional<DurableFile>& file : some) files.push_back(*std::move(file));
    if (changed.tell) changed.tell(files.size());
  }
  return files;
}

// Returns the name of each image as a PNG file. Throws Error kInvalidDataset if two
// images would have the same name.
std::vector<std::string> changed_names(const Dataset& set) {
  std::vector<std::string> names;
  std::map<std::string, std::string> sources;
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const std::string source(set.samples.file_name(i));
    names.push_back(
        fs::path(output_name(set, i)).replace_extension(".png").lexically_normal().string());
    const auto& [name, first] = *sources.emplace(names.back(), source).first;
    if (first == source) continue;
    set.fail("'" + first + "' and '" + source + "' would both become '" + name +
             "'. Rename one of them.");
  }
  return names;
}

}  // namespace

void warn_of_notes(const Dataset& set, Log& log) {
  for (const std::string& note : set.notes) log.warning(note);
  const SampleTable& samples = set.samples;
  if (std::ranges::any_of(samples, [&](const Sample& item) { return item.set != samples.set(0); }))
    log.warning(
        "The list's rows for training, validation and test are written together. --split-name "
        "writes those of one set.");
  std::vector<std::string> lost;
  if (samples.has_groups()) lost.emplace_back("groups");
  if (samples.has_weights()) lost.emplace_back("weights");
  if (!lost.empty())
    log.warning("The output has nothing of the list's " + joined(lost, " and ") + ".");
}

void OtherContents::add(std::string_view file_name, std::string_view bytes) {
  if (++count_ <= kMaxNamed)
    named_.push_back("'" + printable(file_name) + "' (" + fault_of_unread(bytes) + ")");
}

std::string OtherContents::named() const {
  return joined(named_, ", ") + (count_ > named_.size() ? ", …" : "");
}

void OtherContents::require_others(bool has_images, const Dataset& set) const {
  if (has_images || count_ == 0) return;
  set.fail("none of its files is an image: " + named() + ". Give other images.");
}

std::string OtherContents::note() const {
  if (count_ == 0) return {};
  return plural(static_cast<long long>(count_), "file is no image and is not copied: ",
                "files are no images and are not copied: ") +
         named();
}

void leave_out_other_contents(Dataset& set) {
  std::vector<std::optional<std::string>> beginnings(set.samples.size());  // of what is no image
  in_parallel((set.samples.size() + kPortion - 1) / kPortion, kScanThreads,
              [&](std::size_t portion) {
                std::string bytes;
                const std::size_t end = std::min(set.samples.size(), (portion + 1) * kPortion);
                for (std::size_t i = portion * kPortion; i < end; ++i) {
                  try {
                    read_first_bytes(set, i, kEnough, bytes);
                  } catch (const ImageFault&) {
                    continue;  // the reader of the image will say why
                  }
                  if (image_kind(bytes).empty()) beginnings[i] = bytes;
                }
              });
  OtherContents others;
  std::vector<bool> keep(set.samples.size());
  for (std::size_t i = 0; i < keep.size(); ++i) {
    keep[i] = !beginnings[i];
    if (!keep[i]) others.add(set.samples.file_name(i), *beginnings[i]);
  }
  if (others.count() == 0) return;
  others.require_others(others.count() < keep.size(), set);
  std::vector<std::string> notes = std::move(set.notes);
  set = part_of(set, keep);
  set.notes = std::move(notes);
  set.notes.push_back(others.note());
}

void check_output_folder(const fs::path& folder, const fs::path& input) {
  const fs::path output_place = resolved(folder);
  const fs::path input_place = resolved(input);
  if (is_inside(output_place, input_place) || is_inside(input_place, output_place))
    refuse(folder, "it is the input '" + input.string() +
                       "', or one is inside the other. Choose an output outside of it.");
  if (is_there(folder) && !is_folder(folder))
    refuse(folder, "it is a file. Choose another output.");
}

OutputFolder take_image_output(const fs::path& folder, const fs::path& input) {
  check_output_folder(folder, input);
  OutputFolder locked(folder);
  earlier_files(folder);
  locked.prepare();
  for (const fs::path& inner : contents_of(folder).folders) remove_leftovers(folder / inner);
  return locked;
}

ImageDirectoryOutput::ImageDirectoryOutput(const Dataset& set, std::vector<bool> keep,
                                           OutputFolder folder)
    : locked_(std::move(folder)), earlier_(earlier_files(locked_.path())) {
  files_ = complete_images(set, locked_.path(), keep, left_out_);
  left_out_.require_others(std::ranges::count(keep, true) > 0, set);
  if (std::ranges::count(keep, false) == 0) {
    add_texts(list_text(set), set.schema_json, set.samples_json);
    return;
  }
  const Dataset part = part_of(set, keep);
  add_texts(set.list_name.empty() ? list_text(part) : kept_list(set, keep), part.schema_json,
            samples_text(part));
}

ImageDirectoryOutput::ImageDirectoryOutput(const Dataset& set, const ChangedImages& changed,
                                           OutputFolder folder)
    : locked_(std::move(folder)), earlier_(earlier_files(locked_.path())) {
  const std::vector<std::string> names = changed_names(set);
  const std::string list = set.list_name.empty() ? lines_of(set, /*has_sizes=*/false,
                                                            [&](std::size_t i) { return names[i]; })
                                                 : renamed_list(set, names);
  std::array<std::string, kNumSamples> samples;
  files_ = complete_changed(changed, locked_.path(), names, samples);
  add_texts(list, set.schema_json, samples_text(set, samples));
}

void ImageDirectoryOutput::add_texts(const std::string& list, const std::string& schema,
                                     const std::string& samples) {
  const fs::path& folder = locked_.path();
  files_.push_back(complete_file(folder / kListName, list));
  files_.push_back(complete_file(folder / kSchemaName, schema));
  files_.push_back(complete_file(folder / kSamplesName, samples));
  files_.push_back(complete_file(folder / kMetaName, meta_text()));
}

void ImageDirectoryOutput::put_in_place() {
  locked_.replace(std::move(files_), earlier_);
  const std::vector<fs::path> folders = contents_of(locked_.path()).folders;
  for (auto inner = folders.rbegin(); inner != folders.rend(); ++inner)
    remove_quietly(locked_.path() / *inner);  // unless it has something
}

OtherContents write_image_directory(const Dataset& set, OutputFolder folder) {
  ImageDirectoryOutput output(set, std::vector<bool>(set.samples.size(), true), std::move(folder));
  output.put_in_place();
  return output.left_out();
}

void warn_of_turned_images(const Dataset& set, Log& log) {
  if (set.exif != Exif::kApply) return;
  if (const std::size_t count = turned_images(set, set.samples.size()).turned; count > 0)
    log.warning(plural(count, "image has", "images have") +
                " an EXIF orientation, which is copied, but ignored in an ImageDirectory: give "
                "--exif apply to whatever reads it, such as `kiln train`.");
}

int run(const ConvertConfig& config, Process& process) {
  Log& log = process.log;
  Dataset set = read_dataset(config.input_path, "Input dataset", config.records);
  report_unused(config.records, set);
  log.info("Found " + plural(std::ssize(set.samples), "image", "images") +
           (set.labeled() ? " in " + plural(std::ssize(set.classes), "class", "classes")
                          : " without labels") +
           " (" + describe(set.kind) + " '" + set.root.string() + "').");
  warn_of_notes(set, log);
  if (!set.labeled())
    log.warning(
        "The images are not in class folders one level deep, so the output has no labels and "
        "cannot be used for training.");
  warn_of_turned_images(set, log);
  const OtherContents others =
      write_image_directory(set, take_image_output(config.output_path, config.input_path));
  if (const std::string note = others.note(); !note.empty()) log.warning(note);
  log.info("Wrote the ImageDirectory '" + config.output_path + "'.");
  return 0;
}

}  // namespace kiln
