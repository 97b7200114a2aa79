# Two libraries of Debian's OpenCV, whose packages for them bring no file for CMake.
#
#   Output: OpenCV::imgproc   headers, core and imgproc, for the module only

find_path(OpenCV_INCLUDE_DIR opencv2/imgproc.hpp PATH_SUFFIXES opencv4)
find_library(OpenCV_core_LIBRARY opencv_core)
find_library(OpenCV_imgproc_LIBRARY opencv_imgproc)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenCV
  REQUIRED_VARS OpenCV_INCLUDE_DIR OpenCV_core_LIBRARY OpenCV_imgproc_LIBRARY
  REASON_FAILURE_MESSAGE "Run environment/install.sh.")

if(OpenCV_FOUND AND NOT TARGET OpenCV::imgproc)
  add_library(OpenCV::imgproc INTERFACE IMPORTED)
  target_include_directories(OpenCV::imgproc SYSTEM INTERFACE ${OpenCV_INCLUDE_DIR})
  target_link_libraries(OpenCV::imgproc INTERFACE ${OpenCV_imgproc_LIBRARY} ${OpenCV_core_LIBRARY})
endif()
