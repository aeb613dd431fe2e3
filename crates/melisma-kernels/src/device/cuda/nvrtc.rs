//! Compiles CUDA C++ to machine code at run time.
//!
//! # Why at run time?
//!
//! The build needs no toolkit, and each GPU gets code for its own architecture. The first use costs
//! a moment; the result is cached by source, options, architecture and driver. The checks compile
//! every `.cu` ahead of time for three architectures and hold each kernel to its register budget.

use std::ffi::{CStr, CString, c_char};
use std::ptr::null_mut;

use super::bindings::nvrtc::sys;
use super::library::{Library, require};
use super::source::Source;
use crate::{Error, ErrorKind, Result};

/// Contraction is off, so a multiply-add is fused only where the kernel asks for it.
pub(super) const OPTIONS: [&str; 3] = ["--std=c++17", "-default-device", "--fmad=false"];

/// Returns the compiler's version, major and minor.
///
/// # Errors
/// NVRTC is missing.
pub(super) fn version() -> Result<(i32, i32)> {
    require(Library::Nvrtc)?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is loaded; both pointers are valid.
    check(unsafe { sys::nvrtcVersion(&mut major, &mut minor) }, "tell its version")?;
    Ok((major, minor))
}

/// Returns the machine code of `source` for `architecture` (90 for sm_90).
///
/// # Errors
/// NVRTC is missing, or the source does not compile; the message carries the compiler's log.
pub(super) fn compile(source: Source, architecture: u32) -> Result<Vec<u8>> {
    require(Library::Nvrtc)?;
    let _span = tracing::info_span!("nvrtc", source = source.name).entered();
    let program = Program::new(source)?;
    let mut options: Vec<CString> = OPTIONS.iter().map(|option| c_string(option)).collect();
    options.push(c_string(&format!("--gpu-architecture=sm_{architecture}")));
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the program lives; the options are null-terminated and outlive the call.
    let outcome = unsafe { sys::nvrtcCompileProgram(program.0, pointers.len() as i32, pointers.as_ptr()) };
    if outcome != sys::nvrtcResult::NVRTC_SUCCESS {
        return Err(Error::device(format!(
            "{}.cu does not compile for sm_{architecture}:\n{}",
            source.name,
            program.log()
        )));
    }
    program.machine_code()
}

struct Program(sys::nvrtcProgram);

impl Program {
    fn new(source: Source) -> Result<Self> {
        let (text, name) = (c_string(source.text), c_string(&format!("{}.cu", source.name)));
        let (names, texts): (Vec<CString>, Vec<CString>) =
            source.headers.iter().map(|header| (c_string(header.name), c_string(header.text))).unzip();
        let header_names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let headers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let mut program = null_mut();
        // SAFETY: all strings are null-terminated; NVRTC copies them.
        let outcome = unsafe {
            sys::nvrtcCreateProgram(
                &mut program,
                text.as_ptr(),
                name.as_ptr(),
                headers.len() as i32,
                headers.as_ptr(),
                header_names.as_ptr(),
            )
        };
        check(outcome, "read the source")?;
        Ok(Self(program))
    }

    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: the program lives; `size` is valid.
        let outcome = unsafe { sys::nvrtcGetProgramLogSize(self.0, &mut size) };
        if outcome != sys::nvrtcResult::NVRTC_SUCCESS {
            return String::new();
        }
        let mut log = vec![0u8; size];
        // SAFETY: `log` has the size returned above.
        let _ = unsafe { sys::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast()) };
        CStr::from_bytes_until_nul(&log).map(|log| log.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn machine_code(&self) -> Result<Vec<u8>> {
        let mut size = 0;
        // SAFETY: the program lives and was compiled.
        check(unsafe { sys::nvrtcGetCUBINSize(self.0, &mut size) }, "size the machine code")?;
        let mut code = vec![0u8; size];
        // SAFETY: `code` has the size returned above.
        check(unsafe { sys::nvrtcGetCUBIN(self.0, code.as_mut_ptr().cast()) }, "give the machine code")?;
        Ok(code)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        let _ = unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}

fn check(outcome: sys::nvrtcResult, what: &str) -> Result<()> {
    if outcome == sys::nvrtcResult::NVRTC_SUCCESS {
        return Ok(());
    }
    // SAFETY: returns a static string for any code.
    let text = unsafe { sys::nvrtcGetErrorString(outcome) };
    let reason = if text.is_null() {
        format!("{outcome:?}")
    } else {
        // SAFETY: not null; error strings are static and null-terminated.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    Err(Error::new(ErrorKind::Device, format!("NVRTC could not {what}: {reason}")))
}

/// Returns `text` for C. Our own texts contain no null bytes; a text with one would be cut there.
fn c_string(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}
