kiln_test(data_image_set
  SOURCES image_set_test.cpp image_list_test.cpp reader_mutation_test.cpp image_directory_writer_test.cpp
          archive_set_test.cpp image_items_test.cpp demo_data_test.cpp rank_order_test.cpp
  LINK kiln_image_set kiln_demo)
target_compile_definitions(kiln_data_image_set_test
  PRIVATE KILN_SOURCE_DIR="${CMAKE_SOURCE_DIR}")

kiln_test(data_index SOURCES image_index_test.cpp unpack_test.cpp LINK kiln_size_scan kiln_make_image LibArchive::LibArchive)
