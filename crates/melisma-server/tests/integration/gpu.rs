//! A GPU as the server shows it, and one that disappears while it serves.

use std::io::Write;
use std::process::Command;
use std::sync::Arc;

use melisma::Device;
use melisma::snac::Model;
use serde_json::{Value, json};

use crate::client::{Fixture, settings};

const NAME: &str = "gpu::a_server_shows_its_gpu_and_outlives_it_on_cuda";
/// Where the host shim looks for the file whose existence means that the GPU is gone.
const LOST: &str = "MELISMA_SHIM_LOST";

fn tokens(n_frames: usize) -> String {
    let token = |frame: usize, slot: usize| format!("<custom_token_{}>", 10 + 4096 * slot + 31 * frame + slot);
    (0..n_frames).flat_map(|frame| (0..7).map(move |slot| token(frame, slot))).collect()
}

#[test]
fn a_server_shows_its_gpu_and_outlives_it_on_cuda() {
    if let Some(gone) = std::env::var_os(LOST) {
        return show_and_lose(&gone);
    }
    if std::env::var_os("MELISMA_SHIM").is_none() {
        // Past the harness, which hides what a test prints.
        return writeln!(std::io::stdout(), "SKIPPED: {NAME}: only the GPU of the shim can disappear").unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", NAME, "--nocapture"]).env(LOST, folder.path().join("gone"));
    let ended = alone.output().unwrap();
    let [told, failed] = [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(ended.status.success() && told.contains("1 passed"), "{told}{failed}");
}

fn show_and_lose(gone: &std::ffi::OsStr) {
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/snac/tiny24");
    let model = Arc::new(Model::open(tiny).unwrap());
    let server = Fixture::on(Device::cuda(0).unwrap(), &model, 1, settings());
    let metrics = || String::from_utf8(server.get("/metrics").body).unwrap();
    assert_eq!(server.post("/v1/decode", tokens(1).as_bytes()).status, 200);
    let gpu =
        json!({"memory_bytes": 1u64 << 30, "total_bytes": 4u64 << 30, "busy_percent": 37, "power_watts": 123.456});
    assert_eq!(server.get("/v1/status").json()["gpu"], gpu);
    let shown = metrics();
    for line in [
        "melisma_gpu_memory_bytes 1073741824",
        "melisma_gpu_memory_total_bytes 4294967296",
        "melisma_gpu_busy_ratio 0.37",
        "melisma_gpu_power_watts 123.456",
    ] {
        assert!(shown.lines().any(|known| known == line), "{line} in {shown}");
    }

    let mut open = server.socket("/v1/decode", &[]).unwrap_or_else(|refused| panic!("{refused:?}"));
    assert_eq!(open.next_json()["type"], "start");
    std::fs::write(gone, "").unwrap();
    open.say(&tokens(8));
    let failed = open.next_json();
    assert_eq!((&failed["type"], &failed["error"]["code"]), (&"error".into(), &"device".into()), "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("CUDA"), "{failed}");
    for _ in 0..3 {
        let refused = server.post("/v1/decode", tokens(1).as_bytes());
        assert_eq!((refused.status, refused.code().as_str()), (500, "device"), "{refused:?}");
    }
    let unready = server.get("/ready");
    assert_eq!((unready.status, unready.code().as_str()), (503, "device"), "{unready:?}");
    let seen = server.get("/v1/status");
    assert_eq!((seen.status, &seen.json()["gpu"]), (200, &Value::Null), "{seen:?}");
    assert!(seen.json()["refusals"]["device"].as_u64().unwrap() >= 3, "{seen:?}");
    assert!(!metrics().contains("melisma_gpu"));
    assert_eq!(server.get("/v1/synth.wav?preset=bright&seconds=0.1&rate=8000").status, 200, "music needs no GPU");
    server.join().unwrap();
}
