// state_dict_tool zip|safetensors IN OUT: reads any state dict file and writes it in the named
// format.
#include <exception>
#include <fstream>
#include <iostream>
#include <string>

#include "base/files.h"
#include "store/state_dict_file.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: state_dict_tool zip|safetensors IN OUT\n";
    return 2;
  }
  try {
    kiln::StateDict state = kiln::read_state_dict(kiln::read_file(argv[2]));
    kiln::rename_old_densenet_keys(state);
    const bool zip = std::string(argv[1]) == "zip";
    const std::string bytes = zip ? kiln::write_torch_zip(state) : kiln::write_safetensors(state);
    std::ofstream(argv[3], std::ios::binary) << bytes;
    std::cout << state.size() << '\n';
    return 0;
  } catch (const std::exception& fault) {
    std::cerr << fault.what() << '\n';
    return 1;
  }
}
