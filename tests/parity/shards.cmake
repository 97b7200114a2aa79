# Shards of `kiln pack`, read by the webdataset package.
add_test(NAME parity.shards
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/shards_parity.py $<TARGET_FILE:kiln>)
set_tests_properties(parity.shards PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300
  ENVIRONMENT "KILN_TORCH_ROOT=${KILN_TORCH_ROOT}")
