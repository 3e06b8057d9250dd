//! The shared object's name, under which programs that link the library look for it; and that it stays once loaded.

fn main() {
    // With the feature the crate is built as a cdylib (`--crate-type`), which its manifest does not
    // name: the argument for cdylibs only would be refused.
    if std::env::var_os("CARGO_FEATURE_PRELOAD").is_some() {
        println!("cargo::rustc-link-arg=-Wl,-soname,libfreehold.so.1");
        // Threads that used it call it when they end, and the purger runs in it: `dlclose` must not unmap it.
        println!("cargo::rustc-link-arg=-Wl,-z,nodelete");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
