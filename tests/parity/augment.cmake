# Kiln's operations of TrivialAugmentWide against torchvision's.
add_executable(kiln_augment_tool ${CMAKE_CURRENT_LIST_DIR}/augment_tool.cpp)
target_compile_options(kiln_augment_tool PRIVATE ${KILN_WARNINGS})
target_link_libraries(kiln_augment_tool PRIVATE kiln_data_load)

add_test(NAME parity.augment
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/augment_parity.py
                 $<TARGET_FILE:kiln_augment_tool>)
set_tests_properties(parity.augment PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300
                     ENVIRONMENT KILN_TORCH_ROOT=${KILN_TORCH_ROOT})
