//! Stands in for `cudarc` in a build without CUDA: what we use of it, under the same names. It is
//! never called, because [`require`](super::require) fails first.
#![allow(non_camel_case_types, non_snake_case, reason = "the names are CUDA's")]

/// A function of a module `result`, which fails.
macro_rules! call {
    (unsafe fn $name:ident($($argument:ty),*) -> $value:ty) => {
        #[allow(clippy::too_many_arguments, reason = "as in CUDA")]
        pub unsafe fn $name($(_: $argument),*) -> Result<$value, Absent> {
            Err(ABSENT)
        }
    };
    (fn $name:ident($($argument:ty),*) -> $value:ty) => {
        pub fn $name($(_: $argument),*) -> Result<$value, Absent> {
            Err(ABSENT)
        }
    };
}

/// A function of a module `sys`, and what it returns.
macro_rules! raw {
    ($name:ident($($argument:ty),*) -> $kind:ty = $value:expr) => {
        pub unsafe fn $name($(_: $argument),*) -> $kind {
            $value
        }
    };
}

macro_rules! constants {
    ($($(#[$attribute:meta])? $name:ident { $($value:ident),+ })+) => {$(
        $(#[$attribute])?
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($value),+ }
    )+};
}

pub mod driver {
    pub mod result {
        use std::ffi::c_void;

        use super::sys::{CUdeviceptr, CUfunction, CUresult, CUstream};

        #[derive(Debug, Clone, Copy)]
        pub struct DriverError(pub CUresult);

        use DriverError as Absent;
        const ABSENT: Absent = DriverError(CUresult::CUDA_ERROR_NOT_INITIALIZED);

        impl DriverError {
            pub fn error_name(&self) -> Result<&std::ffi::CStr, Self> {
                Err(ABSENT)
            }
        }

        call!(fn init() -> ());
        call!(fn mem_get_info() -> (usize, usize));
        call!(unsafe fn malloc_sync(usize) -> CUdeviceptr);
        call!(unsafe fn free_sync(CUdeviceptr) -> ());
        call!(unsafe fn malloc_host(usize, u32) -> *mut c_void);
        call!(unsafe fn free_host(*mut c_void) -> ());
        call!(unsafe fn memset_d8_async(CUdeviceptr, u8, usize, CUstream) -> ());
        call!(unsafe fn memcpy_htod_async(CUdeviceptr, &[impl Sized], CUstream) -> ());
        call!(unsafe fn memcpy_dtoh_async(&mut [impl Sized], CUdeviceptr, CUstream) -> ());
        call!(unsafe fn memcpy_dtod_async(CUdeviceptr, CUdeviceptr, usize, CUstream) -> ());
        type Size = (u32, u32, u32);
        call!(unsafe fn launch_kernel(CUfunction, Size, Size, u32, CUstream, &mut [*mut c_void]) -> ());

        pub mod device {
            use super::super::sys::{CUdevice, CUdevice_attribute_enum};
            use super::{ABSENT, Absent};

            call!(fn get_count() -> i32);
            call!(fn get(i32) -> CUdevice);
            call!(fn get_name(CUdevice) -> String);
            call!(unsafe fn get_attribute(CUdevice, CUdevice_attribute_enum) -> i32);
        }

        pub mod primary_ctx {
            use super::super::sys::{CUcontext, CUdevice};
            use super::{ABSENT, Absent};

            call!(unsafe fn retain(CUdevice) -> CUcontext);
            call!(unsafe fn release(CUdevice) -> ());
        }

        pub mod ctx {
            use super::super::sys::CUcontext;
            use super::{ABSENT, Absent};

            call!(fn get_current() -> Option<CUcontext>);
            call!(unsafe fn set_current(CUcontext) -> ());
        }

        pub mod module {
            use super::super::sys::{CUfunction, CUmodule};
            use super::{ABSENT, Absent};

            call!(unsafe fn load_data(*const std::ffi::c_void) -> CUmodule);
            call!(unsafe fn get_function(CUmodule, std::ffi::CString) -> CUfunction);
        }

        pub mod function {
            use super::super::sys::{CUfunction, CUfunction_attribute};
            use super::{ABSENT, Absent};

            call!(unsafe fn set_function_attribute(CUfunction, CUfunction_attribute, i32) -> ());
        }

        pub mod stream {
            use super::super::sys::{
                CUevent, CUevent_wait_flags, CUgraph, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus,
            };
            use super::{ABSENT, Absent};

            pub enum StreamKind {
                NonBlocking,
            }

            call!(fn create(StreamKind) -> CUstream);
            call!(unsafe fn destroy(CUstream) -> ());
            call!(unsafe fn synchronize(CUstream) -> ());
            call!(unsafe fn wait_event(CUstream, CUevent, CUevent_wait_flags) -> ());
            call!(unsafe fn begin_capture(CUstream, CUstreamCaptureMode) -> ());
            call!(unsafe fn end_capture(CUstream) -> CUgraph);
            call!(unsafe fn is_capturing(CUstream) -> CUstreamCaptureStatus);
        }

        pub mod event {
            use super::super::sys::{CUevent, CUevent_flags, CUstream};
            use super::{ABSENT, Absent};

            call!(fn create(CUevent_flags) -> CUevent);
            call!(unsafe fn destroy(CUevent) -> ());
            call!(unsafe fn record(CUevent, CUstream) -> ());
            call!(unsafe fn synchronize(CUevent) -> ());
            call!(unsafe fn elapsed(CUevent, CUevent) -> f32);
        }

        pub mod graph {
            use super::super::sys::{CUgraph, CUgraphExec, CUgraphInstantiate_flags, CUstream};
            use super::{ABSENT, Absent};

            call!(unsafe fn instantiate(CUgraph, CUgraphInstantiate_flags) -> CUgraphExec);
            call!(unsafe fn launch(CUgraphExec, CUstream) -> ());
            call!(unsafe fn exec_destroy(CUgraphExec) -> ());
            call!(unsafe fn destroy(CUgraph) -> ());
        }
    }

    pub mod sys {
        use std::ffi::c_void;

        use super::result::DriverError;

        pub type CUdevice = i32;
        pub type CUdeviceptr = u64;
        pub type CUcontext = *mut c_void;
        pub type CUmodule = *mut c_void;
        pub type CUfunction = *mut c_void;
        pub type CUstream = *mut c_void;
        pub type CUevent = *mut c_void;
        pub type CUgraph = *mut c_void;
        pub type CUgraphExec = *mut c_void;
        pub struct CUgraphInstantiate_flags(#[expect(dead_code, reason = "nothing reads it")] pub u32);

        constants! {
            cudaError_enum { CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_OUT_OF_MEMORY }
            CUdevice_attribute_enum {
                CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                CU_DEVICE_ATTRIBUTE_INTEGRATED, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID
            }
            CUfunction_attribute { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES }
            CUstreamCaptureMode { CU_STREAM_CAPTURE_MODE_RELAXED }
            CUstreamCaptureStatus { CU_STREAM_CAPTURE_STATUS_NONE }
            CUevent_flags { CU_EVENT_DEFAULT }
            CUevent_wait_flags { CU_EVENT_WAIT_DEFAULT }
        }

        pub use cudaError_enum as CUresult;

        impl CUresult {
            pub fn result(self) -> Result<(), DriverError> {
                Err(DriverError(self))
            }
        }

        raw!(cuDriverGetVersion(&mut i32) -> CUresult = CUresult::CUDA_ERROR_NOT_INITIALIZED);
    }
}

pub mod nvrtc {
    pub mod sys {
        use std::ffi::{c_char, c_void};

        pub type nvrtcProgram = *mut c_void;

        constants! {
            nvrtcResult { NVRTC_SUCCESS, NVRTC_ERROR_INTERNAL_ERROR }
        }

        use nvrtcResult as Status;
        const ABSENT: Status = Status::NVRTC_ERROR_INTERNAL_ERROR;
        type Texts = *const *const c_char;

        raw!(nvrtcVersion(&mut i32, &mut i32) -> Status = ABSENT);
        raw!(nvrtcCreateProgram(&mut nvrtcProgram, *const c_char, *const c_char, i32, Texts, Texts) -> Status = ABSENT);
        raw!(nvrtcCompileProgram(nvrtcProgram, i32, Texts) -> Status = ABSENT);
        raw!(nvrtcGetProgramLogSize(nvrtcProgram, &mut usize) -> Status = ABSENT);
        raw!(nvrtcGetProgramLog(nvrtcProgram, *mut c_char) -> Status = ABSENT);
        raw!(nvrtcGetCUBINSize(nvrtcProgram, &mut usize) -> Status = ABSENT);
        raw!(nvrtcGetCUBIN(nvrtcProgram, *mut c_char) -> Status = ABSENT);
        raw!(nvrtcDestroyProgram(&mut nvrtcProgram) -> Status = ABSENT);
        raw!(nvrtcGetErrorString(Status) -> *const c_char = std::ptr::null());
    }
}

pub mod cublaslt {
    pub mod result {
        use std::ffi::c_void;

        use super::sys::*;

        #[derive(Debug, Clone, Copy)]
        pub struct CublasError(pub cublasStatus_t);

        use CublasError as Absent;
        const ABSENT: Absent = CublasError(cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED);

        use cublasLtMatmulPreferenceAttributes_t as Attribute;
        use {cublasLtHandle_t as Handle, cublasLtMatmulDesc_t as Desc, cublasLtMatrixLayout_t as Layout};
        use {
            cublasLtMatmulAlgo_t as Algo, cublasLtMatmulHeuristicResult_t as Choice, cublasLtMatmulPreference_t as Pref,
        };
        type Const = *const c_void;
        type Mut = *mut c_void;

        call!(fn create_handle() -> Handle);
        call!(unsafe fn destroy_handle(Handle) -> ());
        call!(fn create_matrix_layout(cudaDataType, u64, u64, i64) -> Layout);
        call!(unsafe fn destroy_matrix_layout(Layout) -> ());
        call!(fn create_matmul_desc(cublasComputeType_t, cudaDataType) -> Desc);
        call!(unsafe fn destroy_matmul_desc(Desc) -> ());
        call!(fn create_matmul_pref() -> Pref);
        call!(unsafe fn set_matmul_pref_attribute(Pref, Attribute, Const, usize) -> ());
        call!(unsafe fn destroy_matmul_pref(Pref) -> ());
        call!(unsafe fn get_matmul_algo_heuristic(Handle, Desc, Layout, Layout, Layout, Layout, Pref) -> Choice);
        call!(unsafe fn matmul(
            Handle, Desc, Const, Const, Const, Layout, Const, Layout, Const, Layout, Mut, Layout,
            *const Algo, Mut, usize, Mut
        ) -> ());
    }

    pub mod sys {
        use std::ffi::c_void;

        pub type cublasLtHandle_t = *mut c_void;
        pub type cublasLtMatmulDesc_t = *mut c_void;
        pub type cublasLtMatmulPreference_t = *mut c_void;
        pub type cublasLtMatrixLayout_t = *mut c_void;

        #[derive(Debug)]
        pub struct cublasLtMatmulAlgo_t {
            #[expect(dead_code, reason = "nothing reads it")]
            pub data: [u64; 8],
        }

        pub struct cublasLtMatmulHeuristicResult_t {
            pub algo: cublasLtMatmulAlgo_t,
            pub workspaceSize: usize,
        }

        constants! {
            cudaDataType { CUDA_R_16F, CUDA_R_16BF, CUDA_R_32F }
            cublasComputeType_t { CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32 }
            cublasLtReductionScheme_t { CUBLASLT_REDUCTION_SCHEME_NONE }
            cublasLtMatmulPreferenceAttributes_t {
                CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
            }
            #[expect(dead_code, reason = "only compared with")]
            cublasStatus_t { CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED, CUBLAS_STATUS_NOT_SUPPORTED }
        }
    }
}
