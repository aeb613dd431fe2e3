//! Refuses to build with both CUDA interfaces, in one sentence instead of a page of errors.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_on = |name: &str| std::env::var_os(format!("CARGO_FEATURE_{name}")).is_some();
    if is_on("CUDA_12") && is_on("CUDA_13") {
        println!(
            "cargo::error=the features `cuda-12` and `cuda-13` exclude each other: build with the default features, or with `--no-default-features --features cuda-12`"
        );
    }
}
