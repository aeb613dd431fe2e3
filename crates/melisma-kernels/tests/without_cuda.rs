//! A machine or a build without CUDA: every way to ask for it is a plain error. Where there is a driver, this prints SKIPPED.

use std::io::Write;

use melisma_kernels::{Device, ErrorKind};

use melisma_kernels::device::cuda;

use melisma_kernels::device::nvtx;

#[test]
fn absent_libraries_are_errors() {
    let probe = cuda::probe();
    match Device::cuda(0) {
        Ok(_) => writeln!(std::io::stdout(), "SKIPPED: absent_libraries_are_errors: this machine has a GPU").unwrap(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Device);
            assert!(error.hint().is_some(), "{error}");
            if !cfg!(any(feature = "cuda-12", feature = "cuda-13")) {
                assert_eq!(error.to_string(), "this build has no CUDA");
                assert!(probe.libraries.iter().all(|library| library.place.as_ref() == Err(&error.to_string())));
            }
            assert!(probe.gpus.is_err() || probe.gpus.is_ok_and(|gpus| gpus.is_empty()));
        }
    }
    assert_eq!(probe.libraries.len(), 4);
    nvtx::push("range");
    nvtx::pop();
}

#[test]
fn a_gpu_that_does_not_exist_is_refused() {
    let error = Device::cuda(4096).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert!(error.hint().is_some());
}
