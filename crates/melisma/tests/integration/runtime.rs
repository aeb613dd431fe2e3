//! The runtime and the kernels together: scopes of real pools, limits that hold.

use melisma::ErrorKind;
use melisma::config::{Config, Environment, Sources};
use melisma::runtime::Pool;
use melisma::runtime::device::{self, DeviceRequest};
use melisma::runtime::memory::{self, MemoryTracker, Space};

fn config<const N: usize>(variables: [(&str, &str); N]) -> Config {
    Config::load(&Sources::default().with_environment(Environment::of(variables))).unwrap()
}

#[test]
fn pools_stay_inside_the_configured_limit_and_scopes_see_them() {
    let config = config([("MELISMA_DEVICE", "cpu"), ("MELISMA_MEMORY_LIMIT", "1MiB")]);
    let device = device::select(DeviceRequest::Cpu, config.threads.value).unwrap();
    let tracker = MemoryTracker::new(memory::budget(config.memory_limit.value, &device));
    let pool = Pool::host(tracker.budget());
    {
        let decode = tracker.scope("decode");
        let _small = pool.take(1000).unwrap();
        let _inner = decode.scope("upsample");
        let _large = pool.take(100_000).unwrap();
        let refused = pool.take(1 << 21).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Memory);
    }
    let scopes = tracker.scopes();
    assert!(scopes["decode"].peak[Space::Host as usize] >= 101_000);
    assert!(scopes["decode"].peak[Space::Host as usize] <= 1 << 20);
    assert!(scopes.contains_key("decode/upsample"));
}
