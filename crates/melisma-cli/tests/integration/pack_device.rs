//! Packed weights decoded by a GPU: the bytes are the CPU's. Without a GPU the tests say SKIPPED, or fail where
//! REQUIRE_CUDA is set.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::{self, Ran, Sandbox};

/// With what this process says of the place of CUDA's libraries, which a sandbox leaves out.
fn on_gpu(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let mut command = sandbox.command(args);
    for name in ["MELISMA_CUDA_PATH", "MELISMA_CACHE_DIR", "MELISMA_SHIM"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    Ran::from(command.args(["--device", "cuda"]).output().unwrap())
}

/// The small model, packed; none where there is no GPU.
fn sandbox() -> Option<Sandbox> {
    let sandbox = Sandbox::new();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/snac/tiny24");
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(shipped.join(name), sandbox.path(name)).unwrap();
    }
    assert_eq!(sandbox.run(&["pack", "model.safetensors", "--gpu-index"]).code, 0);
    let probe = on_gpu(&sandbox, &["pack", "-t", "model.packed.safetensors"]);
    if probe.code == 4 && std::env::var_os("REQUIRE_CUDA").is_none() {
        sandbox::skip("no GPU");
        return None;
    }
    assert_eq!(probe.code, 0, "{}", probe.stderr);
    Some(sandbox)
}

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_gpu_tests_and_unpacks_the_same_bytes() {
    let Some(sandbox) = sandbox() else { return };
    let tested = json(&on_gpu(&sandbox, &["pack", "-t", "model.packed.safetensors", "--json"]));
    assert_eq!((&tested["device"], &tested["verified"]), (&"cuda:0".into(), &true.into()));
    let unpacked = json(&on_gpu(&sandbox, &["unpack", "model.packed.safetensors", "-o", "back", "--json"]));
    assert_eq!(unpacked["device"], "cuda:0");
    let read = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    assert!(read("back") == read("model.safetensors"));
    let name = "encoder.block.0.bias";
    let part = |out| ["unpack", "model.packed.safetensors", "--tensor", name, "-o", out];
    assert_eq!(on_gpu(&sandbox, &part("gpu")).code, 0);
    assert_eq!(sandbox.run(&part("cpu")).code, 0);
    assert!(read("gpu") == read("cpu"));
    let tile = |out| [&part(out)[..], &["--tile", "0,0"]].concat();
    assert_eq!(on_gpu(&sandbox, &tile("gpu tile")).code, 0);
    assert_eq!(sandbox.run(&tile("cpu tile")).code, 0);
    assert!(read("gpu tile") == read("cpu tile"));
    let auto = json(&sandbox.run(&["unpack", "model.packed.safetensors", "-o", "auto", "--json"]));
    assert_eq!(auto["device"], "cpu");
    let mut damaged = read("model.packed.safetensors");
    let at = damaged.len() / 2;
    damaged[at] ^= 4;
    std::fs::write(sandbox.path("damaged"), damaged).unwrap();
    assert_eq!(on_gpu(&sandbox, &["pack", "-t", "damaged"]).code, 2);
}

#[test]
fn a_gpu_decodes_with_packed_weights() {
    let Some(sandbox) = sandbox() else { return };
    let ids: String = (0..7 * 6).map(|i| format!("{}\n", 128_266 + 4096 * (i % 7) + i % 8)).collect();
    std::fs::write(sandbox.path("tokens.txt"), ids).unwrap();
    let decode = |model, out| {
        let args = ["decode", "tokens.txt", "-o", out, "--model", model, "--format", "ids"];
        on_gpu(&sandbox, &args)
    };
    for (model, out) in [("model.safetensors", "plain.wav"), ("model.packed.safetensors", "packed.wav")] {
        let ran = decode(model, out);
        assert_eq!(ran.code, 0, "{model}: {}", ran.stderr);
    }
    assert!(std::fs::read(sandbox.path("plain.wav")).unwrap() == std::fs::read(sandbox.path("packed.wav")).unwrap());
}
