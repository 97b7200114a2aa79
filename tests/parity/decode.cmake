# Kiln's pixels against Pillow's. The Python packages are those that environment/install.sh puts beside LibTorch.
add_executable(kiln_decode_tool ${CMAKE_CURRENT_LIST_DIR}/decode_tool.cpp)
target_compile_options(kiln_decode_tool PRIVATE ${KILN_WARNINGS})
target_link_libraries(kiln_decode_tool PRIVATE kiln_data_load)

find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME parity.decode
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/decode_parity.py
                 $<TARGET_FILE:kiln_decode_tool>)
set_tests_properties(parity.decode PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
