//! Selects the device.

pub use melisma_kernels::available_threads;
#[doc(hidden)]
pub use melisma_kernels::device::cuda;
use melisma_kernels::{Cpu, Isa};
#[doc(no_inline)]
pub use melisma_kernels::{Device, Queue};

pub use crate::config::DeviceRequest;
use crate::config::Threads;
use crate::{Error, Remedy, Result};

/// Selects the device, with `threads` on the CPU. An explicit device is never replaced: if it is
/// missing, this fails.
///
/// # Errors
/// [`ErrorKind::Device`](crate::ErrorKind) if the requested GPU is unusable; another kind if `MELISMA_ISA`
/// names an unknown or unavailable instruction set.
pub fn select(request: DeviceRequest, threads: Threads) -> Result<Device> {
    match request {
        DeviceRequest::Cpu => cpu(threads),
        DeviceRequest::Auto => Device::cuda(0).or_else(|_| cpu(threads)),
        DeviceRequest::Cuda(ordinal) => Device::cuda(ordinal.into()).map_err(|error| refused(ordinal, error)),
    }
}

fn cpu(threads: Threads) -> Result<Device> {
    Ok(Device::Cpu(Cpu { isa: Isa::from_env()?, threads: threads.checked()? }))
}

fn refused(ordinal: u16, error: Error) -> Error {
    let place = format!("cuda:{ordinal}");
    let error = if error.to_string().starts_with(&place) { error } else { error.at(place) };
    if !error.remedies().is_empty() { error } else { error.with_hint(Remedy::ShowDevices) }
}

/// Returns the CPU instruction set of the kernels: the one in `MELISMA_ISA`, otherwise the best.
///
/// # Errors
/// `MELISMA_ISA` names an unknown or unavailable instruction set.
#[doc(hidden)]
pub fn instruction_set() -> Result<&'static str> {
    Isa::from_env().map(|isa| isa.level().name())
}

/// Returns how much of `device` is in use now, by all processes; `None` for the CPU, and for a GPU that does not
/// answer.
#[doc(hidden)]
pub fn usage(device: &Device) -> Option<cuda::GpuUsage> {
    match device {
        Device::Cpu(_) => None,
        Device::Cuda(cuda) => cuda.usage(),
    }
}

/// Returns the host threads for work alongside a device: the CPU's own, or all for a GPU.
pub(crate) fn host_threads(device: &Device) -> usize {
    match device {
        Device::Cpu(cpu) => cpu.threads,
        Device::Cuda(_) => available_threads(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn an_explicit_gpu_is_never_replaced() {
        let on_cpu = select(DeviceRequest::Cpu, Threads::Count(3)).unwrap();
        assert!(matches!(on_cpu, Device::Cpu(Cpu { threads: 3, .. })));
        let error = select(DeviceRequest::Cuda(9999), Threads::Auto).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.to_string().starts_with("cuda:9999: "), "{error}");
        assert!(error.hint().is_some());
    }
}
