# The directory half of the data room: which images there are, and the demo data.
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibArchive REQUIRED GLOBAL)
kiln_room(image_set
  SOURCES archive_listing.cpp archive_set.cpp class_folders.cpp coco.cpp dataset_text.cpp folder_entries.cpp
          image_bytes.cpp image_directory.cpp image_directory_writer.cpp image_items.cpp image_list.cpp image_names.cpp
          image_set.cpp image_set_bytes.cpp listed_files.cpp open_file.cpp rank_order.cpp source_stamps.cpp
          strict_json.cpp tar_archive.cpp tar_writer.cpp unpack.cpp zip_directory.cpp
  LINK kiln_base
  PRIVATE_LINK yaml-cpp nlohmann_json::nlohmann_json ZLIB::ZLIB LibArchive::LibArchive)

find_path(KILN_OPENCV_INCLUDE_DIR opencv2/core.hpp PATH_SUFFIXES opencv4 REQUIRED)
find_library(KILN_OPENCV_CORE opencv_core REQUIRED)
find_library(KILN_OPENCV_IMGPROC opencv_imgproc REQUIRED)
find_package(JPEG REQUIRED)
pkg_check_modules(SPNG REQUIRED IMPORTED_TARGET spng)
kiln_room(demo
  SOURCES demo_shapes.cpp demo_writer.cpp encode.cpp
  LINK kiln_base
  PRIVATE_LINK ${KILN_OPENCV_IMGPROC} ${KILN_OPENCV_CORE} JPEG::JPEG PkgConfig::SPNG)
target_include_directories(kiln_demo SYSTEM PRIVATE ${KILN_OPENCV_INCLUDE_DIR})
