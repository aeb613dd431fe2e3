//! PyTorch checkpoints as sources of `pack`.

use std::path::Path;

use crate::sandbox::Sandbox;

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/snac/tiny24").join(name)
}

#[test]
fn a_checkpoint_is_packed_but_never_removed() {
    let sandbox = Sandbox::new();
    std::fs::copy(golden("pytorch_model.bin"), sandbox.path("m.bin")).unwrap();
    let refused = sandbox.run(&["pack", "m.bin", "--rm"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("m.bin: --rm does not work with PyTorch checkpoints"), "{}", refused.stderr);
    assert_eq!(sandbox.files(), ["m.bin"]);
    let packed = sandbox.run(&["pack", "m.bin"]);
    assert_eq!(packed.code, 0);
    assert!(packed.stdout.contains("verified; the checkpoint has "), "zip and pickle take room: {}", packed.stdout);
    for listed in [&["pack", "-l", "m.bin"][..], &["pack", "-t", "m.bin"]] {
        let ran = sandbox.run(listed);
        let expected = "error: m.bin: this PyTorch checkpoint is not packed\nhint: `melisma pack` packs it";
        assert!(ran.code == 2 && ran.stderr.starts_with(expected), "{}", ran.stderr);
    }
    assert_eq!(sandbox.run(&["pack", "-t", "m.packed.safetensors"]).code, 0);
    assert_eq!(sandbox.run(&["unpack", "m.packed.safetensors"]).code, 0);
    assert_eq!(sandbox.files(), ["m.bin", "m.packed.safetensors", "m.safetensors"]);
}

#[test]
fn the_format_before_1_6_is_named() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("old.pt"), b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.").unwrap();
    let ran = sandbox.run(&["pack", "old.pt"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("old.pt: PyTorch's old format, before 1.6, is not"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: load it and save it again"), "{}", ran.stderr);
    assert_eq!(sandbox.files(), ["old.pt"]);
}
