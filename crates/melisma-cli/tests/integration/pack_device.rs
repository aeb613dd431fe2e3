//! Packed weights decoded by a GPU: the bytes are the CPU's.

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox, golden_file};

fn on_cuda(sandbox: &Sandbox, args: &[&str]) -> Ran {
    Ran::from(sandbox.on_cuda(args).unwrap().output().unwrap())
}

/// The small model, packed; none where there is no GPU.
fn sandbox() -> Option<Sandbox> {
    let sandbox = Sandbox::new();
    sandbox.on_cuda(&[])?;
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(golden_file(&format!("snac/tiny24/{name}")), sandbox.path(name)).unwrap();
    }
    assert_eq!(sandbox.run(&["pack", "model.safetensors", "--gpu-index"]).code, 0);
    Some(sandbox)
}

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()
}

#[test]
fn the_same_bytes_are_tested_and_unpacked_on_cuda() {
    let Some(sandbox) = sandbox() else { return };
    let tested = json(&on_cuda(&sandbox, &["pack", "-t", "model.packed.safetensors", "--json"]));
    assert_eq!((&tested["device"], &tested["verified"]), (&"cuda:0".into(), &true.into()));
    let unpacked = json(&on_cuda(&sandbox, &["unpack", "model.packed.safetensors", "-o", "back", "--json"]));
    assert_eq!(unpacked["device"], "cuda:0");
    let read = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    assert!(read("back") == read("model.safetensors"));
    let name = "encoder.block.0.bias";
    let part = |out| ["unpack", "model.packed.safetensors", "--tensor", name, "-o", out];
    assert_eq!(on_cuda(&sandbox, &part("gpu")).code, 0);
    assert_eq!(sandbox.run(&part("cpu")).code, 0);
    assert!(read("gpu") == read("cpu"));
    let tile = |out| [&part(out)[..], &["--tile", "0,0"]].concat();
    assert_eq!(on_cuda(&sandbox, &tile("gpu tile")).code, 0);
    assert_eq!(sandbox.run(&tile("cpu tile")).code, 0);
    assert!(read("gpu tile") == read("cpu tile"));
    let auto = json(&sandbox.run(&["unpack", "model.packed.safetensors", "-o", "auto", "--json"]));
    assert_eq!(auto["device"], "cpu");
    let mut damaged = read("model.packed.safetensors");
    let at = damaged.len() / 2;
    damaged[at] ^= 4;
    std::fs::write(sandbox.path("damaged"), damaged).unwrap();
    assert_eq!(on_cuda(&sandbox, &["pack", "-t", "damaged"]).code, 3);
}

#[test]
fn packed_weights_decode_on_cuda() {
    let Some(sandbox) = sandbox() else { return };
    let ids: String = (0..7 * 6).map(|i| format!("{}\n", 128_266 + 4096 * (i % 7) + i % 8)).collect();
    std::fs::write(sandbox.path("tokens.txt"), ids).unwrap();
    let decode = |model, out| {
        let args = ["decode", "tokens.txt", "-o", out, "--model", model, "--format", "ids"];
        on_cuda(&sandbox, &args)
    };
    for (model, out) in [("model.safetensors", "plain.wav"), ("model.packed.safetensors", "packed.wav")] {
        let ran = decode(model, out);
        assert_eq!(ran.code, 0, "{model}: {}", ran.stderr);
    }
    assert!(std::fs::read(sandbox.path("plain.wav")).unwrap() == std::fs::read(sandbox.path("packed.wav")).unwrap());
}
