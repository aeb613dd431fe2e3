//! Refuses to build with both CUDA interfaces or with none, in one sentence instead of a page of errors.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_on = |name: &str| std::env::var_os(format!("CARGO_FEATURE_{name}")).is_some();
    let fault = match (is_on("CUDA_12"), is_on("CUDA_13")) {
        (true, true) => "the features `cuda-12` and `cuda-13` exclude each other",
        (false, false) => "one of the features `cuda-13` (the default) and `cuda-12` is needed",
        _ => return,
    };
    println!(
        "cargo::error={fault}: build with the default features, or with `--no-default-features --features cuda-12`"
    );
}
