//! The commands of README's section on weights run as they are written there.

use std::path::Path;

use crate::sandbox::Sandbox;

#[test]
fn the_commands_of_the_readme_work_in_a_checkout() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sandbox = Sandbox::new();
    std::os::unix::fs::symlink(root.join("crates").canonicalize().unwrap(), sandbox.path("crates")).unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let section = readme.split("\n## Lossless weight packing\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let block = section.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let block = block.replace("\\\n", " ");
    let commands: Vec<&str> = block.lines().filter(|line| !line.is_empty()).collect();
    assert!(commands.len() >= 4, "{block}");
    for line in commands {
        let command = line.split('#').next().unwrap();
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("melisma"), "{line}");
        let ran = sandbox.run(&words.collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
    }
    let [before, after] = ["crates/melisma-models/mini24/model.safetensors", "mini24.safetensors"];
    assert!(std::fs::read(sandbox.path(before)).unwrap() == std::fs::read(sandbox.path(after)).unwrap());
}
