//! The shared object's name, under which programs that link the library look for it.

fn main() {
    // With the feature the crate is built as a cdylib (`--crate-type`), which its manifest does not
    // name: the argument for cdylibs only would be refused.
    if std::env::var_os("CARGO_FEATURE_PRELOAD").is_some() {
        println!("cargo::rustc-link-arg=-Wl,-soname,libfreehold.so.1");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
