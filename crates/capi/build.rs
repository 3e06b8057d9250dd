//! The shared object's name, under which programs that link the library look for it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfreehold.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
