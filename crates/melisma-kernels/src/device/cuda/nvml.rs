//! What NVIDIA's management library says of a GPU. Where the library is missing or fails, its figures are left out.

use std::ffi::{CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr;
use std::sync::OnceLock;

use super::context::Cuda;
use super::library::{Library, require};

/// How much of a GPU is in use now, by all processes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuUsage {
    /// Bytes of its memory in use.
    pub memory_bytes: u64,
    /// Bytes of its memory.
    pub total_bytes: u64,
    /// The share of the last sample period in which a kernel ran, in percent.
    pub busy_percent: Option<u32>,
    /// Its power draw.
    pub power_watts: Option<f64>,
}

/// The library's handle of a device, valid until the process ends: the library is never shut down.
type Handle = *mut c_void;

#[repr(C)]
#[derive(Default)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

#[repr(C)]
#[derive(Default)]
struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

struct Calls {
    find: unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int,
    memory: unsafe extern "C" fn(Handle, *mut Memory) -> c_int,
    utilization: unsafe extern "C" fn(Handle, *mut Utilization) -> c_int,
    power: unsafe extern "C" fn(Handle, *mut c_uint) -> c_int,
}

fn calls() -> Option<&'static Calls> {
    static CALLS: OnceLock<Option<Calls>> = OnceLock::new();
    CALLS
        .get_or_init(|| {
            let library = &require(Library::Nvml).ok()?.library;
            // SAFETY: these are the names and types of NVML's C interface since version 5.
            unsafe {
                let init = library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2\0").ok()?;
                if init() != 0 {
                    return None;
                }
                Some(Calls {
                    find: *library.get(b"nvmlDeviceGetHandleByPciBusId_v2\0").ok()?,
                    memory: *library.get(b"nvmlDeviceGetMemoryInfo\0").ok()?,
                    utilization: *library.get(b"nvmlDeviceGetUtilizationRates\0").ok()?,
                    power: *library.get(b"nvmlDeviceGetPowerUsage\0").ok()?,
                })
            }
        })
        .as_ref()
}

impl Cuda {
    /// Returns how much of it is in use; `None` if neither NVML nor the driver answers, as for a GPU that was lost.
    pub fn usage(&self) -> Option<GpuUsage> {
        let asked = calls().zip(calls().and_then(|calls| self.handle(calls)));
        let Some((calls, handle)) = asked else {
            let (free, total) = self.memory().ok()?;
            return Some(GpuUsage {
                memory_bytes: total.saturating_sub(free),
                total_bytes: total,
                busy_percent: None,
                power_watts: None,
            });
        };
        let (mut memory, mut busy, mut milliwatts) = (Memory::default(), Utilization::default(), 0);
        // SAFETY: the handle is NVML's own, and each call writes only the value that it is given.
        let answers = unsafe {
            [
                (calls.memory)(handle, &mut memory),
                (calls.utilization)(handle, &mut busy),
                (calls.power)(handle, &mut milliwatts),
            ]
        };
        let [memory_bytes, total_bytes] = if answers[0] == 0 {
            [memory.used, memory.total]
        } else {
            let (free, total) = self.memory().ok()?;
            [total.saturating_sub(free), total]
        };
        Some(GpuUsage {
            memory_bytes,
            total_bytes,
            busy_percent: (answers[1] == 0).then_some(busy.gpu),
            power_watts: (answers[2] == 0).then(|| f64::from(milliwatts) / 1e3),
        })
    }

    /// Asks NVML by the place on the bus, because it numbers GPUs in another order than CUDA.
    fn handle(&self, calls: &Calls) -> Option<Handle> {
        let place = CString::new(self.bus_place()?).ok()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the text is null-terminated, and the call writes only the handle.
        let answer = unsafe { (calls.find)(place.as_ptr(), &mut handle) };
        (answer == 0).then_some(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Bench, with_cuda};

    #[test]
    fn usage_on_cuda() {
        with_cuda(case);
    }

    fn case(bench: &Bench) {
        let crate::Device::Cuda(cuda) = &bench.device else { unreachable!("the device is a GPU") };
        let usage = cuda.usage().unwrap();
        assert!(usage.memory_bytes <= usage.total_bytes && usage.total_bytes > 0, "{usage:?}");
        assert!(usage.busy_percent.is_none_or(|percent| percent <= 100), "{usage:?}");
        // Only the host shim can be told to fail.
        let Ok(found) = require(Library::Nvml) else { return };
        // SAFETY: the shim's own function, which takes an answer for all later calls.
        let fail = unsafe { found.library.get::<unsafe extern "C" fn(c_int)>(b"shimNvmlAnswer\0") };
        let Ok(fail) = fail else { return };
        assert_eq!((usage.busy_percent, usage.power_watts), (Some(37), Some(123.456)));
        // SAFETY: the shim's function takes a number, here the one of a lost GPU.
        unsafe { fail(15) };
        let lost = cuda.usage().unwrap();
        // SAFETY: the shim's function takes a number, here the one of success.
        unsafe { fail(0) };
        assert_eq!((lost.busy_percent, lost.power_watts), (None, None));
        assert_eq!(lost.total_bytes, cuda.memory().unwrap().1);
    }
}
