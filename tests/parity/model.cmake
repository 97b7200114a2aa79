# Kiln's networks against torchvision's. The Python packages are those that environment/install.sh puts beside LibTorch.
add_executable(kiln_model_tool ${CMAKE_CURRENT_LIST_DIR}/model_tool.cpp)
target_include_directories(kiln_model_tool PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_compile_options(kiln_model_tool PRIVATE ${KILN_WARNINGS})
target_link_libraries(kiln_model_tool PRIVATE kiln_commands)
kiln_share_torch_header(kiln_model_tool)

find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME parity.model
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/model_parity.py
                 --tool $<TARGET_FILE:kiln_model_tool>)
set_tests_properties(parity.model PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600
                     ENVIRONMENT KILN_TORCH_ROOT=${KILN_TORCH_ROOT})
