// Functions of libraries that are opened at run time.
#pragma once

#include <dlfcn.h>

namespace kiln {

// nullptr where `library`, a handle of dlopen, has none of this name.
template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace kiln
