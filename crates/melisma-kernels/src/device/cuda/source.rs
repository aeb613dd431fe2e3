//! CUDA C++ sources, compiled at run time.

/// The text of a `.cu` file; its name is the kernel's directory, after that of its folder if two would be the same.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// All headers that the text includes, directly or indirectly.
    pub(crate) headers: &'static [Header],
}

/// A `.cuh` file, included by its bare name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

/// The header that every kernel includes.
pub(crate) const DEVICE: Header = Header { name: "device.cuh", text: include_str!("device.cuh") };
