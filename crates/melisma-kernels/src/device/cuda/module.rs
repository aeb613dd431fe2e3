//! Compiled kernels loaded into a GPU's context.

use std::ffi::CString;
use std::sync::Arc;

use super::bindings::driver::{result as driver, sys};
use super::cache::{self, Target};
use super::driver::failed;
use super::source::Source;
use crate::{Error, Result};

#[derive(Debug)]
pub(super) struct Module {
    handle: sys::CUmodule,
}

// SAFETY: the driver's modules may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: the driver's modules may be used from any thread.
unsafe impl Sync for Module {}

/// One kernel, ready to launch. Its module stays loaded as long as the context.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    handle: sys::CUfunction,
    name: Arc<str>,
    _module: Arc<Module>,
}

// SAFETY: the driver's functions may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: the driver's functions may be used from any thread.
unsafe impl Sync for Function {}

impl Module {
    /// Compiles `source` or reads it from the cache, and loads it into the current context.
    pub(super) fn load(source: Source, target: Target<'_>) -> Result<Self> {
        let code = cache::machine_code(source, target)?;
        // SAFETY: `code` is a complete image, from the compiler or from a verified cache entry.
        let handle = unsafe { driver::module::load_data(code.as_ptr().cast()) }
            .map_err(|error| failed(&format!("load {}.cu", source.name), error))?;
        Ok(Self { handle })
    }

    pub(super) fn function(self: &Arc<Self>, name: &str) -> Result<Function> {
        let c_name = CString::new(name).map_err(|_| Error::invalid(format!("kernel name {name:?}")))?;
        // SAFETY: the module is loaded.
        let handle = unsafe { driver::module::get_function(self.handle, c_name) }
            .map_err(|error| failed(&format!("find the kernel {name}"), error))?;
        Ok(Function { handle, name: name.into(), _module: self.clone() })
    }
}

impl Function {
    pub(crate) fn handle(&self) -> sys::CUfunction {
        self.handle
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Allows launches with `bytes` of dynamic shared memory; more than 48 KiB needs this call.
    pub(crate) fn allow_shared(&self, bytes: usize) -> Result<()> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function's module is loaded.
        unsafe { driver::function::set_function_attribute(self.handle, attribute, bytes as i32) }
            .map_err(|error| failed(&format!("give {} {bytes} bytes of shared memory", self.name), error))
    }
}
