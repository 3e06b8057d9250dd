//! Empty: this package exists for its list of dependencies (see Cargo.toml).
