# Helpers that the CMakeLists.txt files of src/ and tests/ use.

set(KILN_WARNINGS -Wall -Wextra -Wpedantic -Werror)
if(NOT KILN_UNITY)
  list(APPEND KILN_WARNINGS -Wshadow)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # takes the files for headers
  list(APPEND KILN_WARNINGS -Wno-subobject-linkage)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND KILN_WARNINGS -Wno-restrict)  # g++ 12 sees it in its own std::string (GCC bug 105329)
endif()

# Of what is compiled more often than it runs long: two fifths of the compiler's time goes into what -O1 leaves out.
set(KILN_COMPILED_FAST $<$<CONFIG:Release>:-O1>)

# kiln_folder(NAME SOURCES … [LINK …] [PRIVATE_LINK …]): a folder of src/, or a part of one, as the static library kiln_NAME.
function(kiln_folder name)
  cmake_parse_arguments(FOLDER "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(kiln_${name} STATIC ${FOLDER_SOURCES})
  target_include_directories(kiln_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(kiln_${name} PRIVATE ${KILN_WARNINGS})
  target_link_libraries(kiln_${name} PUBLIC ${FOLDER_LINK} PRIVATE ${FOLDER_PRIVATE_LINK})
endfunction()

# kiln_test(NAME SOURCES … LINK …): the GoogleTest program of a target, kiln_NAME_test. It is one test of CTest's: a process for each
# of its cases would spend five times as long on loading LibTorch.
function(kiln_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINK" ${ARGN})
  add_executable(kiln_${name}_test ${TEST_SOURCES})
  target_include_directories(kiln_${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_options(kiln_${name}_test PRIVATE ${KILN_WARNINGS} ${KILN_COMPILED_FAST})
  target_link_libraries(kiln_${name}_test PRIVATE ${TEST_LINK} GTest::gtest GTest::gtest_main)
  # Four fifths of a unit's time is parsing the headers of LibTorch, GoogleTest and JSON: a dozen units share it. (The front
  # end takes 21 s for all 15 units of tests/train together, and 16 s for one of them alone.) So names are not repeated
  # among the files of one program.
  set_target_properties(kiln_${name}_test PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  add_test(NAME unit.${name} COMMAND kiln_${name}_test)
  set_tests_properties(unit.${name} PROPERTIES TIMEOUT 600)
endfunction()

# kiln_rank_test(NAME SOURCES … LINK … RANKS 2 3): a GoogleTest program with its own main that mpirun starts with so many
# ranks, each number a test. No output of a rank that passes.
function(kiln_rank_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINK;RANKS" ${ARGN})
  add_executable(kiln_${name}_test ${TEST_SOURCES})
  target_include_directories(kiln_${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_options(kiln_${name}_test PRIVATE ${KILN_WARNINGS} ${KILN_COMPILED_FAST})
  target_link_libraries(kiln_${name}_test PRIVATE ${TEST_LINK} GTest::gtest)
  foreach(ranks IN LISTS TEST_RANKS)
    add_test(NAME ranks.${name}.${ranks}
             COMMAND mpirun -np ${ranks} --oversubscribe --bind-to none $<TARGET_FILE:kiln_${name}_test>)
    set_tests_properties(ranks.${name}.${ranks} PROPERTIES TIMEOUT 300 PROCESSORS 2
      ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
  endforeach()
endfunction()
