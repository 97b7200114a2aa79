# Helpers that every room's CMakeLists.txt uses.

set(KILN_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Werror)

# kiln_room(NAME SOURCES … [LINK …] [PRIVATE_LINK …]): one room of src/ as the static library kiln_NAME.
function(kiln_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(kiln_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(kiln_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(kiln_${name} PRIVATE ${KILN_WARNINGS})
  target_link_libraries(kiln_${name} PUBLIC ${ROOM_LINK} PRIVATE ${ROOM_PRIVATE_LINK})
endfunction()

# kiln_test(ROOM SOURCES … LINK …): the GoogleTest program of a room, kiln_ROOM_test.
function(kiln_test room)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINK" ${ARGN})
  add_executable(kiln_${room}_test ${TEST_SOURCES})
  target_include_directories(kiln_${room}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_options(kiln_${room}_test PRIVATE ${KILN_WARNINGS})
  target_link_libraries(kiln_${room}_test PRIVATE ${TEST_LINK} GTest::gtest GTest::gtest_main)
  gtest_discover_tests(kiln_${room}_test TEST_PREFIX ${room}. DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT 300)
endfunction()
