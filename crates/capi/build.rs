//! The shared object's name, under which programs that link the library look for it; that it stays once loaded; and
//! what lies where in it.

fn main() {
    // With the feature the crate is built as a cdylib (`--crate-type`), which its manifest does not
    // name: the argument for cdylibs only would be refused.
    if std::env::var_os("CARGO_FEATURE_PRELOAD").is_some() {
        println!("cargo::rustc-link-arg=-Wl,-soname,libfreehold.so.1");
        // Threads that used it call it when they end, and the purger runs in it: `dlclose` must not unmap it.
        println!("cargo::rustc-link-arg=-Wl,-z,nodelete");
        let folder = std::env::var("CARGO_MANIFEST_DIR").expect("Cargo says where the crate is");
        println!("cargo::rustc-link-arg=-Wl,-T,{folder}/sections.ld");
        // What the dynamic loader writes to begins with a page, so that it is on one page, not on two. zig, by which packages
        // are linked, does not know the option.
        if !std::env::var("RUSTC_LINKER").is_ok_and(|linker| linker.contains("zigcc")) {
            println!("cargo::rustc-link-arg=-Wl,-z,separate-loadable-segments");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=sections.ld");
}
