# Arrow, with Parquet and the clouds' file systems, as the pyarrow wheel ships them.
#
#   Input:  KILN_ARROW_ROOT (cache or environment): a folder with pyarrow/; default .deps/arrow
#   Output: Arrow::arrow   headers, arrow, arrow_s3 and parquet, for the module only

if(NOT KILN_ARROW_ROOT)
  if(DEFINED ENV{KILN_ARROW_ROOT} AND NOT "$ENV{KILN_ARROW_ROOT}" STREQUAL "")
    set(KILN_ARROW_ROOT $ENV{KILN_ARROW_ROOT})
  else()
    set(KILN_ARROW_ROOT ${CMAKE_SOURCE_DIR}/.deps/arrow)
  endif()
endif()
set(KILN_ARROW_ROOT ${KILN_ARROW_ROOT} CACHE PATH "Folder that holds pyarrow/")

find_path(Arrow_INCLUDE_DIR parquet/arrow/writer.h PATHS ${KILN_ARROW_ROOT}/pyarrow/include NO_DEFAULT_PATH)
file(GLOB Arrow_arrow_LIBRARY ${KILN_ARROW_ROOT}/pyarrow/libarrow.so.*)
file(GLOB Arrow_arrow_s3_LIBRARY ${KILN_ARROW_ROOT}/pyarrow/libarrow_s3.so.*)
file(GLOB Arrow_parquet_LIBRARY ${KILN_ARROW_ROOT}/pyarrow/libparquet.so.*)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Arrow
  REQUIRED_VARS Arrow_INCLUDE_DIR Arrow_arrow_LIBRARY Arrow_arrow_s3_LIBRARY Arrow_parquet_LIBRARY
  REASON_FAILURE_MESSAGE "Run environment/install.sh, or set KILN_ARROW_ROOT.")

if(Arrow_FOUND AND NOT TARGET Arrow::arrow)
  foreach(library IN ITEMS arrow arrow_s3 parquet)
    add_library(Arrow::lib_${library} SHARED IMPORTED)
    set_target_properties(Arrow::lib_${library} PROPERTIES IMPORTED_LOCATION ${Arrow_${library}_LIBRARY})
  endforeach()
  add_library(Arrow::arrow INTERFACE IMPORTED)
  target_include_directories(Arrow::arrow SYSTEM INTERFACE ${Arrow_INCLUDE_DIR})
  target_link_libraries(Arrow::arrow INTERFACE Arrow::lib_parquet Arrow::lib_arrow_s3 Arrow::lib_arrow)
endif()
