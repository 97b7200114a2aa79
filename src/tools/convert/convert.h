// Writes an ImageDirectory as the designer's converter does. Image bytes are copied, never
// re-encoded. The folder may be a mount point: its files are put in place together, with
// `_meta.yaml` last (base/output_folder.h).
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/output_folder.h"
#include "data/dataset/dataset.h"

namespace kiln {

// What is no image, although it is named like one.
class OtherContents {
 public:
  void add(std::string_view file_name, std::string_view bytes);
  // Throws Error kInvalidDataset naming the files if they are all that `set` has.
  void require_others(bool has_images, const Dataset& set) const;
  // "2 files are no images and are not copied: 'cat/1.jpg' (text), …"; empty if there are none.
  std::string note() const;
  std::size_t count() const { return count_; }

 private:
  std::string named() const;

  std::size_t count_ = 0;
  std::vector<std::string> named_;  // the first few
};

// Removes them from a set, with a note. Reads the beginning of every file; one that cannot be read
// stays. Throws Error kInvalidDataset if nothing is left.
void leave_out_other_contents(Dataset& set);

// Warns of the notes of `set`, of the columns of a list that the output will not have, and of sets
// that become one.
void warn_of_notes(const Dataset& set, Log& log);

// Throws Error kFailedToWriteOutputs if `folder` is a file, or is `input`, inside it or a parent of
// it.
void check_output_folder(const std::filesystem::path& folder, const std::filesystem::path& input);

// Takes `folder` before work starts, and removes leftovers. Throws Error kFailedToWriteOutputs as
// check_output_folder() and OutputFolder do, and if it contains anything except an earlier
// ImageDirectory, leftovers of a killed run, names that start with a dot, and lost+found.
OutputFolder take_image_output(const std::filesystem::path& folder,
                               const std::filesystem::path& input);

// Images to write in place of the stored ones.
struct ChangedImages {
  // Returns the contents of the PNG file for image `i`. Called from any thread.
  std::function<std::string(std::size_t i)> contents;
  int num_threads = 1;
  // Called now and then, from the calling thread, with the number of images done.
  std::function<void(std::size_t num_done)> tell;
};

// An ImageDirectory whose files are complete under temporary names in a taken folder, so that
// several can appear together or not at all. An ImageDirectory keeps its list; class folders become
// `image/<class id>_<n><extension>`; other kinds keep their paths below `image/`. Throws Error
// kInvalidDataset if an image cannot be read, kFailedToWriteOutputs if the output cannot be
// written.
class ImageDirectoryOutput {
 public:
  // Only the images with keep[i], with the name, id and list line that they have in the whole.
  // `set` must be as returned by read_dataset().
  ImageDirectoryOutput(const Dataset& set, std::vector<bool> keep, OutputFolder folder);
  // With changed images: the schema, and everything else in the list of an ImageDirectory, is kept,
  // and `_samples.json` has the images as written. An image that is listed twice is changed once,
  // as in its first line. Throws what `contents` throws, and Error kInvalidDataset if two images
  // would have the same name.
  ImageDirectoryOutput(const Dataset& set, const ChangedImages& changed, OutputFolder folder);
  void put_in_place();  // once
  // The files that are no images, which are not copied.
  const OtherContents& left_out() const { return left_out_; }

 private:
  // The text files next to the images.
  void add_texts(const std::string& list, const std::string& schema, const std::string& samples);

  OutputFolder locked_;
  std::vector<std::filesystem::path> earlier_;  // files of an earlier ImageDirectory
  std::vector<DurableFile> files_;
  OtherContents left_out_;
};

// Warns if pictures that `set` turns upright as their EXIF orientation says are stored as they are
// in an ImageDirectory, where `--exif auto` takes them as stored.
void warn_of_turned_images(const Dataset& set, Log& log);

// Writes `set` as an ImageDirectory into a taken `folder`. Throws as ImageDirectoryOutput does.
// Returns what is no image and was not copied.
OtherContents write_image_directory(const Dataset& set, OutputFolder folder);

}  // namespace kiln
