# LibTorch as the torch wheel ships it, found without nvcc (the wheel's own CMake package demands one).
#
#   Input:  KILN_TORCH_ROOT (cache or environment): a folder with torch/ and nvidia/; default .deps/libtorch
#           .deps/headers: what CUDA's headers include and no wheel that torch requires brings
#   Output: LibTorch::cpu   headers, c10 and torch_cpu
#           LibTorch::gomp  its OpenMP runtime, of which a process may have only one
#           LibTorch::cuda  adds torch_cuda, the CUDA runtime and NCCL, for the module only
#           LibTorch_nvrtc_LIBRARY, LibTorch_cuda_INCLUDE_DIRS: CUDA's compiler library, and the headers of CUDA

if(NOT KILN_TORCH_ROOT)
  if(DEFINED ENV{KILN_TORCH_ROOT} AND NOT "$ENV{KILN_TORCH_ROOT}" STREQUAL "")
    set(KILN_TORCH_ROOT $ENV{KILN_TORCH_ROOT})
  else()
    set(KILN_TORCH_ROOT ${CMAKE_SOURCE_DIR}/.deps/libtorch)
  endif()
endif()
if(DEFINED ENV{KILN_TORCH_ROOT} AND NOT "$ENV{KILN_TORCH_ROOT}" STREQUAL ""
   AND NOT "$ENV{KILN_TORCH_ROOT}" STREQUAL KILN_TORCH_ROOT)
  message(FATAL_ERROR "KILN_TORCH_ROOT is $ENV{KILN_TORCH_ROOT} in the environment, and ${KILN_TORCH_ROOT} in this build "
                      "folder: remove the folder, or set one of them alone.")
endif()
set(KILN_TORCH_ROOT ${KILN_TORCH_ROOT} CACHE PATH "Folder that holds torch/ and nvidia/")

find_path(LibTorch_INCLUDE_DIR ATen/core/Tensor.h
          PATHS ${KILN_TORCH_ROOT}/torch/include NO_DEFAULT_PATH)
foreach(library IN ITEMS c10 torch_cpu torch c10_cuda torch_cuda)
  find_library(LibTorch_${library}_LIBRARY ${library}
               PATHS ${KILN_TORCH_ROOT}/torch/lib NO_DEFAULT_PATH)
endforeach()
find_file(LibTorch_gomp_LIBRARY libgomp.so.1
          PATHS ${KILN_TORCH_ROOT}/torch/lib NO_DEFAULT_PATH)
# CUDA 13 has one folder, CUDA 12 one for each part.
find_file(LibTorch_cudart_LIBRARY NAMES libcudart.so.13 libcudart.so.12
          PATHS ${KILN_TORCH_ROOT}/nvidia/cu13/lib ${KILN_TORCH_ROOT}/nvidia/cuda_runtime/lib NO_DEFAULT_PATH)
find_path(LibTorch_cuda_INCLUDE_DIR cuda_runtime_api.h
          PATHS ${KILN_TORCH_ROOT}/nvidia/cu13/include ${KILN_TORCH_ROOT}/nvidia/cuda_runtime/include NO_DEFAULT_PATH)
find_path(LibTorch_inner_INCLUDE_DIR crt/host_defines.h
          PATHS ${CMAKE_SOURCE_DIR}/.deps/headers/nvidia/cu13/include NO_DEFAULT_PATH)
find_file(LibTorch_nvrtc_LIBRARY NAMES libnvrtc.so.13 libnvrtc.so.12
          PATHS ${KILN_TORCH_ROOT}/nvidia/cu13/lib ${KILN_TORCH_ROOT}/nvidia/cuda_nvrtc/lib NO_DEFAULT_PATH)
find_file(LibTorch_nccl_LIBRARY libnccl.so.2
          PATHS ${KILN_TORCH_ROOT}/nvidia/nccl/lib NO_DEFAULT_PATH)

if(LibTorch_INCLUDE_DIR)
  file(STRINGS ${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h version_lines
       REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX MATCHALL "[0-9]+" version_numbers "${version_lines}")
  list(JOIN version_numbers "." LibTorch_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY LibTorch_torch_cuda_LIBRARY
                LibTorch_gomp_LIBRARY LibTorch_cudart_LIBRARY LibTorch_nvrtc_LIBRARY LibTorch_nccl_LIBRARY LibTorch_INCLUDE_DIR
                LibTorch_cuda_INCLUDE_DIR LibTorch_inner_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "Run environment/install.sh, or set KILN_TORCH_ROOT.")

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  foreach(library IN ITEMS c10 torch_cpu torch c10_cuda torch_cuda gomp cudart nccl)
    add_library(LibTorch::lib_${library} SHARED IMPORTED)
    set_target_properties(LibTorch::lib_${library} PROPERTIES
                          IMPORTED_LOCATION ${LibTorch_${library}_LIBRARY})
  endforeach()
  add_library(LibTorch::gomp ALIAS LibTorch::lib_gomp)
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE
    ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  target_compile_definitions(LibTorch::cpu INTERFACE USE_DISTRIBUTED)
  target_link_libraries(LibTorch::cpu INTERFACE LibTorch::lib_torch_cpu LibTorch::lib_c10
                        Threads::Threads)
  # DT_RPATH, not RUNPATH: it also serves libraries of libraries and dlopen.
  target_link_options(LibTorch::cpu INTERFACE LINKER:--disable-new-dtags)

  add_library(LibTorch::cuda INTERFACE IMPORTED)
  file(GLOB LibTorch_cuda_INCLUDE_DIRS ${KILN_TORCH_ROOT}/nvidia/*/include)
  list(APPEND LibTorch_cuda_INCLUDE_DIRS ${LibTorch_inner_INCLUDE_DIR})
  target_include_directories(LibTorch::cuda SYSTEM INTERFACE ${LibTorch_cuda_INCLUDE_DIRS})
  target_compile_definitions(LibTorch::cuda INTERFACE USE_C10D_NCCL)
  # torch_cuda registers its kernels from static constructors, so nothing may drop it as unused.
  target_link_options(LibTorch::cuda INTERFACE LINKER:--no-as-needed)
  target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu LibTorch::lib_torch_cuda
                        LibTorch::lib_c10_cuda LibTorch::lib_cudart LibTorch::lib_nccl)
endif()
