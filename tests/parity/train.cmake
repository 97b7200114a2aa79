# Ten training steps beside PyTorch's, with the Python packages of model.cmake.
add_executable(kiln_train_tool ${CMAKE_CURRENT_LIST_DIR}/train_tool.cpp)
target_include_directories(kiln_train_tool PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_compile_options(kiln_train_tool PRIVATE ${KILN_WARNINGS})
target_link_libraries(kiln_train_tool PRIVATE kiln_train kiln_store)
kiln_share_torch_header(kiln_train_tool)

add_test(NAME parity.train
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/train_parity.py
                 --tool $<TARGET_FILE:kiln_train_tool>)
set_tests_properties(parity.train PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600
                     ENVIRONMENT "KILN_TORCH_ROOT=${KILN_TORCH_ROOT};OMP_WAIT_POLICY=passive")
