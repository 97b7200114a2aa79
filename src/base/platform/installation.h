// The parts of the program, wherever it is installed: the starter `kiln`, the library that it opens
// for whatever needs LibTorch, the modules, LibTorch itself.
//
//   a build folder   kiln, libkiln.so, modules       LibTorch by the library's run path
//   an archive       bin/kiln, lib/: all others      LibTorch in lib/
//   a wheel          bin/kiln, and in a folder for Python packages (site-packages, dist-packages,
//                    that of pip's --target) kiln_trainer/: all others; LibTorch in torch/lib/
//                    there or in another such folder: of a system that the environment builds on,
//                    or of a program in PATH. KILN_TORCH_ROOT names another folder that holds
//                    torch/.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kiln {

std::string_view version_number();   // "0.1.0"
std::string_view commit();           // "1a2b3c4"
std::string_view program_version();  // "kiln 0.1.0 (1a2b3c4)"

// The file `name` of this program: in the folder of the file that holds this code, the library or a
// program, or in lib/ beside that folder.
std::filesystem::path part_of_program(const std::string& name);

// dlopen() of a file that belongs to the program. Throws Error with one sentence, which ends with
// `remedy`: kFailedToCompleteOperation, or kModuleOutOfMemory. A file that is cut short, which the
// loader does not survive, ends the process with such a sentence.
void* open_part(const std::filesystem::path& file, int flags, const std::string& remedy);

// A module: what `symbol` of the program's file `name` returns, a struct with the `version` of the
// build. It uses its own libraries even where LibTorch exports the same names, as of protobuf and
// LAPACK. Throws Error as open_part(), and kUserError for a module of another build.
template <typename Module>
const Module& open_module(const std::string& name, const char* symbol, int version,
                          const std::string& remedy) {
  const std::filesystem::path path = part_of_program(name);
  void* library = open_part(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND, remedy);
  auto* entry = reinterpret_cast<const Module* (*)()>(::dlsym(library, symbol));
  const Module* found = entry == nullptr ? nullptr : entry();
  if (found == nullptr || found->version != version)
    throw Error(ErrorCode::kUserError,
                "'" + path.string() + "' is from a different build of kiln. " + "Reinstall both.");
  return *found;
}

// Opens the library with LibTorch; for the starter. Returns its main(). Throws Error, all with one
// sentence: kFailedToCompleteOperation if a part is missing, of another build or not for this
// system; kUserError if the working directory is gone, with which LibTorch would end the process;
// kModuleOutOfMemory if the limit of address space is below what LibTorch needs.
using Main = int(int argc, char** argv);
Main* open_library();

// Writes a sentence to standard error and exits with kModuleOutOfMemory. Allocates nothing.
[[noreturn]] void end_without_memory();

// What the library exports, as C names: its main(), and its program_version().
inline constexpr const char* kMainSymbol = "kiln_main";
inline constexpr const char* kVersionSymbol = "kiln_version";

}  // namespace kiln
