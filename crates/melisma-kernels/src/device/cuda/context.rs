//! One GPU: its context, memory and loaded kernels.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::bindings::driver::{result as driver, sys};
use super::cache::Target;
use super::cublaslt::CublasLt;
use super::driver::{driver_version, failed};
use super::library::{Library, require};
use super::module::{Function, Module};
use super::source::Source;
use crate::lock::Mutex;
use crate::{Error, Remedy, Result};

/// A device pointer, or a host pointer for buffers in host memory.
pub(crate) type Address = u64;

/// One GPU with its context. Clones share it.
#[derive(Clone)]
pub struct Cuda(Arc<Inner>);

struct Inner {
    ordinal: usize,
    handle: sys::CUdevice,
    context: sys::CUcontext,
    name: String,
    /// Compute capability, 90 for 9.0.
    architecture: u32,
    n_processors: u32,
    modules: Mutex<Vec<(&'static str, Arc<Module>)>>,
    cublaslt: OnceLock<CublasLt>,
}

// SAFETY: the driver's handles may be used from any thread; `bind` makes the context current before each use.
unsafe impl Send for Inner {}
// SAFETY: the driver's handles may be used from any thread; `bind` makes the context current before each use.
unsafe impl Sync for Inner {}

impl Cuda {
    pub(crate) fn new(ordinal: usize) -> Result<Self> {
        require(Library::Driver)?;
        driver::init().map_err(|error| failed("initialise the driver", error))?;
        let count = driver::device::get_count().map_err(|error| failed("count the GPUs", error))?;
        let index = i32::try_from(ordinal).ok().filter(|&index| index < count).ok_or_else(|| {
            Error::device(format!("cuda:{ordinal}: this machine has {count} GPU(s), numbered from 0"))
                .with_hint(Remedy::ShowDevices)
        })?;
        let handle = driver::device::get(index).map_err(|error| failed("open the GPU", error))?;
        // SAFETY: `handle` is a device of the initialised driver.
        let context =
            unsafe { driver::primary_ctx::retain(handle) }.map_err(|error| failed("make a context", error))?;
        let mut inner = Inner {
            ordinal,
            handle,
            context,
            name: driver::device::get_name(handle).unwrap_or_else(|_| "unknown GPU".to_owned()),
            architecture: 0,
            n_processors: 1,
            modules: Mutex::default(),
            cublaslt: OnceLock::new(),
        };
        use sys::CUdevice_attribute_enum as Attribute;
        let major = inner.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = inner.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        inner.architecture = major * 10 + minor;
        inner.n_processors = inner.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let cuda = Self(Arc::new(inner));
        cuda.bind()?;
        Ok(cuda)
    }

    /// Returns its index, from 0.
    pub fn ordinal(&self) -> usize {
        self.0.ordinal
    }

    /// Returns its product name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns its compute capability, 90 for 9.0.
    pub fn architecture(&self) -> u32 {
        self.0.architecture
    }

    /// Returns the number of multiprocessors.
    pub fn n_processors(&self) -> u32 {
        self.0.n_processors
    }

    /// Returns whether it shares the host's memory, as on Jetson boards.
    pub fn shares_memory(&self) -> bool {
        let attribute = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_INTEGRATED;
        self.0.attribute(attribute).is_ok_and(|value| value != 0)
    }

    /// Returns its place on the bus, as `00000000:1B:00.0`.
    pub(super) fn bus_place(&self) -> Option<String> {
        use sys::CUdevice_attribute_enum as Attribute;
        let domain = self.0.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID).ok()?;
        let bus = self.0.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID).ok()?;
        let device = self.0.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID).ok()?;
        Some(format!("{domain:08X}:{bus:02X}:{device:02X}.0"))
    }

    /// Returns the free and total bytes of its memory, as reported by the driver.
    ///
    /// # Errors
    /// The device failed.
    pub fn memory(&self) -> Result<(u64, u64)> {
        self.bind()?;
        let (free, total) = driver::mem_get_info().map_err(|error| failed("read its memory", error))?;
        Ok((free as u64, total as u64))
    }

    /// Makes its context current on this thread.
    pub(crate) fn bind(&self) -> Result<()> {
        let bound = driver::ctx::get_current().map_err(|error| failed("read the context", error))?;
        if bound == Some(self.0.context) {
            return Ok(());
        }
        // SAFETY: the context is retained until `Inner` is dropped.
        unsafe { driver::ctx::set_current(self.0.context) }.map_err(|error| failed("set the context", error))
    }

    /// Returns the kernel `name` of `source`, compiled at first use.
    pub(crate) fn function(&self, source: Source, name: &str) -> Result<Function> {
        let mut modules = self.0.modules.lock();
        let known = modules.iter().find(|(known, _)| *known == source.name).map(|(_, module)| module.clone());
        let module = match known {
            Some(module) => module,
            None => {
                self.bind()?;
                let (device, architecture) = (self.name(), self.architecture());
                let target = Target { device, architecture, driver_version: driver_version()? };
                let module = Arc::new(Module::load(source, target)?);
                modules.push((source.name, module.clone()));
                module
            }
        };
        module.function(name)
    }

    /// Returns the matrix library's handle, made at first use.
    pub(crate) fn cublaslt(&self) -> Result<&CublasLt> {
        if self.0.cublaslt.get().is_none() {
            self.bind()?;
            let made = CublasLt::new()?;
            // If another thread was first, its handle is used.
            let _ = self.0.cublaslt.set(made);
        }
        self.0.cublaslt.get().ok_or_else(|| Error::device("cuBLASLt: no handle"))
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<Address> {
        self.bind()?;
        // SAFETY: a plain allocation; the caller frees it once.
        unsafe { driver::malloc_sync(bytes) }.map_err(|error| failed(&format!("allocate {bytes} bytes"), error))
    }

    pub(crate) fn free(&self, address_dev: Address) {
        // A failed free means a lost device, whose memory is gone too.
        let _ = self.bind();
        // SAFETY: allocated by `allocate`, freed once by its block.
        let _ = unsafe { driver::free_sync(address_dev) };
    }

    pub(crate) fn allocate_pinned(&self, bytes: usize) -> Result<Address> {
        self.bind()?;
        // SAFETY: a plain allocation; the caller frees it once.
        unsafe { driver::malloc_host(bytes, 0) }
            .map(|pointer| pointer as Address)
            .map_err(|error| failed(&format!("pin {bytes} bytes"), error))
    }

    pub(crate) fn free_pinned(&self, address: Address) {
        let _ = self.bind();
        // SAFETY: allocated by `allocate_pinned`, freed once by its block.
        let _ = unsafe { driver::free_host(address as *mut std::ffi::c_void) };
    }
}

impl Inner {
    fn attribute(&self, attribute: sys::CUdevice_attribute_enum) -> Result<u32> {
        // SAFETY: `handle` is a device of the initialised driver.
        let value = unsafe { driver::device::get_attribute(self.handle, attribute) };
        value.map(|value| value.max(0) as u32).map_err(|error| failed("read an attribute", error))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: retained once in `Cuda::new`. Every user of the context holds a `Cuda`, so none
        // is left.
        let _ = unsafe { driver::primary_ctx::release(self.handle) };
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cuda({}, {})", self.0.ordinal, self.0.name)
    }
}
