// Class folders of drawn images, for tests that read them.
#pragma once

#include <cstdint>
#include <string>

#include "data/image/image.h"
#include "data/make_image.h"
#include "data/scratch_folder.h"
#include "tools/demo_data/demo_data.h"

namespace kiln::test {

class DrawnFolder : public ScratchFolder {
 public:
  void draw(const std::string& name, int index) const {
    put(name,
        test::encode_png(draw_demo_image(index % 10, 48, 3, static_cast<std::uint64_t>(index))));
  }
  // Two classes with `count` images each; `of_group` neighbors share a prefix: cat/p0_0.png.
  void draw_classes(int count, int of_group) const {
    for (int i = 0; i < count; ++i) {
      const std::string name = "p" + std::to_string(i / of_group) + "_" + std::to_string(i);
      draw("cat/" + name + ".png", i);
      draw("dog/" + name + ".png", 100 + i);
    }
  }
};

}  // namespace kiln::test
