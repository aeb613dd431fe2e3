//! The machines that there are builds for.

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum Target {
    #[value(name = "x86_64")]
    X86,
    #[value(name = "aarch64")]
    Arm,
}

/// The oldest C library that builds run with, as zig and as manylinux name it.
pub const GLIBC: (u32, u32) = (2, 28);

impl Target {
    pub const ALL: [Self; 2] = [Self::X86, Self::Arm];

    /// Returns the name of the architecture in Rust.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }

    /// Returns its name in Debian and in containers.
    pub fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// Returns its number in ELF files.
    pub fn machine(self) -> u16 {
        match self {
            Self::X86 => 62,
            Self::Arm => 183,
        }
    }

    pub fn triple(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }

    /// Returns whether this machine is one.
    pub fn is_host(self) -> bool {
        self.name() == std::env::consts::ARCH
    }
}
