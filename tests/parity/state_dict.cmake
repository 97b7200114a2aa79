# Converts state dict files for state_dict_parity.py.
add_executable(kiln_state_dict_tool ${CMAKE_SOURCE_DIR}/tests/parity/state_dict_tool.cpp)
target_compile_options(kiln_state_dict_tool PRIVATE ${KILN_WARNINGS})
target_link_libraries(kiln_state_dict_tool PRIVATE kiln_store)
