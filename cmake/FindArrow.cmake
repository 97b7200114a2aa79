# Arrow and Parquet as the pyarrow wheel ships them.
#
#   Input:  KILN_ARROW_ROOT (cache or environment): a folder with pyarrow/; default .deps/arrow
#   Output: Arrow::parquet   headers, arrow and parquet, for the module only

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
file(GLOB Arrow_parquet_LIBRARY ${KILN_ARROW_ROOT}/pyarrow/libparquet.so.*)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Arrow
  REQUIRED_VARS Arrow_INCLUDE_DIR Arrow_arrow_LIBRARY Arrow_parquet_LIBRARY
  REASON_FAILURE_MESSAGE "Run environment/install.sh, or set KILN_ARROW_ROOT.")

if(Arrow_FOUND AND NOT TARGET Arrow::parquet)
  foreach(library IN ITEMS arrow parquet)
    add_library(Arrow::lib_${library} SHARED IMPORTED)
    set_target_properties(Arrow::lib_${library} PROPERTIES IMPORTED_LOCATION ${Arrow_${library}_LIBRARY})
  endforeach()
  add_library(Arrow::parquet INTERFACE IMPORTED)
  target_include_directories(Arrow::parquet SYSTEM INTERFACE ${Arrow_INCLUDE_DIR})
  target_link_libraries(Arrow::parquet INTERFACE Arrow::lib_parquet Arrow::lib_arrow)
endif()
