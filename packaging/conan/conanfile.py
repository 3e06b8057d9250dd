"""The library for Conan 2. Untested. Builds the sources that this recipe lies in; needs cargo."""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy


class Freehold(ConanFile):
    name = "freehold"
    version = "0.1.0"
    description = "A malloc that gives memory back, with heaps, statistics and profiles"
    license = "MIT OR Apache-2.0"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": True}
    package_type = "library"

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for part in ["Cargo.toml", "Cargo.lock", "LICENSE-*", "crates/*", "xtask/*", "studies/*", ".cargo/*"]:
            copy(self, part, root, self.export_sources_folder)

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch != "x86_64":
            raise ConanInvalidConfiguration("freehold is for Linux on x86-64")

    def package(self):
        script = os.path.join(self.source_folder, "crates", "capi", "install.sh")
        target = os.path.join(self.build_folder, "target")
        self.run(f'CARGO_TARGET_DIR="{target}" sh "{script}" "{self.package_folder}"')

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "Freehold")
        shared = bool(self.options.shared)
        self.cpp_info.set_property("cmake_target_name", "Freehold::freehold" if shared else "Freehold::freehold_static")
        self.cpp_info.set_property("pkg_config_name", "freehold")
        self.cpp_info.libs = ["freehold" if shared else ":libfreehold.a"]
